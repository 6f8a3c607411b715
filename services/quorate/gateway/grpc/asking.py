"""How a call reads and writes: one command or one view, within the caller's own deadline.

Rules: a call ends by an answer or by a ``CallError``; access and quota are asked first. A write is answered when this
node has applied it too, so that its client reads here what it wrote; at the latest when its time is over.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from quorate.controller import Answered, Caller, Outcome, ReadView
from quorate.errors import UsageError
from quorate.gateway.first_answers import FirstAnswers
from quorate.gateway.fresh import Freshness, FreshReader, NotFresh
from quorate.gateway.grpc.codes import (
    DENIED,
    FUTURE,
    PAST_DEADLINE,
    TIMED_OUT,
    TOO_MANY,
    CallError,
    failed,
    not_fresh,
)
from quorate.gateway.grpc.context import PRINCIPAL, GrpcContext, number_of
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.metadata.commands import Command, Reply
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue
from quorate.slices import Steps

T = TypeVar("T")
R = TypeVar("R", bound=Reply)
M = TypeVar("M", bound=Message)
GRACE_S = 0.5
"""How much longer than its parts, which end by themselves, a wait may take."""
PAGE = 1_000
"""Items of one answer of a list."""
PAGE_BYTES = 1 << 20
"""Of one answer, after which there are more: stock clients take 4 MiB, and no item has more than one."""
PER_STEP = 16
"""Items that are made before other work gets its turn."""


async def in_turns(steps: Steps[T]) -> T:
    """Run to the end, a step in each turn of the loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        await asyncio.sleep(0)


def page_of(limit: int) -> int:
    """How many items an answer has at most, by the limit that was asked for; 0: as many as an answer holds."""
    return min(limit, PAGE) if limit > 0 else PAGE


def page(items: Iterable[M | None], limit: int) -> Steps[tuple[list[M], bool]]:
    """As many as are asked for and an answer holds; are there more? They are made as they are read; None: a step is
    over, and none was made.
    """
    found, size = list[M](), 0
    for item in items:
        if item is None:
            yield
            continue
        if len(found) == limit or size > PAGE_BYTES:
            return found, True
        found.append(item)
        size += item.ByteSize()
        if not len(found) % PER_STEP:
            yield
    return found, False


class Call(Protocol):
    """One call, as its handler sees it."""

    def peer(self) -> str:
        """Who asks."""

    def time_remaining(self) -> float | None:
        """Until the caller's deadline, in seconds; None: it has none."""

    def hold(self, count: int) -> None:
        """So many bytes of an answer are being made. Raises CallError when there is no room for them."""


class Asking:
    """Reads and writes of one node."""

    def __init__(self, context: GrpcContext) -> None:
        self.context = context
        controller = context.controller
        self._commands = FirstAnswers(controller, context.fresh, context.log, context.scheduler, controller.policy)
        self._cluster = number_of(context.cluster_id)

    def header(self, revision: int | None = None) -> rpc_pb2.ResponseHeader:
        """Of an answer at this revision, or at what is applied here."""
        context = self.context
        return rpc_pb2.ResponseHeader(
            cluster_id=self._cluster,
            member_id=context.node_id,
            revision=self.revision if revision is None else revision,
            raft_term=context.controller.term,
        )

    @property
    def revision(self) -> int:
        """Of what is applied here."""
        return max(self.context.controller.offset - 1, 0)

    def allowed(self, operation: str, resource: str) -> None:
        """Raises CallError when it is not."""
        if not self.context.access.authorize(PRINCIPAL, operation, resource):
            raise CallError(*DENIED)
        if not self.context.quota.admit(PRINCIPAL, operation):
            raise CallError(*TOO_MANY)

    def time_for(self, call: Call) -> float:
        """How long it may take. Raises CallError when its caller has given up: then nothing is begun."""
        left, most = call.time_remaining(), self.context.settings.answer_timeout_s
        if left is None:
            return most
        if left <= 0:
            raise CallError(*PAST_DEADLINE)
        return min(left, most)

    async def submit(
        self,
        command: Command,
        call: Call,
        resource: str,
        kind: type[R],
        *,
        request_id: str = "",
        applied_here: bool = True,
    ) -> tuple[R, int]:
        """The reply, of this kind, and its revision; as it was, if this id ran before, which may take as long as a read
        of the past beyond the time of a write. ``applied_here``: not before this node shows it, which a word of life
        has no need of: the next one waits for its answer. Raises CallError.
        """
        self.allowed(type(command).__name__, resource)
        within_s = self.time_for(call)
        outcome = await self._outcome(command, Caller(PRINCIPAL, call.peer()), within_s, request_id)
        if not isinstance(outcome, Answered) or not isinstance(outcome.reply, kind):
            raise failed(outcome)
        if applied_here and self.context.controller.offset < outcome.offset:  # In time or not: it is answered.
            written = Freshness(linearizable=False, min_offset=outcome.offset)
            with suppress(CallError):
                await _seen(self.context.written, written, within_s)
        return outcome.reply, max(outcome.offset - 1, 0)

    async def _outcome(self, command: Command, caller: Caller, within_s: float, request_id: str) -> Outcome:
        def begin(done: Callable[[Outcome], None]) -> None:
            self._commands.submit(command, caller, done, cause="grpc", request_id=request_id, timeout_s=within_s)

        settings = self.context.settings
        again_s = settings.answer_timeout_s + settings.past_timeout_s if request_id else 0.0
        return await _told(begin, within_s + again_s)  # It ends by itself.

    async def view(self, call: Call, *, stale: bool = False) -> ReadView:
        """The state: with all that was committed before, or as this node has it. Raises CallError."""
        return await self._view(Freshness(linearizable=not stale), self.time_for(call))

    async def _view(self, freshness: Freshness, within_s: float) -> ReadView:
        view = await _seen(self.context.fresh, freshness, within_s)
        if isinstance(view, NotFresh):
            raise not_fresh(view)
        return view

    async def keys_at(self, revision: int, call: Call, *, stale: bool = False) -> tuple[OrderedMap[KeyValue], int]:
        """The keys at a revision (0: now), and the revision that is now. Raises CallError."""
        view = await self.view(call, stale=stale)
        now = max(view.offset - 1, 0)
        known = self.context.machine.key_history.at(revision) if 0 < revision < now else None
        if known is None:
            known = (await self._then(revision, view, call)).state.keys
        return known, now

    async def view_at(self, revision: int, call: Call, *, stale: bool = False) -> ReadView:
        """The state at a revision (0: now). Raises CallError."""
        return await self._then(revision, await self.view(call, stale=stale), call)

    async def _then(self, revision: int, view: ReadView, call: Call) -> ReadView:
        now = max(view.offset - 1, 0)
        if revision <= 0 or revision == now:
            return view
        if revision > now:
            raise CallError(*FUTURE)
        left, most = call.time_remaining(), self.context.settings.past_timeout_s
        return await self.past(self.entry_end(revision), most if left is None else min(left, most))

    async def keys_then(self, revisions: Iterable[int], call: Call) -> dict[int, OrderedMap[KeyValue]]:
        """The keys at each of these revisions, all of them within the time of one. Raises CallError."""
        found = {}
        try:
            async with asyncio.timeout(self.context.settings.past_timeout_s):
                for revision in sorted(revisions):
                    ahead = revision > self.revision  # Only then has another node to say whether it is the future.
                    found[revision], _ = await self.keys_at(revision, call, stale=not ahead)
        except TimeoutError as error:
            raise CallError(*TIMED_OUT) from error
        return found

    def entry_end(self, revision: int) -> int:
        """Where the last entry ends that ends at or before this revision: an offset. Raises CallError."""
        base, end = self._entry(revision)
        return end if end == revision + 1 else base

    def entry_start(self, revision: int) -> int:
        """Where the first entry begins that ends at or after this revision. Raises CallError."""
        return self._entry(revision)[0]

    def _entry(self, offset: int) -> tuple[int, int]:
        try:
            base, count, _, _ = next(self.context.log.batches_from(offset))
        except (UsageError, StopIteration) as error:
            raise CallError(*FUTURE) from error
        return base, base + count

    async def past(self, offset: int, within_s: float) -> ReadView:
        """The state before an offset, replayed. Raises CallError."""
        return await self._view(Freshness(linearizable=False, at=offset), within_s)


async def _seen(reader: FreshReader, freshness: Freshness, within_s: float) -> ReadView | NotFresh:
    view: ReadView | NotFresh = await _told(lambda seen: reader.read(freshness, seen), within_s)
    return view


async def _told(ask: Callable[[Callable[[T], None]], None], within_s: float) -> T:
    """What a callback is called with. Raises CallError when it is not called in time, or a little later."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def done(value: T) -> None:
        if not answer.done():  # The caller may have gone.
            answer.set_result(value)

    def late() -> None:
        if not answer.done():
            answer.set_exception(CallError(*TIMED_OUT))

    ask(done)
    timer = loop.call_later(within_s + GRACE_S, late)
    try:
        return await answer
    finally:
        timer.cancel()
