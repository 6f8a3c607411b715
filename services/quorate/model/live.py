"""What was heard of the brokers, as questions and decisions see it: soft state, which no event tells."""

from typing import Protocol


class Spoken(Protocol):
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


class LiveInfo(Spoken, Protocol):
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

    def left_ms(self, lease: int) -> int:
        """Milliseconds until it expires; 0 when that is due, or nobody knows."""


class NoLeases:
    """Nobody measures."""

    def left_ms(self, lease: int) -> int:
        """Nobody knows."""
        return 0


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
