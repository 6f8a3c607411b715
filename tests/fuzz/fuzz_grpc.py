"""Hostile bytes for the protobuf edge and the handlers behind it, guided by coverage.

Rules: bytes either are no message, or a handler answers with a message that can be written, or ends by a ``CallError``,
which changed nothing unless it says that nobody knows. A stream says what it has to say and waits. Any other exception,
an input that takes seconds, or more than half a gigabyte is a finding: the input is kept in ``.run/fuzz`` and the exit
status is not 0. Starts from requests of every method, and from what earlier runs found.

Usage: ``fuzz_grpc.py [--seconds N]``.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(
    include=[
        "quorate.gateway.grpc",
        "quorate.metadata.journal",
        "quorate.metadata.keys",
        "quorate.metadata.leases",
        "quorate.metadata.members",
        "quorate.metadata.sessions",
        "quorate.metadata.wills",
        "quorate.model.keys",
        "quorate.model.topic_filters",
    ],
    exclude=["quorate.gateway.grpc.pb"],
):
    from tests.fuzz.grpc_inside import Inside, seeds


class Asked:
    """A node that hears one input after the other; a new one once something was written."""

    def __init__(self) -> None:
        self._inside = Inside()

    def one(self, data: bytes) -> None:
        """One input."""
        if data:
            self._inside.ask(data)
            if not self._inside.fresh:
                self._inside = Inside()


def main() -> None:
    """Fuzz for so many seconds; libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    options: Any = parser.parse_args()
    findings = ROOT / ".run" / "fuzz"
    corpus = findings / "grpc-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (corpus / name).write_bytes(data)
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=512", "-max_len=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={findings}/grpc-", "-print_final_stats=1", str(corpus)], Asked().one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
