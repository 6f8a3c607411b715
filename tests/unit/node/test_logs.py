"""Log lines: JSON for programs, one canonical line per command."""

import io
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import structlog

from quorate.controller.ports import CommandLine
from quorate.node.logs import CommandLogWriter, configure, logger
from quorate.node.settings import LogSection
from quorate.terminal import UNPRINTED

LINE = CommandLine(
    command="ElectMaster",
    principal="admin",
    address="h:1",
    origin="",
    cause="",
    request_id="",
    outcome="Answered",
    detail="",
    term=2,
    offset=9,
    took_us=120,
)


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Stderr(io.TextIOWrapper):
    """A stream with bytes beneath, as stderr is."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        data: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return data.decode()


def told(settings: LogSection, count: int = 1) -> tuple[str, list[Callable[[], None]]]:
    """What ``count`` commands leave behind, and what was put off to the end of the turn."""
    out, later = Stderr(), list[Callable[[], None]]()
    configure(settings, out)
    command_log = CommandLogWriter(settings, 3, later.append, lambda: 1_700_000_000_123, out)
    for _ in range(count):
        command_log(LINE)
    for flush in later:
        flush()
    return out.text(), later


def test_a_command_leaves_one_line_without_what_is_empty() -> None:
    """The line names the node, the outcome and the time it took; empty fields are left out."""
    text, _ = told(LogSection(format="json"))
    (line,) = map(json.loads, text.splitlines())
    assert line == {
        "ts": "2023-11-14T22:13:20.123000Z", "level": "info", "event": "command", "node": 3, "command": "ElectMaster",
        "principal": "admin", "address": "h:1", "outcome": "Answered", "term": 2, "offset": 9, "took_us": 120,
    }  # fmt: skip
    assert list(line)[:4] == ["ts", "level", "event", "node"]  # As every other line begins.


def test_all_lines_of_a_log_are_written_alike() -> None:
    """A command's line and any other have the same JSON, to the byte but for what they say: one search finds both."""
    out = io.StringIO()
    configure(LogSection(format="json"), out)
    logger(3).info("clock", news="ahead – \x01", at=1.5, of=[None, True])
    text, _ = told(LogSection(format="json"))
    for line in (out.getvalue(), text):
        assert line == json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")) + "\n"
        assert re.match(r'{"ts":"[-\d]{10}T[:\d]{8}\.\d{6}Z","level":"info","event":"c\w+","node":3,', line)


def test_the_lines_of_one_turn_are_written_together() -> None:
    """However many commands end in a turn, there is one write, and no line is lost."""
    text, later = told(LogSection(format="json"), count=5)
    assert len(text.splitlines()) == 5
    assert len(later) == 1


@pytest.mark.parametrize("settings", [LogSection(level="warning"), LogSection(commands=False)])
def test_command_lines_can_be_switched_off(settings: LogSection) -> None:
    """``log.commands = false`` and a higher level both silence them."""
    assert told(settings)[0] == ""


def test_a_person_sees_commands_as_text() -> None:
    """With ``log.format = "text"`` a command is a line of text like any other."""
    text, _ = told(LogSection(format="text"))
    assert "ElectMaster" in text
    assert not text.startswith("{")


def test_text_is_for_people() -> None:
    """``log.format = "text"`` writes no JSON."""
    out = io.StringIO()
    configure(LogSection(format="text"), out)
    logger(3).warning("disk slow", took_ms=7)
    assert "disk slow" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_text_has_nothing_that_a_terminal_obeys() -> None:
    """A name, a request id, a client's address or an error's words come from strangers; so does a command's line."""
    hostile = "1-\x1b[2J\x07\x9b31m\u202e"
    out, later = Stderr(), list[Callable[[], None]]()
    settings = LogSection(format="text")
    configure(settings, out)
    CommandLogWriter(settings, 3, later.append, lambda: 0, out)(msgspec.structs.replace(LINE, request_id=hostile))
    logger(3).warning(hostile, name=hostile, names=[hostile])
    try:
        raise ValueError(hostile)
    except ValueError:
        logger(3).exception("failed")
    told = out.text()
    assert told.count(r"\x1b[2J\x07\x9b31m\u202e") == 5, told
    assert not UNPRINTED.search(told.replace("\n", "")), told


@pytest.mark.parametrize("shape", ["json", "text"])
def test_a_log_that_cannot_be_written_harms_nobody(shape: Literal["json", "text"]) -> None:
    """On a full disk a line and a command's line are lost, and whoever wrote them goes on."""
    with Path("/dev/full").open("w") as full:
        later = list[Callable[[], None]]()
        settings = LogSection(format=shape)
        configure(settings, full)
        logger(1).critical("failed", error="no space left")
        command_log = CommandLogWriter(settings, 1, later.append, lambda: 0, full)
        command_log(LINE)
        for flush in later:
            flush()
        with suppress(OSError):
            full.close()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_collector_that_stands_still_holds_nobody_up(kind: Literal["pipe", "socket"]) -> None:
    """Thousands of commands are over at once; what there is no room for is counted, and told as soon as there is room:
    no line is cut, and every one was written or is counted.
    """
    if kind == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = (end.detach() for end in socket.socketpair())
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        later = list[Callable[[], None]]()
        command_log = CommandLogWriter(LogSection(format="json"), 1, later.append, lambda: 0, stream)

        def written(count: int) -> None:
            for _ in range(count):
                command_log(LINE)
                later.pop()()

        os.set_blocking(reading, False)
        written(5_000)
        found = b""
        for count in (*[1] * 20, 0):  # What waits is more than a pipe holds.
            while piece := reader.read():
                found += piece
            written(count)
        lines = [json.loads(line) for line in found.splitlines()]
    lost = sum(line.get("lines", 0) for line in lines)
    assert lost > 0
    assert len([line for line in lines if line["event"] == "command"]) == 5_020 - lost
    assert os.get_blocking(0)  # Nobody else's standard streams were changed.


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_a_program_without_such_a_stream_is_not_disturbed(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without standard error, or with one of its own that has no bytes beneath: lines go there, if anywhere."""
    monkeypatch.setattr(sys, "stderr", stream)
    later = list[Callable[[], None]]()
    configure(LogSection(format="auto"))
    logger(1).warning("told")
    CommandLogWriter(LogSection(format="auto"), 1, later.append, lambda: 0)(LINE)
    later.pop()()
    if stream is not None:
        assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["told", "command"]
