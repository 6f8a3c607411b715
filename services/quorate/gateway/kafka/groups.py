"""Consumer groups of the one topic: who is a member, who reads it, and how far the group says it has come.

Rules: no I/O; answers that must wait come through a callback, and every callback is called exactly once. Soft state of
the leader: ``clear`` forgets everything, members notice and join again. Groups, members and their bytes are bounded;
silent members and unused groups are forgotten by ``sweep``.
Theory: Kafka's classic protocol. A group is *empty*, *joining* (waiting for every member to join, at most for the
longest rebalance timeout), *syncing* (waiting for the leader's assignments) or *stable*. KIP-62 (timeouts), KIP-345
(static members: one that comes back under its instance id takes over its old place and, if nothing else changed, its
assignment), KIP-394 (a member learns its id before it counts). Java ``GroupCoordinator``.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from quorate.clock import Scheduler, Timer
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitPartition,
    SyncGroupRequest,
)
from quorate.wire.kafka_responses import JoinedGroup

GROUP_ID_MAX = 255
"""Characters."""

Joined = Callable[[JoinedGroup], None]
Synced = Callable[[int, bytes], None]
"""(error, assignment)."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A committed offset: the next one to read."""

    offset: int
    leader_epoch: int
    metadata: str | None


class Member:
    """One consumer. At most one of ``joined`` and ``synced`` is waiting."""

    def __init__(self, member_id: str, request: JoinGroupRequest) -> None:
        self.id = member_id
        self.instance_id = request.instance_id
        self.session_s = request.session_timeout_ms / 1000
        self.rebalance_s = max(request.rebalance_timeout_ms, request.session_timeout_ms) / 1000
        self.protocols = request.protocols
        self.assignment = b""
        self.seen = 0.0
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

    def dismiss(self, error: int) -> None:
        """Tell it, if it waits, that it is no longer a member."""
        self.answer_join(JoinedGroup(error, self.id))
        self.answer_sync(error)


class Group:
    """One consumer group."""

    def __init__(self) -> None:
        self.state: Literal["empty", "joining", "syncing", "stable"] = "empty"
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.expected: dict[str, float] = {}
        """Ids given out (KIP-394) and not used yet → when they lapse."""
        self.kept: Kept | None = None
        self.touched = 0.0
        self.timer: Timer | None = None
        self.first = False
        """Is this the first rebalance, which waits for more members rather than for all of them?"""

    def of_instance(self, instance_id: str | None) -> Member | None:
        """The static member of this instance id."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def common_protocols(self) -> set[str]:
        """Names every member can use."""
        return set.intersection(*({name for name, _ in m.protocols} for m in self.members.values()))


class Groups:
    """All groups this node coordinates."""

    def __init__(self, settings: KafkaSettings, scheduler: Scheduler, chance: random.Random) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._chance = chance
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def members(self) -> int:
        """Members of all groups together, promised ids included."""
        return sum(len(g.members) + len(g.expected) for g in self._groups.values())

    # Joining.

    def join(self, request: JoinGroupRequest, client_id: str | None, done: Joined) -> None:
        """Enter or re-enter a group; ``done`` comes when the group is complete."""
        refusal = self._refuse_join(request)
        group = None if refusal else self._open(request.group)
        if refusal or group is None:
            done(JoinedGroup(refusal or ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
            return
        static = group.of_instance(request.instance_id)
        if static is not None and not request.member_id:
            self._take_over(group, static, request, client_id, done)
        elif static is not None and static.id != request.member_id:
            done(JoinedGroup(ErrorCode.FENCED_INSTANCE_ID, request.member_id))
        elif request.member_id in group.members:
            self._rejoin(group, group.members[request.member_id], request, done)
        else:
            self._enter(group, request, client_id, done)

    def _refuse_join(self, request: JoinGroupRequest) -> ErrorCode | None:
        limits = self._settings
        group = self._groups.get(request.group)
        offered = {name for name, _ in request.protocols}
        if not 0 < len(request.group) <= GROUP_ID_MAX:
            return ErrorCode.INVALID_GROUP_ID
        if not limits.group_session_timeout_min_ms <= request.session_timeout_ms <= limits.group_session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.rebalance_timeout_ms > limits.group_session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not offered or not request.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        size = len(request.instance_id or "") + sum(len(name) + len(data) for name, data in request.protocols)
        if size > limits.group_member_bytes_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if group is None or not group.members:
            return None
        others = set(group.members) - {request.member_id}
        if others and (request.protocol_type != group.protocol_type or not offered & group.common_protocols()):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _enter(self, group: Group, request: JoinGroupRequest, client_id: str | None, done: Joined) -> None:
        member_id = request.member_id
        if member_id and member_id not in group.expected:
            done(JoinedGroup(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            return
        if not member_id:
            if self.members >= self._settings.group_members_max:
                done(JoinedGroup(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
                return
            member_id = self._new_id(client_id)
            if request.member_id_required:
                group.expected[member_id] = self._scheduler.monotonic() + request.session_timeout_ms / 1000
                done(JoinedGroup(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
        group.expected.pop(member_id, None)
        member = group.members[member_id] = Member(member_id, request)
        group.protocol_type = request.protocol_type
        member.joined = done
        self._rebalance(group)

    def _rejoin(self, group: Group, member: Member, request: JoinGroupRequest, done: Joined) -> None:
        self._seen(member)
        member.answer_join(JoinedGroup(ErrorCode.UNKNOWN_MEMBER_ID, member.id))
        same = member.protocols == request.protocols
        member.protocols = request.protocols
        if same and (group.state == "syncing" or (group.state == "stable" and member.id != group.leader)):
            done(self._membership(group, member))
            return
        member.joined = done
        self._rebalance(group)

    def _take_over(
        self, group: Group, old: Member, request: JoinGroupRequest, client_id: str | None, done: Joined
    ) -> None:
        member = Member(self._new_id(client_id), request)
        member.assignment = old.assignment
        group.members = {
            member.id if k == old.id else k: member if k == old.id else m for k, m in group.members.items()
        }
        if group.leader == old.id:
            group.leader = member.id
        old.dismiss(ErrorCode.FENCED_INSTANCE_ID)
        self._seen(member)
        if group.state == "stable" and old.protocols == member.protocols:
            done(self._membership(group, member))
            return
        member.joined = done
        self._rebalance(group)

    def _membership(self, group: Group, member: Member) -> JoinedGroup:
        members: tuple[tuple[str, str | None, bytes], ...] = ()
        if member.id == group.leader:
            members = tuple((m.id, m.instance_id, dict(m.protocols)[group.protocol]) for m in group.members.values())
        return JoinedGroup(ErrorCode.NONE, member.id, group.generation, group.protocol, group.leader, members)

    # Rebalancing.

    def _rebalance(self, group: Group) -> None:
        """Someone joined or left: collect everybody's join, then complete."""
        if group.state != "joining":
            group.first = group.state == "empty"
            group.state = "joining"
            for member in group.members.values():
                member.answer_sync(ErrorCode.REBALANCE_IN_PROGRESS)
            patience = max(m.rebalance_s for m in group.members.values())
            delay = self._settings.group_initial_delay_s if group.first else patience
            self._restart_timer(group, delay)
        if not group.first and all(m.joined for m in group.members.values()):
            self._complete(group)

    def _restart_timer(self, group: Group, delay_s: float) -> None:
        if group.timer:
            group.timer.cancel()
        group.timer = self._scheduler.call_later(delay_s, lambda: self._complete(group))

    def _complete(self, group: Group) -> None:
        """The members that joined are the new generation; the rest are out."""
        if group.timer:
            group.timer.cancel()
            group.timer = None
        group.members = {m.id: m for m in group.members.values() if m.joined or m.instance_id}
        waiting = [m for m in group.members.values() if m.joined]
        if not waiting:
            self._empty(group)
            return
        group.state = "syncing"
        group.generation += 1
        if group.leader not in group.members or group.members[group.leader] not in waiting:
            group.leader = waiting[0].id
        common = group.common_protocols()
        votes = Counter(next(name for name, _ in m.protocols if name in common) for m in group.members.values())
        group.protocol = votes.most_common(1)[0][0]
        for member in waiting:
            member.assignment = b""
            self._seen(member)
        for member in waiting:
            member.answer_join(self._membership(group, member))

    def _empty(self, group: Group) -> None:
        group.members.clear()
        group.state, group.leader, group.protocol = "empty", "", ""

    # Members in place.

    def _speaker(self, group_id: str, member_id: str, instance_id: str | None) -> tuple[Group, Member] | ErrorCode:
        """The member that speaks, now seen; or why it may not."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        static = group.of_instance(instance_id)
        if static is not None and static.id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._seen(member)
        return group, member

    def sync(self, request: SyncGroupRequest, done: Synced) -> None:
        """The leader gives assignments, everyone receives its own; ``done`` comes once they are there."""
        found = self._speaker(request.group, request.member_id, request.instance_id)
        if isinstance(found, ErrorCode):
            done(found, b"")
            return
        group, member = found
        if request.generation != group.generation:
            done(ErrorCode.ILLEGAL_GENERATION, b"")
        elif group.state == "joining":
            done(ErrorCode.REBALANCE_IN_PROGRESS, b"")
        elif group.state == "stable":
            done(ErrorCode.NONE, member.assignment)
        elif member.id != group.leader:
            member.answer_sync(ErrorCode.UNKNOWN_MEMBER_ID)
            member.synced = done
        elif any(len(a) > self._settings.group_member_bytes_max for _, a in request.assignments):
            done(ErrorCode.INVALID_REQUEST, b"")
        else:
            self._assign(group, request)
            done(ErrorCode.NONE, member.assignment)

    def _assign(self, group: Group, request: SyncGroupRequest) -> None:
        group.state = "stable"
        for member_id, assignment in request.assignments:
            if member_id in group.members:
                group.members[member_id].assignment = assignment
        for member in group.members.values():
            member.answer_sync(ErrorCode.NONE)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """I am still here; the answer says whether to join again."""
        found = self._speaker(request.group, request.member_id, request.instance_id)
        if isinstance(found, ErrorCode):
            return found
        group, _ = found
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state == "joining" else ErrorCode.NONE

    def leave(self, request: LeaveGroupRequest) -> list[tuple[str, str | None, int]]:
        """Members go; (member id, instance id, error) each."""
        group = self._groups.get(request.group)
        left = []
        for leaving in request.members:
            gone = self._remove(group, leaving.member_id, leaving.instance_id) if group else False
            error = ErrorCode.NONE if gone else ErrorCode.UNKNOWN_MEMBER_ID
            left.append((leaving.member_id, leaving.instance_id, int(error)))
        if group:
            self._after_removal(group)
        return left

    def _remove(self, group: Group, member_id: str, instance_id: str | None) -> bool:
        static = group.of_instance(instance_id)
        if not member_id and static is not None:
            member_id = static.id
        if group.expected.pop(member_id, None) is not None:
            return True
        member = group.members.pop(member_id, None)
        if member is None:
            return False
        member.dismiss(ErrorCode.UNKNOWN_MEMBER_ID)
        return True

    def _after_removal(self, group: Group) -> None:
        if group.state == "empty":
            return
        if not group.members:
            if group.timer:
                group.timer.cancel()
                group.timer = None
            self._empty(group)
        else:
            self._rebalance(group)

    # Committed offsets.

    def commit(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, at: OffsetCommitPartition
    ) -> ErrorCode:
        """Keep a position: from a member of this generation, or from outside (-1) while the group has no members."""
        if not 0 < len(group_id) <= GROUP_ID_MAX:
            return ErrorCode.INVALID_GROUP_ID
        group = self._open(group_id)
        if group is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if len((at.metadata or "").encode()) > self._settings.group_member_bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if generation >= 0 or group.members:
            found = self._speaker(group_id, member_id, instance_id)
            if isinstance(found, ErrorCode):
                return found
            if generation != group.generation:
                return ErrorCode.ILLEGAL_GENERATION
        group.kept = Kept(at.offset, at.leader_epoch, at.metadata)
        return ErrorCode.NONE

    def kept(self, group_id: str) -> Kept | None:
        """The position last committed."""
        group = self._groups.get(group_id)
        return group.kept if group else None

    # Housekeeping.

    def sweep(self) -> None:
        """Forget members silent beyond their session, promised ids nobody used, groups nobody uses. Once a second."""
        now = self._scheduler.monotonic()
        for group_id, group in list(self._groups.items()):
            group.expected = {k: until for k, until in group.expected.items() if until > now}
            silent = [m for m in group.members.values() if not self._waits(m) and now - m.seen > m.session_s]
            for member in silent:
                del group.members[member.id]
            if silent:
                self._after_removal(group)
            if group.members or group.expected:
                group.touched = now
            elif now - group.touched > self._settings.group_expiry_s:
                del self._groups[group_id]

    def clear(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """This node no longer coordinates: send everyone away and forget everything."""
        groups, self._groups = self._groups, {}
        for group in groups.values():
            if group.timer:
                group.timer.cancel()
            for member in group.members.values():
                member.dismiss(error)

    def _open(self, group_id: str) -> Group | None:
        """The group, made when new; None when there is no room for one more."""
        group = self._groups.get(group_id)
        if group is None:
            if len(self._groups) >= self._settings.groups_max and not self._make_room():
                return None
            group = self._groups[group_id] = Group()
        group.touched = self._scheduler.monotonic()
        return group

    def _make_room(self) -> bool:
        unused: Iterator[tuple[float, str]] = (
            (g.touched, group_id) for group_id, g in self._groups.items() if not g.members and not g.expected
        )
        oldest = min(unused, default=None)
        if oldest is None:
            return False
        del self._groups[oldest[1]]
        return True

    def _new_id(self, client_id: str | None) -> str:
        return f"{(client_id or 'consumer')[:64]}-{self._chance.getrandbits(128):032x}"

    def _seen(self, member: Member) -> None:
        member.seen = self._scheduler.monotonic()

    @staticmethod
    def _waits(member: Member) -> bool:
        return member.joined is not None or member.synced is not None
