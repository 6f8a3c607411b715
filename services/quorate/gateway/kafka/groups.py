"""Consumer groups of the one topic: who is a member, and who reads it. (How far it has read: offsets.py.)

Rules: no I/O; answers that must wait come through a callback, and every callback is called exactly once; it raises
nothing, or it would cost others theirs, and it may bring the client's next request at once, so what is left to do after
an answer looks at the group again. Groups are state of the leader: ``clear`` forgets them all, ``restore`` has them
again as they last were stable, from the rows the cluster keeps. Nobody is told an assignment before the cluster keeps
it, or of a place taken over while it keeps the predecessor: the next coordinator would know that one only, and fence
its rightful successor. Groups, members and their bytes are bounded; silent members and empty groups are forgotten by
``sweep``.
Theory: Kafka's classic protocol. A group is *empty*, *joining* (waiting for every member to join, at most for the
longest rebalance timeout), *syncing* (waiting for the leader's assignments, then until they are kept) or *stable*.
Whoever has not synced a rebalance timeout after it was told its generation is out (KAFKA-12890). KIP-62 (timeouts),
KIP-345 (static members: one that comes back under its instance id takes over its old place and, if nothing else
changed, its assignment), KIP-394 (a member learns its id before it counts). Java ``GroupCoordinator``.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

from quorate.clock import Scheduler, Timer
from quorate.controller import WriteResult
from quorate.gateway.kafka import group_rows
from quorate.gateway.kafka.group_rows import KeptMember, KeptMembers
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import GroupLedger
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from quorate.wire.kafka_responses import JoinedGroup

GROUP_ID_MAX = 255
"""Characters."""
SYNC_LOOK_S = 0.01
"""The soonest that members which owe a sync are looked at again: a timer may be early by less than a millisecond."""
PROTOCOLS_MAX = 32
"""Of one member; clients offer one to three."""
NAME_BYTES_MAX = 255
"""Of an instance id, a protocol type, a protocol's name."""

Joined = Callable[[JoinedGroup], None]
Synced = Callable[[int, bytes], None]
"""(error, assignment)."""

_NOT_KEPT = {
    WriteResult.BUSY: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    WriteResult.NOT_LEADER: ErrorCode.NOT_COORDINATOR,
    WriteResult.LATE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Clients look for the coordinator and try again after 15 and 16, joining or syncing; 14 would end some that sync."""


class Member:
    """One consumer. At most one of ``joined`` and ``synced`` is waiting."""

    def __init__(self, member_id: str, request: JoinGroupRequest, client_id: str | None, host: str) -> None:
        self.id = member_id
        self.client_id = client_id or ""
        self.host = host
        self.instance_id = request.instance_id
        self.session_s = request.session_timeout_ms / 1000
        self.rebalance_s = max(request.rebalance_timeout_ms, request.session_timeout_ms) / 1000
        self.protocols = request.protocols
        self.assignment = b""
        self.seen = 0.0
        self.successor = False
        """Has it taken over a place without being told yet? The cluster may keep the one before it."""
        self.owes_sync_since: float | None = None
        """When it was told a generation that it has not synced yet."""
        self.joined: Joined | None = None
        self.synced: Synced | None = None

    def answer_join(self, answer: JoinedGroup) -> None:
        """End a waiting join, if there is one."""
        joined, self.joined = self.joined, None
        if joined:
            joined(answer)

    def answer_sync(self, error: int) -> None:
        """End a waiting sync, if there is one."""
        synced, self.synced = self.synced, None
        if synced:
            synced(error, b"" if error else self.assignment)

    def kept(self) -> KeptMember:
        """The part that another coordinator needs to know."""
        times = int(self.session_s * 1000), int(self.rebalance_s * 1000)
        return KeptMember(self.id, self.instance_id, self.client_id, self.host, *times, self.protocols, self.assignment)

    def dismiss(self, error: int) -> None:
        """Tell it, if it waits, that it is no longer a member."""
        self.answer_join(JoinedGroup(error, self.id))
        self.answer_sync(error)


class Group:
    """One consumer group."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state: Literal["empty", "joining", "syncing", "stable"] = "empty"
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        """By member id; changed with the two that follow (``put``, ``take``, ``replace``, ``vacate``)."""
        self.instances: dict[str | None, Member] = {}
        """The static ones, by instance id; there is none of None."""
        self.supported: Counter[str] = Counter()
        """Protocol → how many members can use it; of those that none can there is no entry."""
        self.expected: dict[str, float] = {}
        """Ids given out (KIP-394) and not used yet → when they lapse."""
        self.told = False
        """Is the generation that syncs told to those that joined it? Not while a predecessor is still kept."""
        self.timer: Timer | None = None
        self.first = False
        """Is this the first rebalance, which waits for more members rather than for all of them?"""

    def put(self, member: Member) -> None:
        """One more."""
        self.members[member.id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member
        self._count(member, 1)

    def take(self, member_id: str) -> Member:
        """One less."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self._count(member, -1)
        return member

    def replace(self, old: Member, member: Member) -> None:
        """Another has the place of a static member, and its turn."""
        self._count(old, -1)
        self.members = {m.id: m for m in (member if m is old else m for m in self.members.values())}
        self.instances[member.instance_id] = member
        self._count(member, 1)

    def offer(self, member: Member, protocols: tuple[tuple[str, bytes], ...]) -> None:
        """It can use these from now on."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def vacate(self) -> None:
        """Nobody is left."""
        self.members.clear()
        self.instances.clear()
        self.supported.clear()

    def _count(self, member: Member, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self.supported[name] += by
            if not self.supported[name]:
                del self.supported[name]

    def disowns(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why nobody may speak for the group under these ids: 82 when the place is another's, 25 when there is none."""
        if instance_id is not None:
            static = self.instances.get(instance_id)
            if static is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if static.id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def patience_s(self) -> float:
        """How long members may take to join, and then to sync: the longest rebalance timeout."""
        return max(m.rebalance_s for m in self.members.values())

    def common(self, protocols: Iterable[tuple[str, bytes]]) -> set[str]:
        """Names of these that every member can use."""
        return {name for name, _ in protocols if self.supported[name] == len(self.members)}


class Groups:
    """All groups this node coordinates."""

    def __init__(
        self, settings: KafkaSettings, scheduler: Scheduler, chance: random.Random, ledger: GroupLedger
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._chance = chance
        self._ledger = ledger
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def members(self) -> int:
        """Members of all groups together, promised ids included."""
        return sum(len(g.members) + len(g.expected) for g in self._groups.values())

    def all(self) -> Iterable[tuple[str, Group]]:
        """Every group that has, or just had, members; to look at, not to change."""
        return self._groups.items()

    def find(self, group_id: str) -> Group | None:
        """The group, if it has, or just had, members; to look at, not to change."""
        return self._groups.get(group_id)

    # Joining.

    def join(self, request: JoinGroupRequest, client: tuple[str | None, str], done: Joined) -> None:
        """Enter or re-enter a group; ``done`` comes when the group is complete. ``client``: (client id, its host)."""
        refusal = self._refuse_join(request)
        group = None if refusal else self._open(request.group)
        if refusal or group is None:
            done(JoinedGroup(refusal or ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
            return
        static = group.instances.get(request.instance_id)
        if static is not None and not request.member_id:
            self._take_over(group, static, request, client, done)
        elif not request.member_id or (static is None and request.member_id in group.expected):
            self._enter(group, request, client, done)
        elif error := group.disowns(request.member_id, request.instance_id):
            done(JoinedGroup(error, request.member_id))
        else:
            self._rejoin(group, group.members[request.member_id], request, done)

    def _refuse_join(self, request: JoinGroupRequest) -> ErrorCode | None:
        limits = self._settings
        group = self._groups.get(request.group)
        if not 0 < len(request.group) <= GROUP_ID_MAX:
            return ErrorCode.INVALID_GROUP_ID
        if not limits.group_session_timeout_min_ms <= request.session_timeout_ms <= limits.group_session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.rebalance_timeout_ms > limits.group_session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not request.protocols or not request.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self._oversized_member(request):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if group is None or not group.members:
            return None
        others = set(group.members) - {request.member_id}
        if others and (request.protocol_type != group.protocol_type or not group.common(request.protocols)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _oversized_member(self, request: JoinGroupRequest) -> bool:
        if len(request.protocols) > PROTOCOLS_MAX:
            return True
        texts = [request.instance_id or "", request.protocol_type, *(name for name, _ in request.protocols)]
        sizes = [len(text.encode()) for text in texts]
        size = sum(sizes) + sum(len(data) for _, data in request.protocols)
        return max(sizes) > NAME_BYTES_MAX or size > self._settings.group_member_bytes_max

    def _enter(self, group: Group, request: JoinGroupRequest, client: tuple[str | None, str], done: Joined) -> None:
        member_id = request.member_id
        if not member_id:
            if self.members >= self._settings.group_members_max:
                done(JoinedGroup(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
                return
            member_id = self._new_id(client[0])
            if request.member_id_required:
                group.expected[member_id] = self._scheduler.monotonic() + request.session_timeout_ms / 1000
                done(JoinedGroup(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
        group.expected.pop(member_id, None)
        member = Member(member_id, request, *client)
        group.put(member)
        group.protocol_type = request.protocol_type
        member.joined = done
        self._rebalance(group)

    def _rejoin(self, group: Group, member: Member, request: JoinGroupRequest, done: Joined) -> None:
        self._seen(member)
        same = member.protocols == request.protocols
        group.offer(member, request.protocols)
        before, member.joined = member.joined, done
        if before:
            before(JoinedGroup(ErrorCode.UNKNOWN_MEMBER_ID, member.id))
        if member.joined is not done:  # It was answered in what that brought.
            return
        syncing = same and group.state == "syncing"
        if (syncing and group.told) or (same and group.state == "stable" and member.id != group.leader):
            member.answer_join(self._membership(group, member))
        elif not syncing:  # A generation that is not told yet is told to it with the others.
            self._rebalance(group)

    def _take_over(
        self, group: Group, old: Member, request: JoinGroupRequest, client: tuple[str | None, str], done: Joined
    ) -> None:
        member = Member(self._new_id(client[0]), request, *client)
        member.assignment, member.successor = old.assignment, True
        group.replace(old, member)
        if group.leader == old.id:
            group.leader = member.id
        self._seen(member)
        member.joined = done
        old.dismiss(ErrorCode.FENCED_INSTANCE_ID)
        if member.joined is not done:  # It was answered in what that brought.
            return
        if group.state == "stable" and old.protocols == member.protocols:
            self._keep(group, lambda error: self._taken_over(group, member, error))
        else:
            self._rebalance(group)

    def _taken_over(self, group: Group, member: Member, error: ErrorCode) -> None:
        """A new member's place is kept, or could not be; unless it joins the next generation by now."""
        if group.state != "stable" or not member.joined:
            return
        if not group.timer:
            self._restart_timer(group, group.patience_s, self._expire_syncs)
        self._answer_join(group, member, error, self._scheduler.monotonic())

    def _answer_join(self, group: Group, member: Member, error: ErrorCode, now: float) -> None:
        self._seen(member)
        if error:
            member.answer_join(JoinedGroup(error, "" if member.successor else member.id))
        else:
            member.successor, member.owes_sync_since = False, now
            member.answer_join(self._membership(group, member))

    def _membership(self, group: Group, member: Member) -> JoinedGroup:
        members: tuple[tuple[str, str | None, bytes], ...] = ()
        if member.id == group.leader:
            members = tuple((m.id, m.instance_id, dict(m.protocols)[group.protocol]) for m in group.members.values())
        chosen = group.protocol, group.leader, members, group.protocol_type
        return JoinedGroup(ErrorCode.NONE, member.id, group.generation, *chosen)

    # Rebalancing.

    def _rebalance(self, group: Group, why: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
        """Someone joined or left: collect everybody's join, then complete. ``why``: told to those that sync."""
        if group.state != "joining":
            group.first = group.state == "empty"
            group.state = "joining"
            delay = self._settings.group_initial_delay_s if group.first else group.patience_s
            self._restart_timer(group, delay, self._complete)
            for member in [m for m in group.members.values() if m.synced]:
                self._seen(member)
                member.answer_sync(why)
        self._complete_if_all_joined(group)

    def _complete_if_all_joined(self, group: Group) -> None:
        """A new group waits out its delay all the same."""
        if group.state == "joining" and not group.first and all(m.joined for m in group.members.values()):
            self._complete(group)

    def _restart_timer(self, group: Group, delay_s: float, then: Callable[[Group], None]) -> None:
        if group.timer:
            group.timer.cancel()
        group.timer = self._scheduler.call_later(delay_s, lambda: then(group))

    def _complete(self, group: Group) -> None:
        """The members that joined are the new generation; the rest are out."""
        if group.timer:
            group.timer.cancel()
            group.timer = None
        for member in [m for m in group.members.values() if not m.joined and not m.instance_id]:
            group.take(member.id)
        waiting = [m for m in group.members.values() if m.joined]
        if not group.members:
            self._empty(group)
            return
        if not waiting:  # Static members alone, none of which joined: until one does, or their sessions end.
            self._restart_timer(group, max(group.patience_s, SYNC_LOOK_S), self._complete)
            return
        group.state, group.told = "syncing", False
        group.generation += 1
        if group.leader not in group.members or group.members[group.leader] not in waiting:
            group.leader = waiting[0].id
        common = group.common(waiting[0].protocols)
        votes = Counter(next(name for name, _ in m.protocols if name in common) for m in group.members.values())
        group.protocol = votes.most_common(1)[0][0]
        for member in waiting:
            member.assignment = b""
        generation = group.generation
        if any(m.successor for m in waiting):
            self._drop(group, lambda error: self._formed(group, generation, error))
        else:
            self._formed(group, generation, ErrorCode.NONE)

    def _formed(self, group: Group, generation: int, error: ErrorCode) -> None:
        """A generation may be told to those that joined it, or why not; unless it is over by now."""
        if group.state in {"empty", "joining"} or group.generation != generation:
            return
        group.told = not error
        now = self._scheduler.monotonic()  # One time for all: those of a generation are out together, or none.
        self._restart_timer(group, group.patience_s, self._expire_syncs)
        for member in [m for m in group.members.values() if m.joined]:
            self._answer_join(group, member, error, now)
        if error:
            self._after_removal(group)

    def _expire_syncs(self, group: Group) -> None:
        """Remove members that were told the generation and did not sync: nobody else would get their partitions. Who
        was told later than others, as one that took a place over, has its whole time too.
        """
        group.timer = None
        owing = [(m.owes_sync_since, m) for m in group.members.values() if m.owes_sync_since is not None]
        if not owing:
            return
        until = self._scheduler.monotonic() - group.patience_s
        overdue = [member for since, member in owing if since <= until]
        for member in overdue:
            group.take(member.id)
        if overdue:
            self._after_removal(group)
        else:
            left_s = min(since for since, _ in owing) - until
            self._restart_timer(group, max(left_s, SYNC_LOOK_S), self._expire_syncs)

    def _empty(self, group: Group) -> None:
        group.vacate()
        group.state, group.leader, group.protocol = "empty", "", ""

    # Members in place.

    def _speaker(self, group_id: str, member_id: str, instance_id: str | None) -> tuple[Group, Member] | ErrorCode:
        """The member that speaks, now seen; or why it may not."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.disowns(member_id, instance_id)
        if error:
            return error
        member = group.members[member_id]
        self._seen(member)
        return group, member

    def sync(self, request: SyncGroupRequest, done: Synced) -> None:
        """The leader gives assignments, everyone receives its own; ``done`` comes once they are there."""
        speaker = self._speaker(request.group, request.member_id, request.instance_id)
        if isinstance(speaker, ErrorCode):
            done(speaker, b"")
            return
        group, member = speaker
        if request.generation != group.generation:
            done(ErrorCode.ILLEGAL_GENERATION, b"")
        elif _mistakes(group.protocol_type, request.protocol_type) or _mistakes(group.protocol, request.protocol):
            done(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")
        elif group.state == "joining":
            done(ErrorCode.REBALANCE_IN_PROGRESS, b"")
        elif group.state == "stable":
            member.owes_sync_since = None
            done(ErrorCode.NONE, member.assignment)
        elif member.id == group.leader and self._oversized(request):
            done(ErrorCode.INVALID_REQUEST, b"")
        else:
            given, member.owes_sync_since = member.synced is not None, None
            member.answer_sync(ErrorCode.UNKNOWN_MEMBER_ID)
            member.synced = done
            if member.id == group.leader and not given:  # A leader that asks again waits for what it gave.
                self._assign(group, request)

    def _oversized(self, request: SyncGroupRequest) -> bool:
        return any(len(a) > self._settings.group_member_bytes_max for _, a in request.assignments)

    def _assign(self, group: Group, request: SyncGroupRequest) -> None:
        for member_id, assignment in request.assignments:
            if member_id in group.members:
                group.members[member_id].assignment = assignment
        self._keep(group, lambda error: self._assigned(group, request.generation, error))

    def _assigned(self, group: Group, generation: int, error: ErrorCode) -> None:
        """A generation's assignments are kept, or could not be; unless the next one is being formed by now."""
        if group.state != "syncing" or group.generation != generation:
            return
        if error:
            self._rebalance(group, error)
            return
        group.state = "stable"
        for member in [m for m in group.members.values() if m.synced]:
            self._seen(member)
            member.answer_sync(ErrorCode.NONE)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """I am still here; the answer says whether to join again."""
        speaker = self._speaker(request.group, request.member_id, request.instance_id)
        if isinstance(speaker, ErrorCode):
            return speaker
        group, _ = speaker
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state == "joining" else ErrorCode.NONE

    def leave(self, request: LeaveGroupRequest) -> list[tuple[str, str | None, int]]:
        """Members go; (member id, instance id, error) each."""
        group = self._groups.get(request.group)
        if group is None:
            return [(m.member_id, m.instance_id, int(ErrorCode.UNKNOWN_MEMBER_ID)) for m in request.members]
        before = len(group.members)
        left = [
            (m.member_id, m.instance_id, int(self._remove(group, m.member_id, m.instance_id))) for m in request.members
        ]
        if len(group.members) < before:
            self._after_removal(group)
        return left

    def _remove(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        static = group.instances.get(instance_id)
        if not member_id and static is not None:  # A tool names the place, whoever has it.
            member_id = static.id
        if group.expected.pop(member_id, None) is not None:
            return ErrorCode.NONE
        error = group.disowns(member_id, instance_id)
        if not error:
            group.take(member_id).dismiss(ErrorCode.UNKNOWN_MEMBER_ID)
        return error

    def _after_removal(self, group: Group) -> None:
        """The remaining members join again."""
        if group.state == "empty":
            return
        if not group.members:
            if group.timer:
                group.timer.cancel()
                group.timer = None
            self._empty(group)
        else:
            self._rebalance(group)

    def may_commit(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        """May it set the group's position? A member may, in its generation; anybody (-1) while there are no members."""
        if not 0 < len(group_id) <= GROUP_ID_MAX:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(group_id)
        if generation < 0 and (group is None or not group.members):
            return ErrorCode.NONE
        speaker = self._speaker(group_id, member_id, instance_id)
        if isinstance(speaker, ErrorCode):
            return speaker
        return ErrorCode.NONE if generation == speaker[0].generation else ErrorCode.ILLEGAL_GENERATION

    # Housekeeping.

    def sweep(self) -> None:
        """Forget members silent beyond their session, promised ids nobody used, groups nobody uses. Once a second."""
        now = self._scheduler.monotonic()
        for group_id, group in list(self._groups.items()):
            group.expected = {k: until for k, until in group.expected.items() if until > now}
            silent = [m for m in group.members.values() if not self._waits(m) and now - m.seen > m.session_s]
            for member in silent:
                group.take(member.id)
            if silent:
                self._after_removal(group)
            if not group.members and not group.expected and self._forgotten(group):
                del self._groups[group_id]

    def _forgotten(self, group: Group) -> bool:
        """Does the cluster keep no members of it? Else they are removed, and looked for again in the next sweep: what
        could not be written is tried again, or the next coordinator had them back.
        """
        key = group_rows.members_key(group.id)
        if self._ledger.get(key) is not None and not self._ledger.pending(key):
            self._ledger.put(key, None, _unheard)
        return self._ledger.get(key) is None and not self._ledger.pending(key)

    def clear(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """This node no longer coordinates: send everyone away and forget everything."""
        groups, self._groups = self._groups, {}
        self._send_away(groups.values(), error)

    def _send_away(self, groups: Iterable[Group], error: ErrorCode) -> None:
        for group in groups:
            if group.timer:
                group.timer.cancel()
            for member in group.members.values():
                member.dismiss(error)
            self._empty(group)

    def restore(self) -> None:
        """This node coordinates now: have the groups as they last were stable. Their members may have been heard by
        the coordinator before until just now, so each gets a whole session to be heard here. Whoever waits since an
        earlier term is sent away then, and what it asks next is of this one.
        """
        before, self._groups = self._groups, {}
        try:
            self._read_back()
        finally:
            self._send_away(before.values(), ErrorCode.NOT_COORDINATOR)

    def _read_back(self) -> None:
        for key, row in self._ledger.starting_with(group_rows.MEMBERS):
            kept = group_rows.decode_members(row)
            group_id = group_rows.group_of(key)
            group = self._groups[group_id] = Group(group_id)
            group.state, group.generation, group.leader = "stable", kept.generation, kept.leader
            group.protocol_type, group.protocol = kept.protocol_type, kept.protocol
            for one in kept.members:
                member = _restored(group_id, kept, one)
                group.put(member)
                self._seen(member)

    def _keep(self, group: Group, done: Callable[[ErrorCode], None]) -> None:
        """Have the cluster keep who is a member; ``done`` with the reason why not. Of a group for which there is no
        room nothing is kept, nor anything older: it joins again at the next coordinator.
        """
        members = tuple(member.kept() for member in group.members.values())
        kept = KeptMembers(group.generation, group.protocol_type, group.protocol, group.leader, members)

        def written(outcome: WriteResult) -> None:
            if outcome is WriteResult.NO_ROOM:
                self._drop(group, done)
            else:
                done(_NOT_KEPT.get(outcome, ErrorCode.NONE))

        self._ledger.put(group_rows.members_key(group.id), group_rows.encode(kept), written)

    def _drop(self, group: Group, done: Callable[[ErrorCode], None]) -> None:
        """Have the cluster keep no members of it, those on their way included; ``done`` with the reason why not."""
        key = group_rows.members_key(group.id)
        if self._ledger.get(key) is not None or self._ledger.pending(key):
            self._ledger.put(key, None, lambda outcome: done(_NOT_KEPT.get(outcome, ErrorCode.NONE)))
        else:
            done(ErrorCode.NONE)

    def _open(self, group_id: str) -> Group | None:
        """The group, made when new; None when there is no room for one more."""
        group = self._groups.get(group_id)
        if group is None and len(self._groups) < self._settings.groups_max:
            group = self._groups[group_id] = Group(group_id)
        return group

    def _new_id(self, client_id: str | None) -> str:
        return f"{(client_id or 'consumer')[:64]}-{self._chance.getrandbits(128):032x}"

    def _seen(self, member: Member) -> None:
        member.seen = self._scheduler.monotonic()

    @staticmethod
    def _waits(member: Member) -> bool:
        return member.joined is not None or member.synced is not None


def _mistakes(chosen: str, believed: str | None) -> bool:
    """Does a member believe that something else was chosen (KIP-559)?"""
    return believed is not None and believed != chosen


def _restored(group_id: str, kept: KeptMembers, one: KeptMember) -> Member:
    """A member as it joined."""
    times = one.session_timeout_ms, one.rebalance_timeout_ms
    request = JoinGroupRequest(
        group_id, *times, one.member_id, one.instance_id, kept.protocol_type, one.protocols, member_id_required=False
    )
    member = Member(one.member_id, request, one.client_id, one.host)
    member.assignment = one.assignment
    return member


def _unheard(_: object) -> None:
    """Nobody waits for this to be written; the next sweep looks again."""
