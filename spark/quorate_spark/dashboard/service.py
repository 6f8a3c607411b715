"""The web service: routes, headers, and the life of everything behind them.

Rules: nothing here decides or computes; a question that cannot be is refused with one of the codes of ``asking``.
Every answer carries the security headers; scripts, styles and fonts come from here alone. Who may ask is judged before
anything else (``quorate.origins``), so that no foreign page can read us, through a name of its own or ours.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from quorate.errors import QuorateError, UsageError
from quorate.guarded_web import GuardedRunner
from quorate.listening import ProtocolFactory
from quorate.origins import allowed_names
from quorate_spark.dashboard.announced import PARAMETERS, NodeTopics, announced, path
from quorate_spark.dashboard.answering import (
    LEASES,
    MEMBER,
    MEMBERS,
    Answer,
    Answerer,
    Panels,
    asked_elections,
    asked_leases,
    asked_members,
    key_of,
)
from quorate_spark.dashboard.asking import ApiError, Query
from quorate_spark.dashboard.follow import Follower, FollowStatus
from quorate_spark.dashboard.live import Hello, Hub
from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.panels.health import Health, health
from quorate_spark.dashboard.panels.leases import numbers
from quorate_spark.dashboard.panels.members import heard_of
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.recorded import recorded
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.site import Site, gzip
from quorate_spark.dashboard.soft import AskError, SoftState
from quorate_spark.dashboard.soft_state import MemberSoft, NodeSoft, Soft
from quorate_spark.dashboard.spark_store import ElectionQuery, Page
from quorate_spark.dashboard.streams import Stream, Streams
from quorate_spark.dashboard.whatif import NodeWhatIf, WhatIfAnswer, question, spelled_out, worded

log = logging.getLogger(__name__)

T = TypeVar("T")

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
BODY_MAX: Final = 1 << 20
GZIP_FROM: Final = 1_024
STALL_S: Final = 30.0
KEPT: Final = "private, max-age=86400, immutable"
ASKED_AGAIN: Final = "private, no-cache"
NEVER: Final = "no-store"


class SoftEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event ``soft``."""

    now: int
    offset: int
    """Of the facts that ``health`` rests on."""
    nodes: dict[int, NodeSoft]
    members: dict[str, dict[int, MemberSoft]] | None
    """Null: nobody tells of any."""
    health: Health


class LagEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event ``lag``."""

    now: int
    offset: int
    end_offset: int
    behind: int
    state: str
    message: str
    age_ms: int | None
    streams: list[Stream]


class Service:
    """One dashboard. A recorded log's clock stands still at its last event."""

    def __init__(self, settings: Settings, clock_ms: Callable[[], int], site: Site | None = None) -> None:
        self._settings = settings
        self._clock = clock_ms
        self._site = site or Site()
        self._allowed = allowed_names((settings.host, *settings.names), setting="--name")
        self.folded = FoldedLog(settings.cluster_id)
        self._recorded: FollowStatus | None = None
        self._answering = Answerer(
            settings, self.folded, self._clock_ms, lambda: self.following, lambda: self._follower.node
        )
        self._panels = Panels(settings)
        self._hub = Hub(settings, lambda: self._answering.newest(None), self._soft_now, self._behind)
        self._follower = Follower(settings, self.folded, self._clock_ms, self._hub.taken)
        self._soft = SoftState(settings, lambda: self.folded.tip, self._clock_ms, lambda: self._follower.zones)
        self._streams = Streams(settings, self._clock_ms)
        self._watched_ms = 0
        self.keeper: ProtocolFactory | None = None
        """Of the listener, if it is ours."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def following(self) -> FollowStatus:
        """How the log is followed."""
        return self._recorded or self._follower.following

    def _clock_ms(self) -> int:
        return self._recorded.newest_at if self._recorded else self._clock()

    def _behind(self) -> int:
        return max(0, self.following.end_offset - self.folded.tip.offset)

    def _soft_now(self) -> Soft | None:
        """What was told when nodes were asked last; None when that is long ago, because nobody watched."""
        latest = self._soft.latest
        return latest if latest is not None and self._clock_ms() - latest.polled <= self._settings.soft_ms else None

    # Life.

    def runner(self) -> GuardedRunner:
        """Runs the application behind its door."""
        return GuardedRunner(self.app(), self._allowed, HEADERS)

    def app(self) -> web.Application:
        """The web application; it begins to follow when it starts."""
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_MAX)
        app.router.add_get("/api/live", self._live)
        app.router.add_get("/api/streams", self._streams_now)
        app.router.add_get("/api/announced", self._announced)
        app.router.add_post("/api/whatif", self._what_if)
        app.router.add_get("/api/elections/{offset}", self._election)
        app.router.add_get("/api/elections", self._elections)
        app.router.add_get("/api/leases", self._leases)
        app.router.add_get("/api/members", self._members)
        app.router.add_get("/api/member", self._member)
        app.router.add_get("/api/{panel}", self._panel)
        app.router.add_get("/{path:.*}", self._asset)
        app.on_startup.append(self._start)
        app.on_shutdown.append(self._stop)
        return app

    async def _start(self, _: web.Application) -> None:
        if self._settings.recorded is not None:
            facts = list(recorded(self._settings.recorded))
            self.folded.take(facts)
            newest = facts[-1].stamp.time_ms if facts else 0
            self._recorded = FollowStatus(state="recorded", end_offset=len(facts), newest_at=newest)
        else:
            self._tasks.append(asyncio.create_task(self._follower.run()))
        self._tasks.append(asyncio.create_task(self._watch()))

    async def _stop(self, _: web.Application) -> None:
        self._hub.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):  # It was logged where it was met.
                await task
        await self._soft.close()
        await self._streams.close()
        self._answering.close()
        self.folded.close()

    async def _watch(self) -> None:
        """Ask for soft state, and tell it, while somebody watches."""
        period = self._settings.poll_ms / 1000
        while True:
            began = asyncio.get_running_loop().time()
            if self._hub or self._clock_ms() - self._watched_ms < self._settings.watch_ms:
                try:
                    await self._look()
                except Exception:
                    log.exception("soft state could not be asked for")
            await asyncio.sleep(max(period / 10, period - (asyncio.get_running_loop().time() - began)))

    async def _look(self) -> None:
        await self._streams.ask_all()
        if self._recorded is None and (soft := await self._soft.ask_all()) is not None:
            if self._soft.foreign:
                self._follower.refuse(f"the nodes belong to cluster {self._soft.foreign} now")
            if self._hub:
                self._hub.tell("soft", self._softened(soft))
        self._hub.tell("lag", self._lag())

    def _softened(self, soft: Soft) -> SoftEvent:
        view = self._answering.newest(soft)
        return SoftEvent(
            now=soft.polled,
            offset=view.offset,
            nodes=soft.nodes,
            members=self._interesting(soft) if soft.members else None,
            health=health(view),
        )

    def _interesting(self, soft: Soft) -> dict[str, dict[int, MemberSoft]]:
        """Members of all sets while they are few; else of those that are not in full sync."""
        sets = self.folded.tip.sets
        if len(sets) <= 100:
            return soft.members
        return {
            name: members
            for name, members in soft.members.items()
            if (broker_set := sets.get(name)) is not None
            and (broker_set.lost_at or len(broker_set.sync) < len(broker_set.members))
        }

    def _lag(self) -> LagEvent:
        following, offset, now = self.following, self.folded.tip.offset, self._clock_ms()
        return LagEvent(
            now=now,
            offset=offset,
            end_offset=max(following.end_offset, offset),
            behind=self._behind(),
            state=following.state,
            message=following.message,
            age_ms=now - following.newest_at if following.newest_at else None,
            streams=self._streams.answer(self.following, offset, now).streams,
        )

    # Questions.

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return _json(error.body(), error.status)
        except UsageError as error:
            return _json(ApiError("invalid", str(error)).body(), 400)
        except web.HTTPMethodNotAllowed as error:
            response = _json(ApiError("method_not_allowed", f"{request.method} is not for this path").body(), 405)
            response.headers["Allow"] = error.headers.get("Allow", "GET")
            return response
        except web.HTTPRequestEntityTooLarge:
            return _json(ApiError("too_large", f"a body has at most {BODY_MAX} bytes").body(), 413)
        except web.HTTPException as error:
            return _json(ApiError("not_found", "there is nothing here").body(), error.status)

    async def _panel(self, request: web.Request) -> web.StreamResponse:
        parameters, make = self._panels.routes.get(request.match_info["panel"], (None, None))
        if parameters is None or make is None:
            raise ApiError("not_found", "there is no such panel")
        when = "to" if request.match_info["panel"] == "diff" else "at"
        query = Query(request.query, parameters | {when, "key"})
        at = query.number(when)
        return await self._answered(request, query, at, lambda view: make(view, query))

    async def _elections(self, request: web.Request) -> web.StreamResponse:
        """From the serving store if that knows all there is to know, else from the fold."""
        parameters, make = self._panels.routes["elections"]
        query = Query(request.query, parameters | {"at", "key"})
        asked, at = asked_elections(query), query.number("at")
        page = None if at is not None else await self._from_spark(asked)
        if page is None:
            return await self._answered(request, query, at, lambda view: make(view, query))
        self._watched_ms = self._clock_ms()
        return await self._packed(request, await self._answering.from_store(page, asked), {"Cache-Control": NEVER})

    async def _from_spark(self, asked: ElectionQuery) -> Page | None:
        """A page that lacks nothing we know of; None when Spark is down, late, or ahead of us."""
        end, store = self.folded.index.last_election_word(), self._streams.store
        if store is None or not self._streams.fresh(end, self._clock_ms()):
            return None
        try:
            async with asyncio.timeout(self._settings.node_timeout_ms / 1000):
                page = await store.elections(asked)
        except (QuorateError, TimeoutError):
            return None
        return page if page is not None and end <= page.position <= self.folded.tip.offset else None

    async def _leases(self, request: web.Request) -> web.StreamResponse:
        """Now with what is left of each, which the leader is asked for."""
        query = Query(request.query, LEASES | {"at", "key"})
        start, only, limit = asked_leases(query)

        async def soft() -> Soft:
            found = await self._soft.leases(numbers(self.folded.tip, start, only, limit)[:limit])
            return Soft(polled=self._clock_ms(), leases=found)

        return await self._with_leader(request, query, "leases", soft)

    async def _members(self, request: web.Request) -> web.StreamResponse:
        """Now with when each was heard."""
        query = Query(request.query, MEMBERS | {"at", "key"})
        asked, state = asked_members(query), self.folded.tip

        async def soft() -> Soft:
            return await self._heard(await self._answering.off_loop(lambda: heard_of(state, asked)))

        return await self._with_leader(request, query, "members", soft)

    async def _member(self, request: web.Request) -> web.StreamResponse:
        query = Query(request.query, MEMBER | {"at", "key"})
        name = query.text("name")
        there = [name] if name in self.folded.tip.model.members else []
        return await self._with_leader(request, query, "member", lambda: self._heard(there))

    async def _heard(self, names: list[str]) -> Soft:
        heard, latest = await self._soft.heard(names), self._soft_now() or Soft(polled=self._clock_ms())
        return msgspec.structs.replace(latest, heard=heard)

    async def _with_leader(
        self, request: web.Request, query: Query, panel: str, soft: Callable[[], Awaitable[Soft]]
    ) -> web.StreamResponse:
        """A panel over whose facts the leader's word is laid; in the past, and of a recorded log, there is none."""
        at, make, told = query.number("at"), self._panels.routes[panel][1], None
        if at is None and self._recorded is None:
            told = await soft()
        return await self._answered(request, query, at, lambda view: make(replace(view, soft=told), query))

    async def _election(self, request: web.Request) -> web.StreamResponse:
        text = request.match_info["offset"]
        if not (text.isascii() and text.isdecimal()) or len(text) > 15:
            raise ApiError("invalid", f"{text[:40]!r} is no offset")
        query = Query(request.query, frozenset({"at", "key"}))
        return await self._answered(
            request, query, query.number("at"), lambda view: self._panels.election(view, int(text))
        )

    async def _answered(
        self, request: web.Request, query: Query, at: int | None, make: Callable[[View], object]
    ) -> web.StreamResponse:
        """Now, or then: what is about the past never changes, and may be kept."""
        self._answering.ready()
        if at is None:
            self._watched_ms = self._clock_ms()
            body = await self._answering.answer(None, self._soft_now(), make)
            return await self._packed(request, body, {"Cache-Control": NEVER})
        self._answering.check(at)
        key, asked = key_of(self.folded.tip, self._settings), query.text("key")
        if asked not in ("", key):
            raise ApiError("not_found", f"key: this is not {asked[:80]!r} but {key!r}")
        etag = f'"{key}.{at}"'
        headers = {"ETag": etag, "Cache-Control": KEPT if asked else ASKED_AGAIN}
        if etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        return await self._packed(request, await self._answering.answer(at, None, make), headers)

    async def _packed(self, request: web.Request, body: bytes, headers: dict[str, str]) -> web.Response:
        headers["Vary"] = "Accept-Encoding"
        if len(body) >= GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
            body = await self._answering.off_loop(lambda: gzip(body, 1))
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, content_type="application/json", charset="utf-8", headers=headers)

    async def _streams_now(self, request: web.Request) -> web.StreamResponse:
        Query(request.query, frozenset())
        self._watched_ms = now = self._clock_ms()
        tip = self.folded.tip
        data = self._streams.answer(self.following, tip.offset, now)
        return _json(msgspec.json.encode(self._frame(tip.offset, tip.time, None, "fold", data)), 200)

    @staticmethod
    def _frame(offset: int, time: int | None, node: int | None, source: str, data: object) -> Answer:
        return Answer(offset=offset, time=time, node=node, source=source, age_ms=0, data=data)

    async def _announced(self, request: web.Request) -> web.StreamResponse:
        query = Query(request.query, PARAMETERS)
        self._watched_ms = self._clock_ms()
        number, answer = await self._of_a_node(path(query), NodeTopics)
        data = announced(query.text("set"), answer)
        return _json(msgspec.json.encode(self._frame(answer.offset, answer.time_ms, number, "node", data)), 200)

    async def _of_a_node(self, where: str, kind: type[T], body: bytes | None = None) -> tuple[int, T]:
        """Some node's answer, and which node. Raises ApiError."""
        self._answering.ready()
        if self._recorded is not None:
            raise ApiError("node_failed", "a recorded log has no node that could be asked")
        try:
            return await self._soft.ask_any(where, kind, body)
        except AskError as error:
            code = {400: "invalid", 404: "not_found"}.get(error.status, "node_failed")
            raise ApiError(code, str(error)) from error

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._settings.body_ms / 1000):
                asked = question(await request.read())
        except TimeoutError:
            raise ApiError("invalid", "the question did not come to its end in time") from None
        self._answering.ready()
        if asked.at is not None:
            self._answering.check(asked.at)
        state = self.folded.tip
        if asked.at is not None:
            at = asked.at
            state = await self._answering.off_loop(lambda: self.folded.history.at(at))
        zones = self._follower.zones
        fail = await self._answering.off_loop(lambda: spelled_out(asked, state, zones))
        body = msgspec.json.encode({"at": asked.at, "fail": fail, "unclean": asked.unclean})
        number, answer = await self._of_a_node("/v1/whatif", NodeWhatIf, body)

        def told() -> bytes:
            data = WhatIfAnswer(quorum=answer.quorum, rows=worded(answer.rows), fail=fail)
            return msgspec.json.encode(self._frame(answer.offset, answer.time_ms, number, "node", data))

        return _json(await self._answering.off_loop(told), 200)

    # Live.

    async def _live(self, request: web.Request) -> web.StreamResponse:
        query = Query(request.query, frozenset({"from"}))
        since = query.number("from")
        last = request.headers.get("Last-Event-ID", "")
        if last.isascii() and last.isdecimal() and len(last) <= 15:
            since = int(last)
        if len(self._hub) >= self._settings.clients_max:
            raise ApiError("busy", f"{len(self._hub)} streams are open already")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": NEVER, **HEADERS})
        tip, now = self.folded.tip, self._clock_ms()
        end = max(self.following.end_offset, tip.offset)
        key = key_of(tip, self._settings)
        client = self._hub.join(Hello(offset=tip.offset, time=tip.time, end_offset=end, now=now, key=key), since)
        try:  # It has its place from here on, however many come in the same moment.
            await response.prepare(request)
            if self.keeper is not None:
                self.keeper.prove(request.transport)
            while data := await client.take():
                await asyncio.wait_for(response.write(data), STALL_S)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            self._hub.leave(client)
        return response

    # Files.

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._site.asset(request.match_info["path"])
        if asset is None:
            raise ApiError("not_found", "there is no such file")
        headers = {"ETag": asset.etag, "Cache-Control": ASKED_AGAIN, "Vary": "Accept-Encoding"}
        if asset.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        body = asset.body
        if asset.packed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = asset.packed, "gzip"
        headers["Content-Type"] = asset.kind
        return web.Response(body=body, headers=headers)


def _json(body: bytes, status: int) -> web.Response:
    return web.Response(
        body=body, status=status, content_type="application/json", charset="utf-8", headers={"Cache-Control": NEVER}
    )
