"""``quorate.meta.v1.Members.Watch``: every change of members and of RocketMQ's brokers, from any revision of the log.

Rules: as ``log_watches`` has them. A member that is not meant any more is told as one that left.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from quorate.events import Event
from quorate.events.codec import about
from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.log_watches import LogWatches
from quorate.gateway.grpc.members import selector, told
from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.watch_log import WatchKinds
from quorate.model.members import BROKER_ROLE, Selector, of_set
from quorate.model.state import Member, State
from quorate.model.words import sentence

Change = tuple[str, Member | None, Member | None, str]
"""Name, before, after, and what happened."""
Changes = tuple[int, list[Change]]
"""A revision, and what it changed."""


def _changes(revision: int, before: State, after: State, events: Sequence[Event], size: int) -> Changes:
    """By member: one that several events of an entry are about is told once, with the last of them."""
    found: dict[str, Change] = {}
    for event in events:
        kind, name = about(event)
        what = sentence(event)
        if kind == "member":
            found[name] = (name, before.members.get(name), after.members.get(name), what)
            continue
        was, now = before.broker_sets.get(name), after.broker_sets.get(name)
        old, new = ({} if one is None else of_set(one) for one in (was, now))
        for broker in old.keys() | new.keys():
            if old.get(broker) != new.get(broker):
                found[broker] = (broker, old.get(broker), new.get(broker), what)
    return revision, [found[name] for name in sorted(found)]


MEMBERS: Final = WatchKinds(("member",), lambda state: State(members=state.members), _changes)
WITH_BROKERS: Final = WatchKinds(
    ("member", "broker-set"),
    lambda state: State(members=state.members, broker_sets=state.broker_sets),
    _changes,
)


class MemberWatches(LogWatches):
    """All watches of members of a node, and their handler."""

    async def watch(
        self, request: members_pb2.WatchMembersRequest, call: Call
    ) -> AsyncIterator[members_pb2.WatchMembersResponse]:
        """The first answer says from where on; then one for each revision that concerns the selector."""
        self._asking.allowed("WatchMembers", "member")
        meant = selector(request.selector)
        whom = WITH_BROKERS if not meant.roles or BROKER_ROLE in meant.roles else MEMBERS
        following = self.follow(whom, request.start_revision)
        try:
            yield members_pb2.WatchMembersResponse(revision=following.begins)
            async for revision, changes in following.changes():
                answer = [one for one in (_told_of(change, meant) for change in changes) if one is not None]
                if answer and revision >= request.start_revision:
                    yield members_pb2.WatchMembersResponse(revision=revision, changes=answer)
        finally:
            self.leave(following)


def _told_of(change: Change, meant: Selector) -> members_pb2.MemberChange | None:
    """What a watcher of these is told; None: nothing of them."""
    name, before, after, what = change
    means = after is not None and meant.means(after)
    if not means and (before is None or not meant.means(before)):
        return None
    member = None if after is None else told(after)
    return members_pb2.MemberChange(member=member, name=name, left=not means, what=what)
