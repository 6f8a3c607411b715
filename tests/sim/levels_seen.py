"""What the committed log says of feature levels, in clusters of two builds (``levels``).

Rules: it only looks, at what is committed: a level that some voter has not said it knows, and an event of a level that
is not in force, are violations however they came to be.
"""

from typing import Final

from quorate.events import (
    BrokerLifeBegan,
    ClusterCreated,
    Event,
    FeatureLevelChanged,
    KeyDeleted,
    KeyPut,
    LeaseCheckpointed,
    LeaseEnded,
    LeaseGranted,
    MemberAmended,
    MemberDraining,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
    NodeStarted,
    SchemaAdded,
    SchemaDeleted,
    SchemaRegistered,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    SubscriptionsChanged,
    TopicDeleted,
    WillAcknowledged,
    WillDecided,
    WillHandedOver,
    kinds_about,
)
from tests.sim.world import ViolationError

TOLD = "no level is in force that some voter has not said it knows"
IN_FORCE = "no event of a level that is not in force"
KNOWN = "nobody applies what is of a level it does not know"

OLD: Final = 1
SECOND: Final = 2
FURTHER: Final = 3
EVENTS: Final[dict[type[Event], int]] = dict.fromkeys(
    (
        BrokerLifeBegan,
        *(KeyPut, KeyDeleted, LeaseGranted, LeaseCheckpointed, LeaseEnded),
        *(MemberRegistered, MemberAmended, MemberUnfenced, MemberFenced, MemberDraining, MemberGone),
        *(SchemaAdded, SchemaRegistered, SchemaDeleted),
        *kinds_about("shard", "segment"),
        *(SessionOpened, SubscriptionsChanged, SessionDisconnected, SessionEnded, WillDecided),
        *(SessionOwnerLost, SessionOwnerSettled, WillHandedOver, WillAcknowledged),
    ),
    SECOND,
)
"""Which the old build cannot read; of two builds in one cluster, neither ``TopicDeleted``."""


class LevelsSeen:
    """What the committed log says of levels: for the invariants."""

    def __init__(self, *, mixed: bool) -> None:
        self._mixed = mixed
        self._level = 0
        self._voters: tuple[int, ...] = ()
        self._told: dict[int, int] = {}
        self._needed: list[tuple[int, int]] = []
        """(offset, level) from which on more must be known."""

    def committed(self, event: Event, offset: int) -> None:
        """The next event. Raises ViolationError."""
        match event:
            case ClusterCreated():
                self._voters = tuple(voter.id for voter in event.voters)
                self._enter(event.feature_level, offset)
            case NodeStarted():
                self._told[event.node_id] = event.feature_max
            case FeatureLevelChanged():
                unable = [voter for voter in self._voters if self._told.get(voter, OLD) < event.new]
                if unable or event.old != self._level:
                    raise ViolationError(TOLD, f"{event} at {offset}: {unable} told {self._told}")
                self._enter(event.new, offset)
            case _:
                further = self._mixed and isinstance(event, TopicDeleted)
                if (FURTHER if further else EVENTS.get(type(event), OLD)) > self._level:
                    raise ViolationError(IN_FORCE, f"{event} at {offset} in level {self._level}")

    def _enter(self, level: int, offset: int) -> None:
        self._level = level
        self._needed.append((offset, level))

    def needed(self, offset: int) -> int:
        """What who has applied the events before ``offset`` must know."""
        return max((level for at, level in self._needed if at < offset), default=OLD)
