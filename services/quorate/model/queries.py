"""Questions about the state, and their answers; they change nothing and are never proposed.

Rules: pure functions of (state, live table).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from quorate.model.live import LiveView
from quorate.model.state import BrokerSet, Replica, State, Topic


class _Value(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of all questions and answers."""


class NextBrokerId(_Value, frozen=True):
    """1012: which id may a broker apply for? Nothing is reserved by asking."""

    cluster: str
    broker_set: str


class ReplicaInfo(_Value, frozen=True):
    """1004: who is the master of a set?"""

    broker_set: str


class SyncStateData(_Value, frozen=True):
    """1006: who is in sync in these sets? None: the body was missing."""

    broker_sets: tuple[str, ...] | None


class TopicConfig(_Value, frozen=True):
    """351: how is this topic configured?"""

    topic: str


class TopicList(_Value, frozen=True):
    """21: all topics, by name."""


Query = NextBrokerId | ReplicaInfo | SyncStateData | TopicConfig | TopicList


class NextBrokerIdIs(_Value, frozen=True):
    """Answer to NextBrokerId; the names as asked for."""

    cluster: str
    broker_set: str
    next_broker_id: int


class ReplicaInfoIs(_Value, frozen=True):
    """Answer to ReplicaInfo; the recorded master, dead or alive."""

    broker_set: str
    master: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int


class ReplicaIs(_Value, frozen=True):
    """One replica of a set; ``alive`` None: never heard."""

    broker_id: int
    address: str
    alive: bool | None
    registered: bool = False
    fenced: bool = False


class SyncStateIs(_Value, frozen=True):
    """Who of a set is in sync, and who is not; by broker id."""

    broker_set: str
    master: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set_epoch: int
    in_sync: tuple[ReplicaIs, ...]
    not_in_sync: tuple[ReplicaIs, ...]


class SyncStateDataIs(_Value, frozen=True):
    """Answer to SyncStateData: the known ones of the sets asked for, in the order asked."""

    broker_sets: tuple[SyncStateIs, ...]


class TopicConfigIs(_Value, frozen=True):
    """Answer to TopicConfig."""

    topic: Topic


class TopicListIs(_Value, frozen=True):
    """Answer to TopicList."""

    topics: tuple[Topic, ...]


Result = NextBrokerIdIs | ReplicaInfoIs | SyncStateDataIs | TopicConfigIs | TopicListIs


class Absent(_Value, frozen=True):
    """There is no answer; the refusal of this name (``metadata.refusals``) and Java's remark say so to who asked."""

    code: Literal["BrokerSetUnknown", "NoBrokerSetsNamed", "UnknownTopic"]
    remark: str


UNKNOWN_SET: Final = "Broker metadata is not existed"


def answer(query: Query, state: State, live: LiveView) -> Result | Absent:
    """The answer as of this state. Or why there is none."""
    return _ANSWERS[type(query)](query, state, live)


def _next_broker_id(query: NextBrokerId, state: State, live: LiveView) -> Result | Absent:
    """Java ``getNextBrokerId``; it looks only at the ids, which a half-known set still has."""
    broker_set = state.broker_sets.get(query.broker_set)
    following = 1 if broker_set is None else broker_set.next_broker_id
    return NextBrokerIdIs(cluster=query.cluster, broker_set=query.broker_set, next_broker_id=following)


def _replica_info(query: ReplicaInfo, state: State, live: LiveView) -> Result | Absent:
    """Java ``getReplicaInfo``."""
    broker_set = state.known(query.broker_set)
    if broker_set is None:
        return Absent(code="BrokerSetUnknown", remark=UNKNOWN_SET)
    return ReplicaInfoIs(
        broker_set=broker_set.name,
        master=broker_set.master,
        master_address=broker_set.address(broker_set.master),
        master_epoch=broker_set.master_epoch,
        sync_state_set=broker_set.sync_state_set,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
    )


def _sync_state_data(query: SyncStateData, state: State, live: LiveView) -> Result | Absent:
    """Java ``getSyncStateData``; unknown sets are left out in silence, no set at all is an error."""
    if not query.broker_sets:
        return Absent(code="NoBrokerSetsNamed", remark="not set any response code")
    sets = (state.known(name) for name in dict.fromkeys(query.broker_sets))
    return SyncStateDataIs(broker_sets=tuple(_sync_state(entry, live) for entry in sets if entry is not None))


def _topic_config(query: TopicConfig, state: State, live: LiveView) -> Result | Absent:
    """Java ``AdminBrokerProcessor.getTopicConfig``."""
    topic = state.topics.get(query.topic)
    if topic is None:
        return Absent(code="UnknownTopic", remark=f"No topic in this broker. topic: {query.topic}")
    return TopicConfigIs(topic=topic)


def _topic_list(query: TopicList, state: State, live: LiveView) -> Result | Absent:
    return TopicListIs(topics=tuple(state.topics[name] for name in sorted(state.topics)))


_ANSWERS: Final[Mapping[type[Query], Callable[[Any, State, LiveView], Result | Absent]]] = {
    NextBrokerId: _next_broker_id,
    ReplicaInfo: _replica_info,
    SyncStateData: _sync_state_data,
    TopicConfig: _topic_config,
    TopicList: _topic_list,
}


def alive(broker_set: BrokerSet, replica: Replica, live: LiveView) -> bool | None:
    """Is it alive, as this node knows it? That the leader fenced it confirms the close this node alone had seen."""
    heard = live.alive(broker_set.cluster, broker_set.name, replica.broker_id)
    return heard and not (replica.fenced and live.suspect(broker_set.cluster, broker_set.name, replica.broker_id))


def _sync_state(broker_set: BrokerSet, live: LiveView) -> SyncStateIs:
    replicas = [
        ReplicaIs(
            broker_id=replica.broker_id,
            address=replica.address,
            alive=alive(broker_set, replica, live),
            registered=replica.registered,
            fenced=replica.fenced,
        )
        for replica in broker_set.replicas
    ]
    return SyncStateIs(
        broker_set=broker_set.name,
        master=broker_set.master,
        master_address=broker_set.address(broker_set.master),
        master_epoch=broker_set.master_epoch,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
        in_sync=tuple(replica for replica in replicas if replica.broker_id in broker_set.sync_state_set),
        not_in_sync=tuple(replica for replica in replicas if replica.broker_id not in broker_set.sync_state_set),
    )
