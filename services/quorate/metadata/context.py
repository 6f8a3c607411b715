"""The input of a decision besides the state, and its output.

Rules: ``decide`` sees time, liveness and policy only through ``Context``; whatever of it mattered is written into the
events, so that ``evolve`` needs none of it. A refusal is not a ``Decision``: nothing may change with it.
"""

import msgspec

from quorate.events import Event
from quorate.metadata.commands import THIS_REVISION, Reply
from quorate.metadata.policy import PolicySettings
from quorate.model.live import LeaseTimes, LiveView, MemberView, NoLeases, NoMembers, NoSessions, SessionTimes


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside the state that a decision may depend on."""

    now_ms: int
    """Epoch milliseconds, never less than the last event's."""
    term: int
    """The Raft term the decision will be proposed in."""
    next_revision: int = THIS_REVISION
    """Of what is written next; ``THIS_REVISION``: nobody knows."""
    policy: PolicySettings
    live: LiveView
    leases: LeaseTimes = NoLeases()
    members: MemberView = NoMembers()
    sessions: SessionTimes = NoSessions()


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Events to propose, none when nothing changes, and the answer to give once they are applied."""

    events: tuple[Event, ...]
    reply: Reply
