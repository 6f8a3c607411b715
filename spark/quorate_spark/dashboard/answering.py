"""From a question to an answer: which view it is asked of, what comes back, how it may be kept.

Rules: panels run on one other thread, so that facts go on flowing; only so many questions wait for it. What the event
loop owns (the newest state, soft state) is taken before, on the loop.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Final, TypeVar, get_args

import msgspec
from msgspec import UNSET, UnsetType

from quorate.events import Event
from quorate.model.members import CONDITIONS
from quorate_spark.dashboard.asking import ApiError, Query
from quorate_spark.dashboard.follow import FollowStatus
from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.model import State
from quorate_spark.dashboard.panels import (
    density,
    diff,
    elections,
    events,
    health,
    journal,
    keys,
    leases,
    members,
    quorum,
    sessions,
    sets,
    subjects,
    timeline,
)
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.soft_state import Soft
from quorate_spark.dashboard.spark_store import ElectionQuery, Page

SHAPE: Final = 6
"""Counts changes of what answers look like, so that a browser does not show kept ones of before."""

_T = TypeVar("_T")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The frame of every answer (docs/dashboard.md)."""

    offset: int
    time: int | None
    node: int | None
    source: str
    batch: int | UnsetType = UNSET
    age_ms: int | None
    data: object


class AboutNode(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node is."""

    id: int
    kafka: str
    http: str


class AboutFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """When a set counts as flapping."""

    elections: int
    window_ms: int


class About(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/about."""

    cluster_id: str
    key: str
    topic: str
    mode: str
    end_offset: int
    first_time: int | None
    nodes: list[AboutNode]
    types: list[str]
    flapping: AboutFlapping
    version: str


class Panels:
    """Every GET, by its path below ``/api/``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.routes: Mapping[str, tuple[frozenset[str], Callable[[View, Query], object]]] = {
            "about": (frozenset(), self._about),
            "health": (frozenset(), lambda view, _: health.health(view)),
            "quorum": (frozenset(), lambda view, _: quorum.quorum(view)),
            "sets": (frozenset({"since", "name"}), self._sets),
            "keys": (frozenset({"prefix", "from", "q", "lease", "flat", "limit"}), self._keys),
            "key": (frozenset({"name", "before", "limit"}), self._key),
            "leases": (LEASES, self._leases),
            "members": (MEMBERS, lambda view, query: members.members(view, asked_members(query))),
            "member": (MEMBER, self._member),
            "shards": (frozenset({"q", "level", "from", "limit"}), self._shards),
            "shard": (frozenset({"name", "below", "limit"}), self._shard),
            "sessions": (frozenset({"q", "state", "member", "from", "limit"}), self._sessions),
            "session": (frozenset({"client", "before", "limit"}), self._session),
            "subjects": (frozenset({"from", "limit"}), self._subjects),
            "timeline": (frozenset({"from", "to", "show", "set", "limit"}), self._timeline),
            "elections": (frozenset({"set", "kind", "before", "after", "first", "limit"}), self._elections),
            "log": (frozenset({"q", "before", "limit", "offset"}), self._log),
            "density": (frozenset({"buckets"}), self._density),
            "seek": (frozenset({"t"}), self._seek),
            "diff": (frozenset({"from", "to", "limit"}), self._diff),
        }

    def _about(self, view: View, query: Query) -> About:
        flapping = self._settings.flapping
        return About(
            cluster_id=view.state.model.cluster.cluster_id if view.state.model.cluster else "",
            key=key_of(view.state, self._settings),
            topic=self._settings.topic,
            mode="nodes" if self._settings.recorded is None else "recorded",
            end_offset=view.offset,
            first_time=view.log.spool.times[0] if view.offset else None,
            nodes=[
                AboutNode(id=number, kafka=node.addresses.kafka, http=node.addresses.http)
                for number, node in sorted(view.state.nodes.items())
            ],
            types=sorted(kind.__name__ for kind in get_args(Event)),
            flapping=AboutFlapping(elections=flapping.elections, window_ms=flapping.window_ms),
            version=version("quorate"),
        )

    @staticmethod
    def _sets(view: View, query: Query) -> sets.Sets:
        return sets.sets(view, query.number("since"), query.names("name"))

    @staticmethod
    def _keys(view: View, query: Query) -> keys.Keys:
        flat = query.choice("flat", "0", "1") == "1"
        asked = (query.text("prefix"), query.text("from"), query.text("q"), query.lease("lease"))
        return keys.keys(view, *asked, flat=flat, limit=query.at_most("limit", 100, 1_000))

    @staticmethod
    def _key(view: View, query: Query) -> keys.KeyDetail:
        return keys.key(view, query.text("name"), query.number("before"), query.at_most("limit", 50, 500))

    @staticmethod
    def _leases(view: View, query: Query) -> leases.Leases:
        return leases.leases(view, *asked_leases(query))

    @staticmethod
    def _member(view: View, query: Query) -> members.MemberDetail:
        return members.member(view, query.text("name"), query.number("before"), query.at_most("limit", 50, 500))

    @staticmethod
    def _shards(view: View, query: Query) -> journal.Shards:
        level = query.choice("level", "", *journal.KEPT)
        limit = query.at_most("limit", 50, journal.LIMIT_MAX)
        return journal.shards(view, query.text("q"), level, query.text("from"), limit)

    @staticmethod
    def _shard(view: View, query: Query) -> journal.ShardDetail:
        limit = query.at_most("limit", 50, journal.LIMIT_MAX)
        return journal.shard(view, query.text("name"), query.number("below"), limit)

    @staticmethod
    def _sessions(view: View, query: Query) -> sessions.Sessions:
        asked = sessions.SessionQuery(
            q=query.text("q"),
            state=query.choice("state", "", *sessions.WHERE),
            member=query.text("member"),
            start=query.text("from"),
            limit=query.at_most("limit", 50, sessions.LIMIT_MAX),
        )
        return sessions.sessions(view, asked)

    @staticmethod
    def _session(view: View, query: Query) -> sessions.SessionDetail:
        limit = query.at_most("limit", 50, sessions.LIMIT_MAX)
        return sessions.session(view, query.text("client"), query.number("before"), limit)

    @staticmethod
    def _subjects(view: View, query: Query) -> subjects.Subjects:
        return subjects.subjects(view, query.text("from"), query.at_most("limit", 50, subjects.LIMIT_MAX))

    @staticmethod
    def _timeline(view: View, query: Query) -> timeline.Timeline:
        from_, to = query.number("from"), query.number("to")
        if from_ is not None and to is not None and from_ > to:
            raise ApiError("invalid", f"from: {from_} is after to, {to}")
        return timeline.timeline(
            view,
            from_,
            to,
            elections_only=query.choice("show", "all", "elections") == "elections",
            only=query.names("set"),
            limit=query.at_most("limit", 200, 2_000),
        )

    @staticmethod
    def _elections(view: View, query: Query) -> elections.Elections:
        asked = asked_elections(query)
        return elections.elections(
            view,
            only=asked.only or None,
            kind=asked.kind or None,
            before=asked.before,
            after=asked.after,
            first=asked.first,
            limit=asked.limit,
        )

    @staticmethod
    def _log(view: View, query: Query) -> events.Events:
        offset = query.number("offset")
        if offset is not None:
            return events.one(view, offset)
        return events.events(view, query.text("q"), query.number("before"), query.at_most("limit", 100, 1_000))

    @staticmethod
    def _density(view: View, query: Query) -> density.Density:
        return density.density(view, query.at_most("buckets", 300, 2_000))

    @staticmethod
    def _seek(view: View, query: Query) -> density.Seek:
        time = query.number("t")
        if time is None:
            raise ApiError("invalid", "t: a time is needed")
        return density.seek(view, time)

    @staticmethod
    def _diff(view: View, query: Query) -> diff.Diff:
        start = query.number("from", 0)
        if start is None:
            raise ApiError("invalid", "from: an offset is needed")
        if start > view.offset:
            raise ApiError("invalid", f"from: {start} is after to, {view.offset}")
        return diff.diff(view, view.log.history.at(start), query.at_most("limit", 500, 5_000))

    @staticmethod
    def election(view: View, offset: int) -> elections.ElectionDetail:
        """GET /api/elections/{offset}."""
        row = view.log.index.election_at(offset) if offset < view.offset else None
        if row is None:
            raise ApiError("not_found", f"there is no election at offset {offset} before {view.offset}")
        at = view.log.history.at
        lost = at(elections.base_of(view, row))
        return elections.election(view, row, lost, at(offset), at(offset + 1))


LEASES: Final = frozenset({"from", "lease", "limit"})
"""Parameters of /api/leases."""


def asked_leases(query: Query) -> tuple[int, int | None, int]:
    """From which one on, only which one, how many. Raises ApiError."""
    return query.lease("from") or 0, query.lease("lease"), query.at_most("limit", 50, leases.LIMIT_MAX)


MEMBERS: Final = frozenset({"q", "state", "role", "from", "limit"})
MEMBER: Final = frozenset({"name", "before", "limit"})
"""Parameters of /api/members and /api/member."""


def asked_members(query: Query) -> members.MemberQuery:
    """Which members. Raises ApiError."""
    return members.MemberQuery(
        q=query.text("q"),
        state=query.choice("state", "", *CONDITIONS),
        role=query.text("role"),
        start=query.text("from"),
        limit=query.at_most("limit", 50, members.LIMIT_MAX),
    )


def asked_elections(query: Query) -> ElectionQuery:
    """Which elections. Raises ApiError."""
    before, after = query.number("before"), query.number("after")
    if before is not None and after is not None:
        raise ApiError("invalid", "before and after: one of them")
    return ElectionQuery(
        only=query.text("set"),
        kind=query.text("kind"),
        before=before,
        after=after,
        first=query.choice("first", "0", "1") == "1",
        limit=query.at_most("limit", 100, 1_000),
    )


def from_store(view: View, page: Page, asked: ElectionQuery) -> bytes:
    """The answer of /api/elections from the serving store; the figures are of the same offset, from the fold."""
    items = page.items
    more = items[asked.limit - 1].offset if len(items) > asked.limit else None
    data = elections.Elections(elections=items[: asked.limit], next=more, kinds=elections.kinds(view))
    made = Answer(
        offset=view.offset,
        time=view.state.time,
        node=None,
        source="spark",
        batch=page.batch,
        age_ms=max(0, view.now - page.seen_ms),
        data=data,
    )
    return msgspec.json.encode(made)


def key_of(state: State, settings: Settings) -> str:
    """Names all that an answer about the past depends on, but the offset: cluster, settings, software."""
    cluster = state.model.cluster.cluster_id if state.model.cluster else ""
    return f"{cluster}.{SHAPE}.{settings.flapping.elections}.{settings.flapping.window_ms}"


class Answerer:
    """Makes answers. ``following`` and ``node`` tell how and of whom the log is followed."""

    def __init__(
        self,
        settings: Settings,
        folded: FoldedLog,
        clock_ms: Callable[[], int],
        following: Callable[[], FollowStatus],
        node: Callable[[], int | None],
    ) -> None:
        self._settings = settings
        self._folded = folded
        self._clock_ms = clock_ms
        self._following = following
        self._node = node
        self._worker = ThreadPoolExecutor(1, "panels")
        self._waiting = 0

    def close(self) -> None:
        """No more answers."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def off_loop(self, work: Callable[[], _T]) -> _T:
        """Run it on the other thread. Raises ApiError when too much waits there."""
        if self._waiting >= self._settings.waiting_max:
            raise ApiError("busy", f"{self._waiting} questions wait already: try again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, work)
        finally:
            self._waiting -= 1

    def ready(self) -> None:
        """Raises ApiError when there is nothing to answer from."""
        following = self._following()
        if self._folded.tip.offset == 0 and following.state not in ("following", "recorded"):
            raise ApiError("not_followed", f"{following.state}: {following.message or 'nothing was read yet'}")

    def check(self, at: int) -> None:
        """Raises ApiError when the log does not reach so far."""
        end = self._folded.tip.offset
        if at > end:
            raise ApiError("beyond_end", f"the log ends at {end}", end)

    def newest(self, soft: Soft | None) -> View:
        """The view of now."""
        return View(self._folded, self._folded.tip, self._clock_ms(), self._settings.flapping, soft)

    async def answer(self, at: int | None, soft: Soft | None, make: Callable[[View], object]) -> bytes:
        """The framed answer, as JSON; ``at`` None is now."""
        if at is None:
            view = self.newest(soft)
            node, age = self._node(), self._age(view)
            return await self.off_loop(lambda: _framed(view, make(view), node, age))
        self.check(at)
        return await self.off_loop(lambda: self._past(at, make))

    async def from_store(self, page: Page, asked: ElectionQuery) -> bytes:
        """Elections that Spark made, stamped with the offset they reflect."""
        now = self._clock_ms()

        def make() -> bytes:
            state = self._folded.history.at(page.position)
            return from_store(View(self._folded, state, now, self._settings.flapping), page, asked)

        return await self.off_loop(make)

    def _past(self, at: int, make: Callable[[View], object]) -> bytes:
        state = self._folded.history.at(at)
        view = View(self._folded, state, state.time or 0, self._settings.flapping)
        return _framed(view, make(view), None, None)

    def _age(self, view: View) -> int | None:
        newest = self._following().newest_at or view.state.time
        return None if newest is None else max(0, view.now - newest)


def _framed(view: View, data: object, node: int | None, age_ms: int | None) -> bytes:
    made = Answer(offset=view.offset, time=view.state.time, node=node, source="fold", age_ms=age_ms, data=data)
    return msgspec.json.encode(made)
