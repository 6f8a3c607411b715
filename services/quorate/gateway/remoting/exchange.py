"""A request of remoting from when it is read until it is answered."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from quorate.controller.outcomes import Outcome, UnknownOutcome
from quorate.gateway.remoting import answers
from quorate.gateway.remoting.server import Connection
from quorate.metadata.commands import Command
from quorate.metrics import Metrics
from quorate.wire.remoting import HeaderType, Message


class MeteredService(Protocol):
    """Whose requests are counted."""

    @property
    def metrics(self) -> Metrics:
        """Where."""

    def now(self) -> float:
        """Monotonic seconds."""


class Exchange(msgspec.Struct, eq=False):
    """One request until it is answered, exactly once."""

    service: MeteredService
    connection: Connection
    header_type: HeaderType
    opaque: int
    oneway: bool
    name: str
    started: float
    command: Command | None = None
    """What was made of it, if it is to be decided."""

    def later(self, make: Callable[[], Message]) -> None:
        """Answer with what is large, or long in the making."""
        self.connection.later(lambda: self.reply(make()))

    def decided(self, outcome: Outcome) -> None:
        """Answer what became of the command."""
        message = answers.command_answer(self.command, outcome)
        self.reply(message, unknown=outcome.__class__ is UnknownOutcome)

    def reply(self, message: Message, *, unknown: bool = False) -> None:
        """Answer and count it (RocketMQ ``request_total``, ``request_latency``); ``unknown``: what became of it was not
        known when the answer was due.
        """
        self.connection.answer(self.header_type, self.opaque, None if self.oneway else message)
        status = "timeout" if unknown else "failed" if message.code in (1, 2) else "success"
        metrics, name = self.service.metrics, self.name
        metrics.requests[name, status] += 1
        metrics.request_us[name].observe(int((self.service.now() - self.started) * 1e6))
