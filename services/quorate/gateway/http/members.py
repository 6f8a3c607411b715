"""``GET /v1/members``: services that registered, and RocketMQ's brokers beside them.

Rules: what a member is stands in the log; when it was heard, and how it is, is added by the node that leads, of now.
A page costs what is on it, and a look at the brokers.
"""

from typing import Final

import msgspec

from quorate.controller.views import ReadView
from quorate.gateway.fresh import is_past
from quorate.gateway.http.answers import HealthItem, MemberAnswer, MemberItem, Members
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.messages import HttpError
from quorate.gateway.http.reading import filled, present
from quorate.gateway.http.routing import Call
from quorate.model.members import CONDITIONS, Selector, broker_of, condition, named, selected, stays_for
from quorate.model.state import Member
from quorate.slices import Steps

SELECTING: Final = ("role", "state", "label")
NAMES_MAX: Final = 100
"""Members that are asked for by name at once: an answer then costs what was asked for, never all of them."""


def selector(call: Call) -> Selector:
    """Which are meant: by a role, a state, a label (``name`` or ``name=value``). Raises HttpError."""
    role, state, label = (call.request.query.get(name, "") for name in SELECTING)
    if state and state not in CONDITIONS:
        raise HttpError("invalid", f"state: {state[:40]!r} is none of {', '.join(CONDITIONS)}")
    name, _, value = label.partition("=")
    return Selector(
        roles=(role,) if role else (), labels={name: value} if name else {}, conditions=(state,) if state else ()
    )


class MemberHandlers:
    """The handlers."""

    def __init__(self, context: HttpContext, asking: Asking) -> None:
        self._context, self._asking = context, asking

    def members(self, call: Call) -> None:
        """GET /v1/members."""
        limit, after, meant = self._asking.limit(call), call.request.query.get("after", ""), selector(call)
        named_ones = [name for name in call.request.query.get("names", "").split(",") if name]
        if len(named_ones) > NAMES_MAX:
            raise HttpError("invalid", f"names: at most {NAMES_MAX}")

        def make(view: ReadView) -> Steps[Members]:
            if named_ones:
                found = [member for name in named_ones if (member := named(view.state, name)) is not None]
                yield
                items = [self._item(member, view) for member in found]
                return Members(**self._asking.stamp(view), members=items, next=None)
            made = yield from selected(view.state, meant, lambda member: self._item(member, view), after, limit + 1)
            names = [item.name for item in made[:limit]]
            items, more = yield from filled(names, names[-1] if len(made) > limit else None, made[:limit])
            return Members(**self._asking.stamp(view), members=items, next=more)

        self._asking.answered(call, "ReadMembers", make)

    def member(self, call: Call) -> None:
        """GET /v1/members/{member}."""

        def make(view: ReadView) -> Steps[MemberAnswer]:
            yield
            member = present(named(view.state, call.found["member"]), "there is no such member")
            return MemberAnswer(**self._asking.stamp(view), member=self._item(member, view))

        self._asking.answered(call, "ReadMembers", make)

    def _item(self, member: Member, view: ReadView) -> MemberItem:
        heard, name, epoch = self._context.controller.members, member.name, member.epoch
        if not epoch:
            live = view.live.info(*broker_of(member))
            heard_ms, health = (0 if live is None else live.last_heartbeat_ms), None
        else:
            past = is_past(view)
            heard_ms, health = (0, None) if past else (heard.last_heard_ms(name, epoch), heard.health(name, epoch))
        stays = stays_for(view.state, member) if member.draining else ""
        return MemberItem(
            name=name,
            state=condition(member),
            incarnation=member.incarnation,
            epoch=epoch,
            roles=member.roles,
            addresses=member.addresses,
            labels=member.labels,
            timeout_ms=member.timeout_ms,
            draining=member.draining,
            may_leave=member.draining and not stays,
            stays_for=stays,
            changed_ms=member.changed_ms,
            last_heard_ms=heard_ms or None,
            health=None if health is None else msgspec.convert(health, HealthItem, from_attributes=True),
        )
