"""What was heard of the brokers, as questions and decisions see it: soft state, which no event tells."""

from typing import Protocol

import msgspec

from quorate.model.segments import holds_last_copy
from quorate.model.state import Member, State


class LogReport(Protocol):
    """What a heartbeat says of its broker's log."""

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


class LiveInfo(LogReport, Protocol):
    """What a broker said of itself in its heartbeats (RocketMQ ``BrokerLiveInfo``)."""

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


class LeaseTimes(Protocol):
    """How long leases live on, as the leader measures it: soft state too."""

    def left_ms(self, lease: int) -> int | None:
        """Milliseconds until it expires; 0 when that is due, None when nobody knows."""


class NoLeases:
    """Nobody measures."""

    def left_ms(self, lease: int) -> int | None:
        """Nobody knows."""
        return None


class SessionTimes(Protocol):
    """How long clients of MQTT are gone, as the leader counts it: soft state too."""

    def gone_ms(self, client: str, session_epoch: int, member_epoch: int, since_ms: int) -> int:
        """Milliseconds since the leader saw that the client is gone since then; 0: it did not see it."""


class NoSessions:
    """Nobody counts."""

    def gone_ms(self, client: str, session_epoch: int, member_epoch: int, since_ms: int) -> int:
        """Nobody saw it."""
        return 0


class MemberHealth(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """How a member says it is, in its heartbeats. 0 everywhere: it does not say."""

    disk_used_bytes: int = 0
    disk_total_bytes: int = 0
    cpu_percent: int = 0
    """Of all its processors."""
    memory_percent: int = 0
    io_errors: int = 0
    """Since it started."""


def disk_percent(health: MemberHealth) -> int:
    """How full its disk is; 0: it does not say."""
    return health.disk_used_bytes * 100 // health.disk_total_bytes if health.disk_total_bytes else 0


class MemberView(Protocol):
    """What the leader heard of members: soft state too. Of another epoch than that which is heard it knows nothing."""

    def alive(self, name: str, epoch: int) -> bool | None:
        """Was it heard within its timeout? None: nobody knows."""

    def last_heard_ms(self, name: str, epoch: int) -> int:
        """Epoch milliseconds; 0: never here."""

    def health(self, name: str, epoch: int) -> MemberHealth | None:
        """As it last said; None: never here."""

    def last_copy(self, state: State, member: Member) -> bool:
        """Has it the last copy in sync of a segment, now or a moment ago?"""


class NoMembers:
    """Nobody heard of any."""

    def alive(self, name: str, epoch: int) -> bool | None:
        """Nobody knows."""
        return None

    def last_heard_ms(self, name: str, epoch: int) -> int:
        """Never here."""
        return 0

    def health(self, name: str, epoch: int) -> MemberHealth | None:
        """Never here."""
        return None

    def last_copy(self, state: State, member: Member) -> bool:
        """Now: nothing is remembered."""
        return holds_last_copy(state, member)


class Silence:
    """A live table that never heard anybody: all that is left of the past (heartbeats are no facts)."""

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """None: never heard here, so neither a candidate nor fenceable."""
        return None

    def info(self, cluster: str, broker_set: str, broker_id: int) -> LiveInfo | None:
        """Its last words; None when it was never heard."""
        return None

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """Did its channel close, with nothing heard since and nobody to confirm it?"""
        return False
