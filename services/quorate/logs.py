"""The one logging configuration: an event name and fields; JSON lines unless a person is watching.

Rules: configured once, by the composition. ``warning`` means that someone should look. Each command leaves exactly one
canonical line (``command``), with how it ended and how long it took. Names used everywhere: node, term, offset,
request_id. Lines go to stderr; stdout belongs to answers.
"""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from quorate.controller.ports import CommandLine
from quorate.settings import LogSection


def configure(settings: LogSection, stream: TextIO = sys.stderr) -> None:
    """Set up structlog for this process."""
    as_text = settings.format == "text" or (settings.format == "auto" and stream.isatty())
    shape: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=stream.isatty(), sort_keys=False)]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            *shape,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )


def logger(node_id: int) -> FilteringBoundLogger:
    """A logger whose lines name the node."""
    bound: FilteringBoundLogger = structlog.get_logger().bind(node=node_id)
    return bound


class CommandJournalist:
    """Writes the canonical line of each command (controller.ports.Journalist); what is empty is left out."""

    __slots__ = ("_enabled", "_log")

    def __init__(self, log: FilteringBoundLogger, *, enabled: bool) -> None:
        self._log = log
        self._enabled = enabled

    def __call__(self, line: CommandLine) -> None:
        """One command ended."""
        if not self._enabled:
            return
        fields = {name: value for name in line.__struct_fields__ if (value := getattr(line, name)) != ""}
        self._log.info("command", **fields)
