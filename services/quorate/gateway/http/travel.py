"""``/v1/whatif``, ``/v1/balance`` and ``/v1/diff``: questions about states that were, or could be.

Rules: the state is read as any other (now linearizably, or at an offset); what could be is worked out by the rules the
controller decides with, and nothing is proposed.
"""

from typing import Literal

import msgspec

from quorate.controller import ReadView
from quorate.gateway.fresh import OFFSET_MAX, Freshness, is_past
from quorate.gateway.http.answers import Balance, Diff, WhatIfAnswer
from quorate.gateway.http.asking import FRESHNESS, Asking
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.messages import HttpError
from quorate.gateway.http.reading import ReadHandlers, filled, log_event
from quorate.gateway.http.routing import Call
from quorate.gateway.http.writing import decoded
from quorate.metadata.balance import plan
from quorate.metadata.context import Context
from quorate.metadata.whatif import Failures, whatif
from quorate.model.diff import changes
from quorate.model.state import State
from quorate.slices import Steps

FAIL_MAX = 10_000
"""Most failures of one question."""
NAMES_PER_STEP = 16
"""Each is looked for among all replicas of its set."""


class WhatIfBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of POST /v1/whatif."""

    at: int | None = None
    """The state before this offset; null: now."""
    fail: list[str] = []
    """``node/<id>`` and ``broker/<broker set>/<broker id>``."""
    unclean: bool | None = None
    """May replicas out of sync be elected? null: as the log and this node say."""


class Travel:
    """The handlers."""

    def __init__(self, context: HttpContext, asking: Asking, reading: ReadHandlers) -> None:
        self._context = context
        self._asking = asking
        self._reading = reading

    def whatif(self, call: Call) -> None:
        """POST /v1/whatif."""
        self._asking.admit("ReadWhatIf")
        body = decoded(call, WhatIfBody)
        if body.at is not None and not 0 <= body.at <= OFFSET_MAX:
            raise HttpError("invalid", f"at: {body.at} is out of range")
        if len(body.fail) > FAIL_MAX:
            raise HttpError("invalid", f"fail: at most {FAIL_MAX}")
        fresh = Freshness(linearizable=body.at is None, at=body.at)
        self._asking.view(fresh, call, lambda view: self._asking.made(call, self._whatif(view, body)))

    def _whatif(self, view: ReadView, body: WhatIfBody) -> Steps[WhatIfAnswer]:
        state, context = view.state, self._context
        failures = yield from failing(state, body.fail)
        if not is_past(view):  # Of the past nobody knows which controllers ran.
            voters = state.cluster.voters if state.cluster is not None else ()
            gone = frozenset(voter.id for voter in voters if not context.connected(voter.id))
            failures = Failures(nodes=failures.nodes | gone, brokers=failures.brokers)
        now_ms = view.time_ms if is_past(view) else context.scheduler.time_ms()
        outcome = yield from whatif(state, view.live, failures, body.unclean, context.policy, now_ms)
        return WhatIfAnswer(**self._asking.stamp(view), quorum=outcome.quorum, rows=outcome.rows)

    def balance(self, call: Call) -> None:
        """GET /v1/balance."""
        self._asking.answered(call, "ReadBalance", self._balance)

    def _balance(self, view: ReadView) -> Steps[Balance]:
        if is_past(view):
            raise HttpError("invalid", "at: of the past nobody knows which brokers were heard")
        context = self._context
        around = Context(
            now_ms=context.scheduler.time_ms(),
            term=view.term,
            policy=context.controller.policy_for(),
            live=view.live,
            members=context.controller.members,
        )
        found = yield from plan(view.state, around, context.balance)
        by: Literal["leader", "follower"] = "leader" if context.engine.is_leader else "follower"
        return Balance(**self._asking.stamp(view), by=by, **msgspec.structs.asdict(found))

    def diff(self, call: Call) -> None:
        """GET /v1/diff."""
        self._asking.admit("ReadDiff")
        query = call.request.query
        if parameters := [name for name in FRESHNESS if query.get(name, "")]:
            raise HttpError("invalid", f"{parameters[0]}: a difference is between two offsets, from and to")
        if not query.get("from", ""):
            raise HttpError("invalid", "from: which offset is the earlier one?")
        start, stop = call.integer("from", 0, 0, OFFSET_MAX), call.integer("to", -1, 0 if query.get("to") else -1)
        if 0 <= stop < start:
            raise HttpError("invalid", f"from {start} to {stop}: the earlier one comes first")
        events_from = call.integer("events_from", start, start, OFFSET_MAX)
        fresh = Freshness() if stop < 0 else Freshness(linearizable=False, at=stop)

        def later(view: ReadView) -> None:
            if start > view.offset:
                message = f"the log ends at offset {view.offset}"
                call.fail(HttpError("beyond_end", message, end_offset=view.offset))
                return
            earlier = Freshness(linearizable=False, at=start)
            self._asking.view(
                earlier, call, lambda before: self._asking.made(call, self._diff(call, before, view, events_from))
            )

        self._asking.view(fresh, call, later)

    def _diff(self, call: Call, before: ReadView, after: ReadView, events_from: int) -> Steps[Diff]:
        limit, name = self._asking.limit(call), call.request.query.get("after", "")
        found = yield from changes(before.state, after.state, name, limit)
        keys = [change.key for change in found.page]
        entities, more = yield from filled(keys, keys[-1] if found.more else None, found.page)
        events = []
        for stamp, event in (yield from self._reading.events(events_from, limit, after.offset)):
            events.append(log_event(stamp, event))
            yield
        reached = events[-1].offset + 1 if events else after.offset
        return Diff(
            **self._asking.stamp(after),
            start=before.offset,
            start_time_ms=before.time_ms,
            entities=entities,
            entity_count=found.count,
            next=more,
            event_count=after.offset - before.offset,
            events=events,
            events_next=reached if reached < after.offset else None,
        )


def failing(state: State, names: list[str]) -> Steps[Failures]:
    """What the names of a request stand for. Raises HttpError: ``invalid``, or ``not_found`` for what is not there."""
    nodes: set[int] = set()
    brokers: set[tuple[str, int]] = set()
    for count, name in enumerate(names, start=1):
        if count % NAMES_PER_STEP == 0:
            yield
        kind, _, rest = name.partition("/")
        broker_set, slash, number = rest.rpartition("/")
        if (
            not number.isdecimal()
            or len(number) > 18
            or kind not in ("node", "broker")
            or (kind == "node") == bool(slash)
        ):
            raise HttpError("invalid", f"fail: {name[:80]!r} is neither node/ID nor broker/SET/ID")
        if kind == "node":
            if state.cluster is None or all(voter.id != int(number) for voter in state.cluster.voters):
                raise HttpError("not_found", f"there is no controller {number}", "UnknownNode")
            nodes.add(int(number))
            continue
        entry = state.known(broker_set)
        if entry is None or entry.replica(int(number)) is None:
            raise HttpError("not_found", f"there is no broker {number} in {broker_set!r}", "BrokerNotRegistered")
        brokers.add((broker_set, int(number)))
    return Failures(frozenset(nodes), frozenset(brokers))
