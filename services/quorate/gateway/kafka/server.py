"""The Kafka listener: the event log as a topic that any stock client reads, and nothing it could write.

Rules: no decisions and no tasks; a request is answered in its turn or parked (a long poll, a join, a question to the
leader), always with a deadline; what goes on in another turn is ``guarded``. Reading is served by every node, groups by
the leader. Produce is listed, because librdkafka insists, and refused.
Theory: a fetch that finds nothing waits in one list; the next slice of applied events wakes all of them together, the
answer is encoded once for all who ask the same, and a turn hands out no more than ``wake_bytes_per_turn``.
"""

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TypeVar

import msgspec

from quorate.clock import Scheduler, Timer
from quorate.controller import QuorumIs
from quorate.gateway.access import Access, Quota
from quorate.gateway.kafka.connection import KafkaConnection
from quorate.gateway.kafka.describing import Describer
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.offsets import GroupOffsets
from quorate.gateway.kafka.once import once
from quorate.gateway.kafka.reading import LogReader
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import KafkaNode, LogView
from quorate.gateway.listener import Listener
from quorate.metrics import Metrics
from quorate.slices import in_slices
from quorate.wire import kafka_admin_responses as admin_responses
from quorate.wire import kafka_responses as responses
from quorate.wire.kafka import WINDOW, ErrorCode, Request, RequestHeader
from quorate.wire.kafka_requests import (
    ApiVersionsRequest,
    DeleteGroupsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    FetchRequest,
    FindCoordinatorRequest,
    GroupPositions,
    GroupRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SyncGroupRequest,
)
from quorate.wire.kafka_responses import BrokerAddress, CommittedOffset, JoinedGroup

_by_partition = attrgetter("partition")

PRINCIPAL = "anonymous"
"""The principal of every reader: there is no authentication on this listener yet."""
PLAIN = "this listener is plaintext: nobody signs in here (security.protocol=PLAINTEXT)"
READ_ONLY = "this topic is the controller's log: it is read-only"


class _Waiting:
    """A fetch that waits for events."""

    __slots__ = ("connection", "request", "timer", "version")

    def __init__(self, connection: KafkaConnection, version: int, request: FetchRequest) -> None:
        self.connection = connection
        self.version = version
        self.request = request
        self.timer: Timer | None = None


_K = TypeVar("_K")


class _Gathered:
    """One answer made of several results: sent when the last of them, and ``settled`` once more, has come."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._missing = 1

    def into(self, results: dict[_K, ErrorCode], key: _K) -> Callable[[ErrorCode], None]:
        """One more result to wait for; where it goes."""
        self._missing += 1

        def done(result: ErrorCode) -> None:
            results[key] = result
            self.settled()

        return done

    def settled(self) -> None:
        """One thing less to wait for."""
        self._missing -= 1
        if not self._missing:
            self._send()


class KafkaServer(Listener[KafkaConnection]):
    """One node's Kafka listener."""

    def __init__(
        self,
        view: LogView,
        settings: KafkaSettings,
        metrics: Metrics,
        scheduler: Scheduler,
        chance: random.Random,
        access: Access,
        quota: Quota,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        super().__init__(settings, scheduler, partial(KafkaConnection, self))
        self._view = view
        self._access = access
        self._quota = quota
        self._reader = LogReader(view, settings)
        self._groups = Groups(settings, scheduler, chance, view.groups)
        self._offsets = GroupOffsets(settings, scheduler, self._groups, view.groups)
        self._describer = Describer(view, settings, access, self._reader, self._groups, self._offsets)
        self._groups_term = 0
        self._waiting: deque[_Waiting] = deque()
        self._waking = self._advanced_meanwhile = False
        view.hear(self._advanced)

    # Life.

    async def stop(self) -> None:
        """End every wait of a group's member, then close all connections."""
        self._groups.clear()
        await super().stop()

    @property
    def groups(self) -> int:
        """Consumer groups with members that are coordinated here."""
        return len(self._groups)

    def closed(self, connection: KafkaConnection) -> None:
        """A client is gone, and waits for nothing more."""
        super().closed(connection)
        for waiting in [w for w in self._waiting if w.connection is connection]:
            self._unpark(waiting)

    def _swept(self) -> None:
        """Members of groups have deadlines too."""
        super()._swept()
        if self._coordinates():
            self._groups.sweep()
            self._offsets.sweep()

    # Requests.

    def serve(self, connection: KafkaConnection, header: RequestHeader, request: Request) -> None:
        """Answer a request by ``connection.reply``, exactly once. Over quota means later."""
        self.metrics.kafka_requests[header.api, header.version] += 1
        if self._quota.admit(PRINCIPAL, type(request).__name__):
            self._serve(connection, header.version, request)
        else:
            delay = self.settings.over_quota_delay_s
            later = connection.guarded(self._serve)
            self.scheduler.call_later(delay, lambda: later(connection, header.version, request))

    def _serve(self, connection: KafkaConnection, version: int, request: Request) -> None:
        match request:
            case FetchRequest():
                self._fetch(connection, version, request)
            case ApiVersionsRequest():
                connection.reply(responses.api_versions(version, WINDOW))
            case MetadataRequest():
                connection.reply(self._reader.metadata(version, request))
            case ListOffsetsRequest() | OffsetForLeaderEpochRequest():
                self._ends(connection, version, request)
            case ProduceRequest():
                self._refuse_produce(connection, version, request)
            case FindCoordinatorRequest():
                connection.reply(self._coordinator(version, request))
            case ListGroupsRequest():
                self._list_groups(connection, version, request)
            case DescribeGroupsRequest():
                error = ErrorCode.NONE if self._coordinates() else self._not_coordinator()
                connection.reply(self._describer.describe_groups(version, request, PRINCIPAL, error))
            case DeleteGroupsRequest():
                self._delete_groups(connection, version, request)
            case DescribeConfigsRequest():
                connection.reply(self._describer.describe_configs(version, request, PRINCIPAL))
            case DescribeClusterRequest():
                connection.reply(self._describer.describe_cluster(version, request, PRINCIPAL))
            case DescribeQuorumRequest():
                self._tell_quorum(connection, version, request)
            case OffsetFetchRequest():
                self._fetch_offsets(connection, version, request)
            case SaslHandshakeRequest():
                connection.reply(responses.sasl_handshake_refused(ErrorCode.ILLEGAL_SASL_STATE))
            case SaslAuthenticateRequest():
                connection.reply(responses.sasl_authenticate_refused(version, ErrorCode.ILLEGAL_SASL_STATE, PLAIN))
            case _:
                self._serve_group(connection, version, request)

    def _refuse_produce(self, connection: KafkaConnection, version: int, request: ProduceRequest) -> None:
        """Close the connection of a client that wants no answer, as Kafka does (``KafkaApis.handleProduceRequest``)."""
        if request.acks == 0:
            connection.end()
            return
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        connection.reply(responses.produce_refused(version, request.topics, error, READ_ONLY))

    # What tools ask.

    def _list_groups(self, connection: KafkaConnection, version: int, request: ListGroupsRequest) -> None:
        """The coordinator knows. Who asks for a list asks every node: those that know another to coordinate have none.
        A node that knows of no other says so, for perhaps nobody tells of them: tools then ask it again.
        """
        if self._coordinates():
            listing = self._describer.list_groups(version, request, PRINCIPAL)
            in_slices(listing, self.scheduler, connection.guarded(lambda made: connection.reply(made())))
            return
        error = self._not_coordinator()
        if error == ErrorCode.NOT_COORDINATOR:
            leader = self._leader()
            other = leader is not None and leader.node_id != self._view.node_id
            error = ErrorCode.NONE if other else ErrorCode.COORDINATOR_NOT_AVAILABLE
        connection.reply(admin_responses.list_groups(version, [], error))

    def _delete_groups(self, connection: KafkaConnection, version: int, request: DeleteGroupsRequest) -> None:
        """Every group gets its own answer; the last of them to come sends them all."""
        refusal = ErrorCode.NONE if self._coordinates() else self._not_coordinator()
        results = dict.fromkeys(request.groups, refusal)

        def answer() -> None:
            connection.reply(admin_responses.delete_groups(version, results.items()))

        reply = _Gathered(connection.guarded(answer))
        for group in results if not refusal else ():
            if self._access.authorize(PRINCIPAL, "DeleteGroup", f"group/{group}"):
                self._offsets.forget(group, reply.into(results, group))
            else:
                results[group] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        reply.settled()

    def _tell_quorum(self, connection: KafkaConnection, version: int, request: DescribeQuorumRequest) -> None:
        def answer(quorum: QuorumIs | None) -> None:
            now_ms = self.scheduler.time_ms()
            connection.reply(self._describer.describe_quorum(version, request, PRINCIPAL, quorum, now_ms))

        self._view.quorum(connection.guarded(answer))

    # Offsets, which may need the leader's word.

    def _ends(
        self, connection: KafkaConnection, version: int, request: ListOffsetsRequest | OffsetForLeaderEpochRequest
    ) -> None:
        def answer(end: int | None) -> None:
            if not isinstance(request, ListOffsetsRequest):
                connection.reply(self._reader.offset_for_leader_epoch(version, request, end))
            elif self._reader.times_ready(
                request, connection.guarded(lambda: told(request, end)), lambda: connection.open
            ):
                told(request, end)

        def told(request: ListOffsetsRequest, end: int | None) -> None:
            connection.reply(self._reader.list_offsets(version, request, end))

        if self._reader.needs_confirmed_end(request) and self._view.serving:
            self._confirmed_end(connection.guarded(answer))
        else:
            answer(None)

    def _confirmed_end(self, answer: Callable[[int | None], None]) -> None:
        """Ask the leader, for at most ``confirm_timeout_s``; whichever comes first counts."""
        settled = False

        def settle(end: int | None) -> None:
            nonlocal settled
            if not settled:
                settled = True
                timer.cancel()
                answer(end)

        timer = self.scheduler.call_later(self.settings.confirm_timeout_s, lambda: settle(None))
        self._view.confirmed_end(settle)

    # Long polls.

    def _fetch(self, connection: KafkaConnection, version: int, request: FetchRequest) -> None:
        wait_ms = min(request.max_wait_ms, self.settings.fetch_wait_max_ms)
        topics = once(request.topics, _by_partition)
        if topics is not request.topics:
            request = msgspec.structs.replace(request, topics=topics)
        if not self._access.authorize(PRINCIPAL, "ReadLog", f"topic/{self.settings.topic}"):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused = [(n, [responses.FetchedPartition(p.partition, error) for p in ps]) for n, ps in request.topics]
            connection.reply(responses.fetch(version, refused, request.isolation_level))
            return
        if self._reader.ahead(request):
            self._confirmed_end(
                connection.guarded(lambda end: self._fetch_or_park(connection, version, request, wait_ms, end))
            )
        elif self._reader.ready(
            version,
            request,
            connection.guarded(lambda: self._fetch_or_park(connection, version, request, wait_ms)),
            lambda: connection.open,
        ):
            self._fetch_or_park(connection, version, request, wait_ms)

    def _fetch_or_park(
        self,
        connection: KafkaConnection,
        version: int,
        request: FetchRequest,
        wait_ms: int,
        confirmed_end: int | None = None,
    ) -> None:
        """``confirmed_end``: where the log ends, if that was asked for and could be known."""
        body = self._reader.fetch(version, request, final=wait_ms <= 0, confirmed_end=confirmed_end)
        if body is not None or not connection.open:
            connection.reply(body)
            return
        waiting = _Waiting(connection, version, request)
        waited = connection.guarded(self._waited)
        waiting.timer = self.scheduler.call_later(wait_ms / 1000, lambda: waited(waiting))
        self._waiting.append(waiting)
        self.metrics.fetch_waits += 1

    def _unpark(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        if waiting.timer:
            waiting.timer.cancel()

    def _waited(self, waiting: _Waiting) -> None:
        """Its time is up: answer with what there is."""
        self._unpark(waiting)
        waiting.connection.reply(self._reader.fetch(waiting.version, waiting.request, final=True))

    def _advanced(self, end_offset: int) -> None:
        """Events were applied: wake the long polls, after this turn's work."""
        if self._waking:
            self._advanced_meanwhile = True
        elif self._waiting:
            self._waking = True
            self.scheduler.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._advanced_meanwhile = False
        self._wake(len(self._waiting))

    def _wake(self, count: int) -> None:
        """Look at ``count`` waiting fetches, oldest first, within this turn's limits; the others come next turn."""
        budget, rest = self.settings.wake_bytes_per_turn, count - self.settings.wakes_per_turn
        while count > max(rest, 0) and budget > 0 and self._waiting:
            count -= 1
            waiting = self._waiting.popleft()
            sent = waiting.connection.guarded(self._look)(waiting)
            if sent != 0 and waiting.timer:  # Answered, or not to be answered any more.
                waiting.timer.cancel()
            budget -= sent or 0
        if count > 0 and self._waiting:
            self.scheduler.call_soon(lambda: self._wake(count))
        elif self._advanced_meanwhile and self._waiting:  # Who was looked at before that, or came since.
            self.scheduler.call_soon(self._wake_all)
        else:
            self._waking = False

    def _look(self, waiting: _Waiting) -> int:
        """Answer it, if there is enough by now, or have it wait on; bytes of its answer."""
        body = self._reader.fetch(waiting.version, waiting.request, final=False)
        if body is None:
            self._waiting.append(waiting)
            return 0
        waiting.connection.reply(body)
        return len(body)

    # Groups, which only the leader coordinates.

    def _coordinates(self) -> bool:
        """Is this node the coordinator? Members of an earlier term of office are sent away, its own are had again."""
        leads = self._view.coordinates
        term = self._view.term if leads else 0
        if term != self._groups_term:
            self._groups_term = term  # First: who is sent away may bring its next request at once.
            if leads:
                self._groups.restore()
            else:
                self._groups.clear()
        return leads

    def _not_coordinator(self) -> ErrorCode:
        """Why a group is not served here: another node leads, or this one is just about to."""
        mine = self._view.serving and self._view.leader_id == self._view.node_id
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if mine else ErrorCode.NOT_COORDINATOR

    def _leader(self) -> KafkaNode | None:
        """The node that leads, as long as it can be reached."""
        return next((n for n in self._view.nodes() if n.node_id == self._view.leader_id and n.alive), None)

    def _coordinator(self, version: int, request: FindCoordinatorRequest) -> bytes:
        keys = tuple(dict.fromkeys(request.keys))
        if request.key_type != 0:
            error = (
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if request.key_type == 1 else ErrorCode.INVALID_REQUEST
            )
            return responses.find_coordinator(version, keys, None, error)
        leader = self._leader()
        if leader is None:
            return responses.find_coordinator(version, keys, None, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return responses.find_coordinator(version, keys, BrokerAddress(leader.node_id, leader.host, leader.port))

    def _serve_group(self, connection: KafkaConnection, version: int, request: GroupRequest) -> None:
        """A node about to lead asks for patience (14), but not after a heartbeat or a sync: there 14 is the end of some
        members. Java ``GroupCoordinator``.
        """
        error = ErrorCode.NONE
        if not self._access.authorize(PRINCIPAL, "ReadGroup", f"group/{request.group}"):
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif not self._coordinates():
            error = self._not_coordinator()
        elif isinstance(request, LeaveGroupRequest) and len(request.members) > self.settings.group_members_max:
            error = ErrorCode.INVALID_REQUEST
        loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        match request:
            case JoinGroupRequest() if error:
                connection.reply(responses.join_group(version, JoinedGroup(error, request.member_id)))
            case JoinGroupRequest():
                reply = lambda joined: connection.reply(responses.join_group(version, joined))  # noqa: E731
                self._groups.join(request, (connection.client_id, connection.host), connection.guarded(reply))
            case SyncGroupRequest() if error:  # What was being formed is lost, so it begins again.
                code = ErrorCode.REBALANCE_IN_PROGRESS if loading else error
                connection.reply(responses.sync_group(version, code))
            case SyncGroupRequest():
                synced = partial(self._synced, connection, version, request.group)
                self._groups.sync(request, connection.guarded(synced))
            case HeartbeatRequest() if error:
                connection.reply(responses.heartbeat(version, ErrorCode.NONE if loading else error))
            case HeartbeatRequest():
                connection.reply(responses.heartbeat(version, self._groups.heartbeat(request)))
            case LeaveGroupRequest():
                members = [] if error else self._groups.leave(request)
                connection.reply(responses.leave_group(version, members, error))
            case OffsetCommitRequest():
                self._commit(connection, version, request, error)

    def _synced(self, connection: KafkaConnection, version: int, name: str, error: int, assignment: bytes) -> None:
        group = None if error else self._groups.find(name)
        chosen = (group.protocol_type, group.protocol) if group else (None, None)
        connection.reply(responses.sync_group(version, error, assignment, chosen))

    def _commit(
        self, connection: KafkaConnection, version: int, request: OffsetCommitRequest, error: ErrorCode
    ) -> None:
        """Every partition gets its own answer; the last of them to come sends them all.

        A position beyond our end is one only if the log ends later than we know: a node that is ahead of us may have
        told its client more.
        """
        topics = once(request.topics, _by_partition)
        end = self._view.log.end_offset
        if not error and any(at.offset > end for _, partitions in topics for at in partitions):
            commit = partial(self._commit_up_to, connection, version, request)
            self._confirmed_end(connection.guarded(commit))
        else:
            self._commit_checked(connection, version, request, error, end)

    def _commit_up_to(
        self, connection: KafkaConnection, version: int, request: OffsetCommitRequest, end: int | None
    ) -> None:
        """``end``: where the log ends, confirmed; None: who knows, so the client asks again."""
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if end is None else ErrorCode.NONE
        if not self._coordinates():
            error = self._not_coordinator()
        self._commit_checked(connection, version, request, error, max(end or 0, self._view.log.end_offset))

    def _commit_checked(
        self, connection: KafkaConnection, version: int, request: OffsetCommitRequest, error: ErrorCode, end: int
    ) -> None:
        topics = once(request.topics, _by_partition)
        results = [(name, {at.partition: error for at in partitions}) for name, partitions in topics]

        def answer() -> None:
            connection.reply(responses.offset_commit(version, [(name, r.items()) for name, r in results]))

        reply = _Gathered(connection.guarded(answer))
        for (name, partitions), (_, errors) in zip(topics, results, strict=True):
            for at in partitions if not error else ():
                if at.offset > end and self._reader.knows(name, at.partition):
                    errors[at.partition] = ErrorCode.OFFSET_OUT_OF_RANGE
                elif self._reader.knows(name, at.partition):
                    self._offsets.commit(request, at, reply.into(errors, at.partition))
                else:
                    errors[at.partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        reply.settled()

    def _fetch_offsets(self, connection: KafkaConnection, version: int, request: OffsetFetchRequest) -> None:
        """As applied here, once every commit answered before this request is; so any node may tell. When that cannot
        be known, why this node does not coordinate is the error, or patience is asked for.
        """
        asked = {group.group: group for group in request.groups}
        allowed = {name for name in asked if self._access.authorize(PRINCIPAL, "ReadGroup", f"group/{name}")}
        unsure = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._coordinates() else self._not_coordinator()

        def answer(end: int | None) -> None:
            groups: list[responses.KeptGroup] = []
            left = self.settings.describe_bytes_max
            for name, group in asked.items():
                error = unsure if end is None else ErrorCode.NONE
                if name not in allowed:
                    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
                elif left <= 0:
                    error = error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                topics = self._kept(group, error, end or 0)
                left -= sum(50 + len(one.metadata or "") for _, positions in topics for one in positions)
                groups.append((name, topics, error))
            connection.reply(responses.offset_fetch(version, groups))

        if allowed:
            self._confirmed_end(connection.guarded(answer))
        else:
            answer(None)

    def _kept(self, asked: GroupPositions, error: ErrorCode, end: int) -> list[tuple[str, list[CommittedOffset]]]:
        """A position beyond the end (older builds took any) is none: its group begins where it is set to.

        What was committed meanwhile is not beyond our own end: its entry came after the events before it.
        """
        kept = None if error else self._offsets.kept(asked.group)
        if kept and self._view.serving and kept.offset > max(end, self._view.log.end_offset):
            kept = None
        topics = asked.topics
        if topics is None:
            topics = ((self.settings.topic, (0,)),) if kept else ()
        results = []
        for name, partitions in once(topics, int):
            positions = []
            for index in partitions:
                ours = kept if self._reader.knows(name, index) else None
                positions.append(
                    CommittedOffset(index, ours.offset, ours.leader_epoch, ours.metadata)
                    if ours
                    else CommittedOffset(index)
                )
            results.append((name, positions))
        return results
