"""Addresses that a user or a node names and nobody can have: an error that says so, no traceback."""

import asyncio

import pytest

from quorate.cli.channel import CallError, connect
from quorate.cli.client import Node, NodeError
from quorate.gateway.http.answers import Status


@pytest.mark.parametrize("address", ["a..b:1", "127.0.0.1:99999", "x" * 64 + ".c:1"])
def test_a_node_nobody_can_be_does_not_answer(address: str) -> None:
    """As one that is away."""
    with pytest.raises(NodeError, match="node "):
        Node(address).get("/v1/status", Status)
    assert not Node(address).serves()


@pytest.mark.parametrize("address", ["a..b:1", "127.0.0.1:", "nonsense"])
def test_a_call_to_nobody_fails_as_any_other(address: str) -> None:
    """Who keeps trying controllers, or a master that another broker named, goes on."""
    with pytest.raises(CallError):
        asyncio.run(connect(address, lambda *_: None))
