"""Peers: programs of others that tests borrow (RocketMQ, Kafka tools, kcat). ``make peers`` puts them into ``.peers``.

Rules: a test that needs one calls ``peer("rocketmq")`` and gets the directory, or is skipped by the peer's name. Skips
are counted by name at the end of the run (tests/conftest.py), and ``.ci/run`` fails on any.
"""

import os
from pathlib import Path

import pytest

PEERS = Path(os.environ.get("QUORATE_PEERS", Path(__file__).resolve().parent.parent / ".peers"))
REASON = "absent peer: "


def present(name: str) -> bool:
    """Is the peer fetched, whole? (``make peers`` writes the ``.complete`` mark last.)"""
    return (PEERS / name / ".complete").exists()


def peer(name: str) -> Path:
    """The directory of a fetched peer; without it the test is skipped, by name."""
    if not present(name):
        pytest.skip(f"{REASON}{name} (make peers)")
    return PEERS / name
