"""What a decision may look at besides the state, and what it gives back.

Rules: ``decide`` sees time, liveness and policy only through ``Context``; whatever of it mattered is written into the
events, so that ``evolve`` needs none of it. A refusal is not a ``Decision``: nothing may change with it.
"""

from typing import Protocol

import msgspec

from quorate.events import Event
from quorate.metadata.commands import Reply
from quorate.metadata.policy import PolicySettings


class LiveInfo(Protocol):
    """What a broker said of itself in its heartbeats (RocketMQ ``BrokerLiveInfo``)."""

    @property
    def epoch(self) -> int:
        """Last master epoch of its epoch file; -1 unknown."""

    @property
    def max_offset(self) -> int:
        """End of its commit log, bytes; -1 unknown."""

    @property
    def confirm_offset(self) -> int:
        """What all in-sync replicas have, bytes; -1 unknown."""

    @property
    def priority(self) -> int:
        """Election priority; the lower value is preferred."""

    @property
    def last_heartbeat_ms(self) -> int:
        """When it was last heard, epoch milliseconds."""


class LiveView(Protocol):
    """The live table as a decision sees it: soft state, never the truth of the log."""

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """None: never heard here, so neither a candidate nor fenceable."""

    def info(self, cluster: str, broker_set: str, broker_id: int) -> LiveInfo | None:
        """Its last words; None when it was never heard."""

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """Did its channel close, with nothing heard since and nobody to confirm it?"""


class Silence:
    """A live table that never heard anybody: all that is left of the past (heartbeats are no facts)."""

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """See LiveView."""
        return None

    def info(self, cluster: str, broker_set: str, broker_id: int) -> LiveInfo | None:
        """See LiveView."""
        return None

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """See LiveView."""
        return False


class Context(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything outside the state that a decision may depend on."""

    now_ms: int
    """Epoch milliseconds, never less than the last event's."""
    term: int
    """The Raft term the decision will be proposed in."""
    policy: PolicySettings
    live: LiveView
    next_offset: int = 0
    """The offset the first event of the decision would get."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Events to propose, none when nothing changes, and the answer to give once they are applied."""

    events: tuple[Event, ...]
    reply: Reply
