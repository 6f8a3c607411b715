"""``GET /v1/…``: what is true, from a read view.

Rules: nothing is computed that a view does not show; a list is a page of names in order, never the whole. A page is
found and made in steps, and ends by its bytes too: a broker set may have 4 MiB, the settings of a scope 1.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from quorate.controller.views import ReadView
from quorate.events import ElectionFailed, Event, MasterElected, Stamp, key
from quorate.gateway.fresh import is_past
from quorate.gateway.http.answers import (
    BrokerCounts,
    BrokerSetAnswer,
    BrokerSetItem,
    BrokerSets,
    BrokerTopics,
    ConfigAnswer,
    ConfigItem,
    Configs,
    ElectionAnswer,
    ElectionEvent,
    ElectionItem,
    Elections,
    Feature,
    LastElection,
    Log,
    LogEvent,
    NodeLevels,
    Quorum,
    QuorumMember,
    ReplicaAnswer,
    Settings,
    StateHash,
    Status,
    TopicAnswer,
    TopicItem,
    Topics,
)
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.context import Announcements, HttpContext
from quorate.gateway.http.messages import HttpError
from quorate.gateway.http.routing import Call
from quorate.metadata.configs import refused_scope
from quorate.metadata.sums import shown, summing
from quorate.model.names import Names, following
from quorate.model.queries import alive
from quorate.model.rows import ROWS_PER_STEP, rows
from quorate.model.state import BrokerSet, Election, Replica, State, Topic
from quorate.slices import Steps
from quorate.wire.avro import decoding_events

SHARDS_PER_STEP: Final = 256
PAGE_BYTES: Final = 1 << 20
"""Of one page, after which there are more; one item there is always."""
EVENTS_PER_STEP: Final = 64
"""That are decoded, of a batch that may have thousands."""

_T = TypeVar("_T")
_N = TypeVar("_N", int, str)


def sliced_page(names: Iterable[_N], after: _N, limit: int) -> Steps[tuple[list[_N], _N | None]]:
    """The first ``limit`` of many names after one, in order, and the ``after`` of the next page."""
    waiting = iter(names)
    first: list[_N] = []
    chunk: list[_N]
    while chunk := list(islice(waiting, ROWS_PER_STEP)):
        full = len(first) > limit  # Then most names come too late, and nothing needs to be sorted for them.
        found = [name for name in chunk if name > after and not (full and name > first[-1])]
        if found:
            first = sorted(first + found)[: limit + 1]
        yield
    return first[:limit], first[limit - 1] if len(first) > limit else None


def named_page(names: Names, after: str, prefix: str, limit: int) -> tuple[list[str], str | None]:
    """The same of names that are kept in order; it costs what is on the page."""
    window = list(islice(following(names, after, prefix), limit + 1))
    return window[:limit], window[limit - 1] if len(window) > limit else None


def filled(names: Sequence[_N], more: _N | None, items: Iterable[_T]) -> Steps[tuple[list[_T], _N | None]]:
    """The items of these names, until a page has bytes enough, and the ``after`` of the next page."""
    page, size = list[_T](), 0
    for name, item in zip(names, items, strict=True):
        page.append(item)
        size += len(msgspec.json.encode(item))
        if size > PAGE_BYTES and len(page) < len(names):
            return page, name
        yield
    return page, more


def last_election(election: Election | None) -> LastElection | None:
    """What the state remembers of an election."""
    return None if election is None else msgspec.convert(election, LastElection, from_attributes=True)


def replica(broker_set: BrokerSet, member: Replica, view: ReadView) -> ReplicaAnswer:
    """One broker: what the log says, and what this node hears."""
    info = view.live.info(broker_set.cluster, broker_set.name, member.broker_id)
    return ReplicaAnswer(
        broker_id=member.broker_id,
        address=member.address,
        registered=member.registered,
        fenced=member.fenced,
        in_sync=member.broker_id in broker_set.sync_state_set,
        alive=alive(broker_set, member, view.live),
        last_heartbeat_ms=info.last_heartbeat_ms if info else None,
        epoch=info.epoch if info else None,
        max_offset=info.max_offset if info else None,
        confirm_offset=info.confirm_offset if info else None,
        priority=info.priority if info else None,
        capabilities=member.capabilities,
        topics=member.topics,
        registration_epoch=member.registration_epoch,
    )


def broker_set_item(broker_set: BrokerSet, view: ReadView) -> BrokerSetItem:
    """One broker set."""
    return BrokerSetItem(
        broker_set=broker_set.name,
        cluster=broker_set.cluster,
        master=broker_set.master,
        master_address=broker_set.address(broker_set.master),
        master_epoch=broker_set.master_epoch,
        sync_state_set=broker_set.sync_state_set,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
        replicas=[replica(broker_set, member, view) for member in broker_set.replicas],
        election=last_election(broker_set.election),
    )


def topic_item(topic: Topic) -> TopicItem:
    """One topic."""
    return msgspec.convert(topic, TopicItem, from_attributes=True)


def registered_topics(state: State, broker_set: str) -> set[str]:
    """The topics that brokers of a set named when they registered."""
    found = state.broker_sets.get(broker_set)
    return set() if found is None else {topic for member in found.replicas for topic in member.topics}


class ReadHandlers:
    """The handlers."""

    def __init__(self, context: HttpContext, asking: Asking) -> None:
        self._context = context
        self._asking = asking

    # The cluster.

    def role(self) -> str:
        """What this node is in the quorum."""
        engine = self._context.engine
        if not engine.voting:
            return "not voting"
        if engine.is_leader:
            return "leader"
        return "candidate" if engine.leader_id is None else "follower"

    def _waiting(self) -> list[str]:
        reason = self._context.waits_for()
        return [f"This node waits: {reason}."] if reason else []

    def status(self, call: Call) -> None:
        """GET /v1/status."""
        self._asking.answered(call, "ReadStatus", self._status, "stale")

    def _status(self, view: ReadView) -> Steps[Status]:
        context, state, past = self._context, view.state, is_past(view)
        counts = yield from count_brokers(view)
        segments = yield from count_segments(state)
        led = state.leader.node_id if state.leader else None
        leader = led if past else context.engine.leader_id
        voters = [voter.id for voter in state.cluster.voters] if state.cluster else []
        connected = sum(context.connected(node_id) for node_id in voters)
        ready = context.serving() and leader is not None and view.offset > 0 and context.engine.caught_up
        me, alarms = context.node.node_id, [] if past else list(context.alarms())
        summary = sentence(me, leader, len(voters), connected, counts, ready=ready)
        return Status(
            **self._asking.stamp(view),
            sentence=sentence_then(view.offset, led, counts)
            if past
            else " ".join([*(f"Alarm: {alarm}." for alarm in alarms), summary, *self._waiting()]),
            healthy=(leader is not None if past else ready) and counts.without_master == 0 and not alarms,
            cluster_id=context.node.cluster_id,
            version=context.node.version,
            role=None if past else self.role(),
            leader=leader,
            term=view.term if past else context.engine.term,
            voters=len(voters),
            voters_connected=None if past else connected,
            feature_level=state.feature_level,
            brokers=counts,
            topics=len(state.topics),
            keys=len(state.keys),
            leases=len(state.leases),
            members=len(state.members),
            schemas=len(state.schemas),
            subjects=len(state.subjects),
            shards=len(state.shards),
            segments=segments,
            sessions=len(state.sessions),
            wills=len(state.wills),
            grpc=context.node.grpc.get(context.node.node_id, ""),
            ready=None if past else ready,
            election_timeout_ms=None if past else round(1000 * context.engine.election_timeout_s),
            alarms=None if past else alarms,
            overruled=None if past else list(context.overruled()),
            python=context.node.python,
            leaf=context.node.leaf,
            journal_sync=None if past else context.journal_sync(),
        )

    def quorum(self, call: Call) -> None:
        """GET /v1/quorum."""
        self._asking.answered(call, "ReadQuorum", self._quorum, "stale")

    def _quorum(self, view: ReadView) -> Steps[Quorum]:
        yield
        context, since, past = self._context, view.state.leader, is_past(view)
        engine = context.engine
        led = since.node_id if since else None
        return Quorum(
            **self._asking.stamp(view),
            cluster_id=context.node.cluster_id,
            leader=led if past else engine.leader_id,
            term=view.term if past else engine.term,
            role=None if past else self.role(),
            voting=None if past else engine.voting,
            commit_index=None if past else engine.commit_index,
            applied_index=None if past else engine.applied_index,
            leader_since_ms=since.since_ms if since else 0,
            leader_cause=since.cause if since else "",
            voters=self._members(view, led if past else engine.leader_id),
        )

    def _members(self, view: ReadView, leader: int | None) -> list[QuorumMember]:
        context, members, past = self._context, [], is_past(view)
        for voter in view.state.cluster.voters if view.state.cluster else ():
            node = view.state.nodes.get(voter.id)
            where = node.addresses if node else voter.addresses
            members.append(
                QuorumMember(
                    id=voter.id,
                    leader=voter.id == leader,
                    connected=None if past else context.connected(voter.id),
                    rpc=where.rpc,
                    raft=where.raft,
                    kafka=where.kafka,
                    http=where.http,
                    grpc=context.node.grpc.get(voter.id, ""),
                    version=node.version if node else "",
                    started_ms=node.started_ms if node else 0,
                    dir_uuid=node.dir_uuid if node else voter.dir_uuid,
                )
            )
        return members

    def feature(self, call: Call) -> None:
        """GET /v1/feature."""
        self._asking.answered(call, "ReadFeature", self._feature, "stale")

    def _feature(self, view: ReadView) -> Steps[Feature]:
        yield
        state = view.state
        nodes = []
        for voter in state.cluster.voters if state.cluster is not None else ():
            node = state.nodes.get(voter.id)
            low, high = (None, None) if node is None else (node.feature_min, node.feature_max)
            nodes.append(NodeLevels(id=voter.id, feature_min=low, feature_max=high))
        highest = min([node.feature_max or state.feature_level for node in nodes], default=state.feature_level)
        return Feature(**self._asking.stamp(view), level=state.feature_level, highest=highest, nodes=nodes)

    def state_hash(self, call: Call) -> None:
        """GET /v1/state-hash."""
        self._asking.answered(call, "ReadStateHash", self._state_hash, "stale")

    def _state_hash(self, view: ReadView) -> Steps[StateHash]:
        if is_past(view):
            total = yield from summing("rows", rows(view.state))
            return StateHash(
                **self._asking.stamp(view),
                index=None,
                hash=None,
                rows=shown(total),
                feature_level=view.state.feature_level,
            )
        mark = self._context.sums()  # Of this very offset: the first step is taken in the turn that took the view.
        return StateHash(
            **self._asking.stamp(view),
            index=mark.index,
            hash=shown(mark.whole),
            rows=shown(mark.rows),
            feature_level=view.state.feature_level,
        )

    # Brokers, topics, settings.

    def brokers(self, call: Call) -> None:
        """GET /v1/brokers."""
        limit, after = self._asking.limit(call), call.request.query.get("after", "")

        def make(view: ReadView) -> Steps[BrokerSets]:
            sets = view.state.broker_sets
            names, more = yield from sliced_page(sets, after, limit)
            items, more = yield from filled(names, more, (broker_set_item(sets[name], view) for name in names))
            return BrokerSets(**self._asking.stamp(view), brokers=items, next=more)

        self._asking.answered(call, "ReadBrokers", make)

    def broker(self, call: Call) -> None:
        """GET /v1/brokers/{broker_set}."""

        def make(view: ReadView) -> Steps[BrokerSetAnswer]:
            yield
            broker_set = present(view.state.broker_sets.get(call.found["broker_set"]), "there is no such broker set")
            item = broker_set_item(broker_set, view)
            return BrokerSetAnswer(**self._asking.stamp(view), broker_set=item)

        self._asking.answered(call, "ReadBrokers", make)

    def broker_topics(self, call: Call) -> None:
        """GET /v1/brokers/{broker_set}/topics; nobody keeps what brokers announced: the past has the log's names."""
        limit, after = self._asking.limit(call), call.request.query.get("after", "")
        name = call.found["broker_set"]

        def make(view: ReadView) -> Steps[BrokerTopics]:
            yield
            told = None if is_past(view) else self._context.announced(name)
            if told is None:
                present(view.state.broker_sets.get(name), "there is no such broker set")
                told = Announcements()
            said = told.topics if told.version is not None else registered_topics(view.state, name)
            found, more = yield from sliced_page(tuple(said), after, limit)
            names = [topic for topic in found if topic in said]  # What brokers announce may have changed meanwhile.
            topics = [topic_item(told.topic(topic)) for topic in names] if told.version and told.topic else []
            if topics:
                topics, more = yield from filled(names, more, topics)
                names = names[: len(topics)]
            return BrokerTopics(
                **self._asking.stamp(view),
                broker_set=name,
                source="log" if told.version is None else "brokers",
                brokers=list(told.brokers),
                version=told.version,
                names=names,
                topics=topics,
                next=more,
            )

        self._asking.answered(call, "ReadBrokers", make, "stale")

    def topics(self, call: Call) -> None:
        """GET /v1/topics."""
        limit, after = self._asking.limit(call), call.request.query.get("after", "")

        def make(view: ReadView) -> Steps[Topics]:
            topics = view.state.topics
            names, more = yield from sliced_page(topics, after, limit)
            items, more = yield from filled(names, more, (topic_item(topics[name]) for name in names))
            return Topics(**self._asking.stamp(view), topics=items, next=more)

        self._asking.answered(call, "ReadTopics", make)

    def topic(self, call: Call) -> None:
        """GET /v1/topics/{topic}."""

        def make(view: ReadView) -> Steps[TopicAnswer]:
            yield
            topic = present(view.state.topics.get(call.found["topic"]), "there is no such topic")
            return TopicAnswer(**self._asking.stamp(view), topic=topic_item(topic))

        self._asking.answered(call, "ReadTopics", make)

    def configs(self, call: Call) -> None:
        """GET /v1/config."""
        limit, after = self._asking.limit(call), call.request.query.get("after", "")

        def make(view: ReadView) -> Steps[Configs]:
            scopes = view.state.configs
            names, more = yield from sliced_page(scopes, after, limit)
            made = (ConfigItem(scope=name, values=scopes[name].values) for name in names)
            items, more = yield from filled(names, more, made)
            return Configs(**self._asking.stamp(view), config=items, next=more)

        self._asking.answered(call, "ReadConfig", make)

    def config(self, call: Call) -> None:
        """GET /v1/config/{scope}; a scope nobody set anything in is empty, one that cannot be is refused."""

        def make(view: ReadView) -> Steps[ConfigAnswer]:
            yield
            scope = call.found["scope"]
            config = view.state.configs.get(scope)
            if config is None and (refusal := refused_scope(scope, self._context.policy)) is not None:
                raise HttpError("invalid", refusal.remark, refusal.code)
            item = ConfigItem(scope=scope, values=config.values if config else {})
            return ConfigAnswer(**self._asking.stamp(view), config=item)

        self._asking.answered(call, "ReadConfig", make)

    def settings(self, call: Call) -> None:
        """GET /v1/settings; what a node was told at an earlier start nobody has kept."""

        def make(view: ReadView) -> Steps[Settings]:
            yield
            if is_past(view):
                raise HttpError("invalid", "at: the settings of a node are known of now only")
            return Settings(**self._asking.stamp(view), settings=list(self._context.in_force(view.state)))

        self._asking.answered(call, "ReadConfig", make, "stale")

    # Elections and the log.

    def elections(self, call: Call) -> None:
        """GET /v1/elections."""
        limit, after = self._asking.limit(call), call.request.query.get("after", "")

        def make(view: ReadView) -> Steps[Elections]:
            sets = view.state.broker_sets
            elected = (name for name, broker_set in sets.items() if broker_set.election)
            names, more = yield from sliced_page(elected, after, limit)
            made = [item for name in names if (item := election_item(sets[name])) is not None]
            items, more = yield from filled(names, more, made)
            return Elections(**self._asking.stamp(view), elections=items, next=more)

        self._asking.answered(call, "ReadElections", make)

    def election(self, call: Call) -> None:
        """GET /v1/elections/{offset}."""
        text = call.found["offset"]
        if not text.isdecimal() or len(text) > 18:
            raise HttpError("invalid", f"{text[:40]!r} is no offset")
        self._asking.answered(call, "ReadElections", lambda view: self._election(view, int(text)), "stale")

    def _election(self, view: ReadView, offset: int) -> Steps[ElectionAnswer]:
        end = view.offset if is_past(view) else self._context.log.end_offset
        for stamp, event in (yield from self.events(offset, 1, end)):
            if isinstance(event, MasterElected | ElectionFailed):
                election = ElectionEvent(
                    offset=stamp.offset,
                    term=stamp.term,
                    time_ms=stamp.time_ms,
                    principal=stamp.principal,
                    cause=stamp.cause,
                    event=event,
                )
                return ElectionAnswer(**self._asking.stamp(view), election=election)
        raise HttpError("not_found", f"there is no election at offset {offset}")

    def log(self, call: Call) -> None:
        """GET /v1/log."""
        limit, start = self._asking.limit(call), call.integer("from", 0)

        def make(view: ReadView) -> Steps[Log]:
            first = max(start, 0) if start >= 0 else max(view.offset + start, 0)
            end = view.offset if is_past(view) else self._context.log.end_offset
            events = []
            for stamp, event in (yield from self.events(first, limit, end)):
                events.append(log_event(stamp, event))
                yield
            reached = events[-1].offset + 1 if events else first
            return Log(
                **self._asking.stamp(view),
                events=events,
                end_offset=end,
                next=reached if events and reached < end else None,
            )

        self._asking.answered(call, "ReadLog", make, "stale")

    def events(self, offset: int, limit: int, end: int) -> Steps[list[tuple[Stamp, Event]]]:
        """Decoded events from an offset on and before ``end``, at most ``limit``, of one page's bytes."""
        log = self._context.log
        limit = min(limit, end - offset)
        if not log.start_offset <= offset < end:
            return []
        events: list[tuple[Stamp, Event]] = []
        size = 1 if limit == 1 else self._context.settings.log_bytes_max
        yield lambda resume: log.ready(offset, size, resume, lambda: True)
        for batch in log.read(offset, size):
            for seen, (stamp, event) in enumerate(decoding_events(batch), start=1):
                if stamp.offset >= offset:
                    events.append((stamp, event))
                if len(events) >= limit:
                    return events
                if seen % EVENTS_PER_STEP == 0:
                    yield
            yield
        return events


def count_brokers(view: ReadView) -> Steps[BrokerCounts]:
    """Sets, sets without a master, replicas, and how many of them this node hears."""
    without_master = replicas = alive_count = 0
    for broker_set in view.state.broker_sets.values():
        without_master += broker_set.master is None and bool(broker_set.replicas)
        replicas += len(broker_set.replicas)
        alive_count += living(broker_set, view)
        yield
    sets, alive = len(view.state.broker_sets), None if is_past(view) else alive_count
    return BrokerCounts(sets=sets, without_master=without_master, replicas=replicas, alive=alive)


def count_segments(state: State) -> Steps[int]:
    """Of all shards."""
    found = 0
    for count, numbered in enumerate(state.segments.values(), start=1):
        found += len(numbered)
        if count % SHARDS_PER_STEP == 0:
            yield
    return found


def living(broker_set: BrokerSet, view: ReadView) -> int:
    """How many replicas of a set this node hears."""
    return sum(alive(broker_set, member, view.live) is True for member in broker_set.replicas)


def present(entity: _T | None, otherwise: str) -> _T:
    """It, or HttpError ``not_found``."""
    if entity is None:
        raise HttpError("not_found", otherwise)
    return entity


def log_event(stamp: Stamp, event: Event) -> LogEvent:
    """One event with its stamp."""
    return LogEvent(
        offset=stamp.offset,
        term=stamp.term,
        time_ms=stamp.time_ms,
        type=type(event).__name__,
        key=key(event).decode(),
        principal=stamp.principal,
        cause=stamp.cause,
        request_id=stamp.request_id,
        event=event,
    )


def election_item(broker_set: BrokerSet) -> ElectionItem | None:
    """A set's last election."""
    election = last_election(broker_set.election)
    if election is None:
        return None
    return ElectionItem(
        broker_set=broker_set.name,
        cluster=broker_set.cluster,
        master=broker_set.master,
        master_epoch=broker_set.master_epoch,
        election=election,
    )


def sentence(
    node_id: int, leader: int | None, voters: int, connected: int, counts: BrokerCounts, *, ready: bool
) -> str:
    """The state of the cluster as one would say it."""
    if leader is None:
        return f"Node {node_id} knows no leader; it reaches {connected} of {voters} controllers."
    if not ready:
        return f"Node {node_id} is not ready; node {leader} leads."
    reach = f"{connected} of {voters} controllers connected"
    if counts.sets == 0:
        return f"Node {leader} leads, {reach}; no broker set is registered."
    sets = f"{counts.sets} broker set{'' if counts.sets == 1 else 's'}"
    alive = f"{counts.alive} of {counts.replicas} brokers alive"
    return f"Node {leader} leads, {reach}; {sets}, {_masters(counts)}; {alive}."


def sentence_then(offset: int, leader: int | None, counts: BrokerCounts) -> str:
    """The same of the past: what the log said by then."""
    led = f"node {leader} led" if leader is not None else "there was no leader yet"
    sets = f"{counts.sets} broker set{'' if counts.sets == 1 else 's'}" if counts.sets else "no broker set"
    masters = f", {_masters(counts)}" if counts.sets else ""
    return f"At offset {offset} {led}; {sets}{masters}. Which brokers were heard then is not known."


def _masters(counts: BrokerCounts) -> str:
    if counts.without_master == 0:
        return "every one with a master"
    return f"{counts.without_master} of them without a master"
