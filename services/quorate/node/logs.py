"""The one logging configuration: an event name and fields; JSON lines unless a person is watching.

Rules: configured once, by the composition. ``warning`` means that someone should look. Each command leaves exactly one
canonical line (``command``), with how it ended and how long it took. Names used everywhere: node, term, offset,
request_id. Lines go to stderr; stdout belongs to answers. What a terminal would obey is escaped in text, as everywhere
(``quorate.terminal``); JSON is for programs. A line that cannot be written is lost, and nothing else: the node that
must stop because its disk is full is the one whose log is full too.
"""

import datetime as dt
import io
import logging
import sys
from collections.abc import Callable
from typing import TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from quorate.controller.ports import CommandLine
from quorate.node.log_sink import LogSink, sink_of
from quorate.node.settings import LogSection
from quorate.terminal import visible_lines


def configure(settings: LogSection, stream: TextIO | None = None) -> None:
    """Set up structlog for this process. ``stream``: standard error, if none is said."""
    stream = stream or sys.stderr
    as_text = _as_text(settings, stream)
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(
            colors=_watched(stream),
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
        if as_text
        else structlog.processors.JSONRenderer(ensure_ascii=False, separators=(",", ":"))  # As the lines of commands.
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            _ordered,
            structlog.processors.format_exc_info,
            *([_for_eyes] if as_text else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Lines(sink_of(stream)))),
        cache_logger_on_first_use=True,
    )


def _ordered(_: object, __: str, fields: EventDict) -> EventDict:
    """Every line begins alike: when, how bad, what, which node."""
    head = {name: fields.pop(name) for name in ("ts", "level", "event", "node") if name in fields}
    return {**head, **fields}


def _for_eyes(_: object, __: str, fields: EventDict) -> EventDict:
    """A person's terminal obeys nothing of what a stranger sent; values that are no text are shown as Python does."""
    return {name: visible_lines(value) if isinstance(value, str) else value for name, value in fields.items()}


class _Lines(io.TextIOBase):
    """What structlog takes for a stream: each text is a line with its end."""

    def __init__(self, sink: LogSink) -> None:
        self._sink = sink

    def write(self, text: str) -> int:
        """All of it, or nothing."""
        self._sink.write(text.encode("utf-8", "backslashreplace"))
        return len(text)


def _as_text(settings: LogSection, stream: TextIO | None) -> bool:
    return settings.format == "text" or (settings.format == "auto" and _watched(stream))


def _watched(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def logger(node_id: int) -> FilteringBoundLogger:
    """A logger whose lines name the node."""
    bound: FilteringBoundLogger = structlog.get_logger().bind(node=node_id)
    return bound


class CommandLogWriter:
    """Writes the canonical line of each command (controller.ports.CommandLog); what is empty is left out.

    Commands come by the thousand a second, so lines are encoded straight from their struct and written together, once
    per turn, at its end; only for a person watching do they take the way of every other line.
    """

    __slots__ = ("_defer", "_enabled", "_lines", "_log", "_node", "_sink", "_time_ms")

    def __init__(
        self,
        settings: LogSection,
        node_id: int,
        defer: Callable[[Callable[[], None]], None],
        time_ms: Callable[[], int],
        stream: TextIO | None = None,
    ) -> None:
        stream = stream or sys.stderr
        self._enabled = settings.commands and settings.level in ("debug", "info")
        self._log = logger(node_id) if _as_text(settings, stream) else None
        self._node = node_id
        self._time_ms = time_ms
        self._defer = defer
        self._sink = sink_of(stream)
        self._lines: list[CommandLine] = []

    def __call__(self, line: CommandLine) -> None:
        """One command ended."""
        if not self._enabled:
            return
        if self._log is not None:
            self._log.info("command", **{name: value for name in _FIELDS if (value := getattr(line, name)) != ""})
            return
        if not self._lines:
            self._defer(self._flush)
        self._lines.append(line)

    def _flush(self) -> None:
        """All lines of the turn, and so of one moment, in one go."""
        lines, self._lines = self._lines, []
        at = dt.datetime.fromtimestamp(self._time_ms() / 1000, dt.UTC).isoformat(timespec="microseconds")[:-6]
        head = b'{"ts":"%sZ","level":"info","event":"command","node":%d,' % (at.encode(), self._node)
        # Each line begins with the brace that the head has already, and no field holds a line end.
        text = b"\n" + _encode_lines(lines)[:-1]
        self._sink.write(text.replace(b"\n{", b"\n" + head)[1:] + b"\n")


_FIELDS = CommandLine.__struct_fields__
_encode_lines = msgspec.json.Encoder().encode_lines
