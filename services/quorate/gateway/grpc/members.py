"""``quorate.meta.v1.Members``: register, heartbeat, drain, unregister, list, describe.

Rules: whatever a member asks is a command: any node takes it, its leader decides it, and its answer is of a leader that
still leads. A list is a read as any other. A refusal's text begins with its name.
"""

from collections.abc import AsyncIterator
from typing import Final

from quorate.gateway.grpc.asking import Asking, Call, in_turns, page, page_of
from quorate.gateway.grpc.codes import CallError, StatusCode, at_most
from quorate.gateway.grpc.pb import members_pb2
from quorate.metadata.commands import (
    AskMember,
    DrainMember,
    HearMember,
    MemberDescribed,
    MemberIs,
    RegisterMember,
    UnregisterMember,
)
from quorate.metadata.members import (
    ADDRESSES_MAX,
    BAD_ADDRESSES,
    BAD_LABELS,
    BAD_ROLES,
    LABELS_MAX,
    ROLES_MAX,
)
from quorate.model.live import MemberHealth
from quorate.model.members import Condition, Selector, condition, selected
from quorate.model.state import Member

STATES: Final[dict[Condition, members_pb2.MemberState]] = {
    "active": members_pb2.MEMBER_STATE_ACTIVE,
    "fenced": members_pb2.MEMBER_STATE_FENCED,
    "draining": members_pb2.MEMBER_STATE_DRAINING,
}
_CONDITIONS: Final = {number: word for word, number in STATES.items()}
SELECTED_MAX: Final = 64
"""Roles, labels or states of one selector: each member is compared with all of them."""


def selector(message: members_pb2.MemberSelector) -> Selector:
    """Which are meant. Raises CallError."""
    if max(len(message.roles), len(message.labels), len(message.states)) > SELECTED_MAX:
        text = f"quorate: a selector has at most {SELECTED_MAX} roles, as many labels and as many states"
        raise CallError(StatusCode.INVALID_ARGUMENT, text)
    if not all(number in _CONDITIONS for number in message.states):
        raise CallError(StatusCode.INVALID_ARGUMENT, "quorate: a selector of a state that is none")
    return Selector(
        roles=tuple(message.roles),
        labels=dict(message.labels),
        conditions=tuple(_CONDITIONS[number] for number in message.states),
    )


def told(member: Member) -> members_pb2.Member:
    """A member as a message."""
    return members_pb2.Member(
        name=member.name,
        incarnation=member.incarnation,
        epoch=member.epoch,
        roles=member.roles,
        addresses=member.addresses,
        labels=member.labels,
        timeout_ms=member.timeout_ms,
        state=STATES[condition(member)],
        draining=member.draining,
        changed_ms=member.changed_ms,
    )


class MemberService:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking, self._context = asking, asking.context
        self._places = {voter.node_id: voter.grpc for voter in asking.context.voters}

    async def register(
        self, request: members_pb2.RegisterMemberRequest, call: Call
    ) -> members_pb2.RegisterMemberResponse:
        """One life of a member begins, or goes on."""
        at_most(ROLES_MAX, len(request.roles), BAD_ROLES)
        at_most(ADDRESSES_MAX, len(request.addresses), BAD_ADDRESSES)
        at_most(LABELS_MAX, len(request.labels), BAD_LABELS)
        command = RegisterMember(
            name=request.name,
            incarnation=request.incarnation,
            timeout_ms=request.timeout_ms,
            roles=tuple(request.roles),
            addresses=dict(request.addresses),
            labels=dict(request.labels),
        )
        reply, revision = await self._asking.submit(command, call, _resource(request.name), MemberIs)
        return members_pb2.RegisterMemberResponse(
            epoch=reply.registered_epoch(revision + 1), fenced=reply.fenced, draining=reply.draining, revision=revision
        )

    async def heartbeat(
        self, request: members_pb2.MemberHeartbeatRequest, call: Call
    ) -> members_pb2.MemberHeartbeatResponse:
        """A member is there."""
        said = request.health
        command = HearMember(
            name=request.name,
            epoch=request.epoch,
            applied_revision=request.applied_revision,
            health=MemberHealth(
                disk_used_bytes=said.disk_used_bytes,
                disk_total_bytes=said.disk_total_bytes,
                cpu_percent=said.cpu_percent,
                memory_percent=said.memory_percent,
                io_errors=said.io_errors,
            ),
            want_drain=request.want_drain,
        )
        reply, revision = await self._asking.submit(
            command, call, _resource(request.name), MemberIs, applied_here=False
        )
        leader = self._context.controller.leader_id or 0
        return members_pb2.MemberHeartbeatResponse(
            fenced=reply.fenced,
            draining=reply.draining,
            may_leave=reply.may_leave,
            revision=revision,
            leader_id=leader,
            leader=self._places.get(leader, ""),
        )

    async def heartbeats(
        self, requests: AsyncIterator[members_pb2.MemberHeartbeatRequest], call: Call
    ) -> AsyncIterator[members_pb2.MemberHeartbeatResponse]:
        """One answer to each, in their order; a refusal ends the stream."""
        async for request in requests:
            yield await self.heartbeat(request, call)

    async def drain(self, request: members_pb2.DrainMemberRequest, call: Call) -> members_pb2.DrainMemberResponse:
        """A member is to leave."""
        command = DrainMember(name=request.name, epoch=request.epoch or None)
        reply, revision = await self._asking.submit(command, call, _resource(request.name), MemberIs)
        return members_pb2.DrainMemberResponse(epoch=reply.epoch, may_leave=reply.may_leave, revision=revision)

    async def unregister(
        self, request: members_pb2.UnregisterMemberRequest, call: Call
    ) -> members_pb2.UnregisterMemberResponse:
        """A member is forgotten."""
        command = UnregisterMember(name=request.name, epoch=request.epoch or None, force=request.force)
        _, revision = await self._asking.submit(command, call, _resource(request.name), MemberIs)
        return members_pb2.UnregisterMemberResponse(revision=revision)

    async def listing(self, request: members_pb2.ListMembersRequest, call: Call) -> members_pb2.ListMembersResponse:
        """Those that are meant, by name, a page at a time."""
        self._asking.allowed("ListMembers", "member")
        meant, limit = selector(request.selector), page_of(request.limit)
        view = await self._asking.view(call, stale=request.stale)
        found = await in_turns(selected(view.state, meant, lambda member: member, request.after, limit + 1))
        members, more = await in_turns(page(map(told, found), limit))
        return members_pb2.ListMembersResponse(members=members, more=more, revision=max(view.offset - 1, 0))

    async def describe(
        self, request: members_pb2.DescribeMemberRequest, call: Call
    ) -> members_pb2.DescribeMemberResponse:
        """One of them, and what its leader hears of it."""
        command = AskMember(name=request.name)
        reply, revision = await self._asking.submit(command, call, _resource(request.name), MemberDescribed)
        said = reply.health
        health = (
            None
            if said is None
            else members_pb2.MemberHealth(
                disk_used_bytes=said.disk_used_bytes,
                disk_total_bytes=said.disk_total_bytes,
                cpu_percent=said.cpu_percent,
                memory_percent=said.memory_percent,
                io_errors=said.io_errors,
            )
        )
        return members_pb2.DescribeMemberResponse(
            member=told(reply.member),
            last_heard_ms=reply.last_heard_ms,
            health=health,
            may_leave=reply.may_leave,
            revision=revision,
        )


def _resource(name: str) -> str:
    return f"member/{name}"
