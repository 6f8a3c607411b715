"""A fleet of simulated brokers that finds no controller."""

import asyncio

import pytest

from quorate.cli import program
from quorate.demo import fleet
from tests.unit.cli.served import serving


def test_nobody_answers_is_said_once_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """No controller within the time: one sentence. Where another port of a node was given, the right one is in it."""
    asyncio.run(fleet.tell_silence(("127.0.0.1:1",), 0.1))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("127.0.0.1:1: no controller has answered for 0.1 s; quorate up starts a cluster here")
    with serving() as node:
        node.answers["/v1/quorum"] = {"voters": [{"id": 2, "rpc": "h:2", "http": node.address}]}
        asyncio.run(fleet.tell_silence((node.address,), 0.1))
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith(f"{node.address} is the http port of node 2: say --controllers h:2")


def test_nothing_is_said_where_one_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One controller of several is enough."""

    async def answers(address: str) -> bool:
        return address == "h:2"

    monkeypatch.setattr(fleet, "_answers", answers)
    asyncio.run(fleet.tell_silence(("h:1", "h:2"), 5.0))
    assert capsys.readouterr().err == ""


def test_an_address_that_is_none_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started for it."""
    assert program.main(["simbroker", "--controllers", "nonsense"]) == 2
    assert "--controllers nonsense: expected HOST:PORT" in capsys.readouterr().err
