"""Addresses that a node names and nobody can have: an error that says so, no traceback."""

import asyncio

import pytest

from quorate.demo.channel import CallError, connect


@pytest.mark.parametrize("address", ["a..b:1", "127.0.0.1:", "nonsense"])
def test_a_call_to_nobody_fails_as_any_other(address: str) -> None:
    """Who keeps trying controllers, or a master that another broker named, goes on."""
    with pytest.raises(CallError):
        asyncio.run(connect(address, lambda *_: None))
