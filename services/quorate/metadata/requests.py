"""Remembers the answers to requests, so that a retried request gets its answer and never runs twice.

Rules: part of the replicated state, changed only at apply, by offset and entry time; so it is equal on all nodes at
equal offset. A request is known by (principal, id). Only requests that wrote events are kept: the others change
nothing when they run again.

Theory: the table is bounded, so an old id is forgotten some day, and a forgotten id must not look like a new one. So an
id begins with the time its maker gave it: ``<epoch milliseconds>-<anything>``. ``horizon_ms`` is the greatest such
time among the forgotten ids. An id that is not in the table and not newer than the horizon may have run: it is
answered "outcome unknown". An id newer than the horizon was never forgotten: if it is not in the table, it never ran.
The price: a first attempt that arrives after its own id's time has passed the horizon is answered "unknown" too,
although it never ran; it may be sent again under a new id.

Clocks are wrong now and then. An id more than ``ahead_ms_max`` ahead of the clock is refused; the log's time says
nothing about it, for it may stay ahead of all clocks for long. Where a whole cluster's clock was ahead, forgotten ids
would push the horizon ahead of honest callers for ever: a forgotten id far above the horizon opens a *span* of its own
instead, and only what lies in a span, or below the horizon, may have run. And age is what passed in the log by ordinary
steps: of a longer one (a jump, or a quiet night) an ordinary one counts, and the rest is ``skipped_ms``.

An id names one command. A digest of it is kept beside the answer, so that another command under the same id is refused
by name: the first one's answer would tell its caller that a change was made which never was.
"""

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from immutables import Map

from quorate.bounds import bounded
from quorate.errors import InvariantBrokenError, UsageError
from quorate.metadata.commands import Command, Refusal
from quorate.metadata.refusals import refuse
from quorate.model.rows import ROWS_PER_STEP
from quorate.slices import Steps

REPLY_BYTES_MAX: Final = 1024
"""A longer reply is not kept; the retry is told where its events are."""

_ID: Final = re.compile(r"([0-9]{1,15})-[\x21-\x7e]{1,100}")
_OFFSET: Final = struct.Struct(">Q")
_HORIZON_KEY: Final = b"horizon"
_SKIPPED_KEY: Final = b"skipped"
ORDINARY_STEPS: Final = 16
"""A request is remembered over so many steps of the log's time at least, however long they are."""
SHORT_STEP_MS: Final = 1000
"""... but a step of up to this counts whole anyway."""
SPANS_MAX: Final = 4
"""Of forgotten ids above the horizon; the lowest of one more becomes part of it."""
FORGOTTEN_MAX: Final = 32
"""With each that is remembered; the rest goes with the next ones: a burst that is old all at once holds up nobody."""
FORGOTTEN_LEVEL: Final = 3
"""The feature level from which on there is such a bound: before, all go at once."""


class RequestSettings(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How much is remembered. The first two decide what state is, so the log's hold (metadata/limits.py); a node's own
    are what its leader records where the log says nothing.
    """

    remembered_max: int = 100_000
    """Most requests; 0: none."""
    remembered_ms_max: int = 3_600_000
    """Longest time, by the time of the entries."""
    ahead_ms_max: int = 60_000
    """How far ahead of the leader's clock an id may be."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("remembered_max", "ahead_ms_max"))


class RememberedReply(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The outcome of a request."""

    principal: str
    request_id: str
    first_offset: int
    count: int
    """Events it wrote, from ``first_offset`` on."""
    time_ms: int
    """Of its entry."""
    reply: bytes | None = None
    """None: it was longer than REPLY_BYTES_MAX."""
    digest: bytes = b""
    """Of the command that ran; empty when its entry has none (an older build's)."""
    skipped_ms: int = 0
    """Of the table, at this entry."""


Span = tuple[int, int]
RowChange = tuple[bytes, bytes | None]
"""A key of the store's ``requests`` family, with its new row, or None: gone."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_COMMANDS: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(RememberedReply)


def command_digest(command: Command) -> bytes:
    """16 bytes that tell this command from any other; the same on every node, however its fields were ordered. Raises
    UsageError for a number of more than 64 bits, and for text that is none.
    """
    try:
        encoded = _COMMANDS.encode(command)
    except (OverflowError, ValueError) as error:
        raise UsageError(f"a command that cannot be written: {error}") from error
    return hashlib.blake2b(encoded, digest_size=16).digest()


def request_time_ms(request_id: str) -> int | None:
    """The time in an id, epoch milliseconds; None if it is not of the form ``<milliseconds>-<token>``."""
    matched = _ID.fullmatch(request_id)
    return None if matched is None else int(matched[1])


class RequestTable(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Immutable; ``remember`` gives the next one."""

    settings: RequestSettings = RequestSettings()
    horizon_ms: int = -1
    """The greatest time of a forgotten id that is not in a span."""
    spans: tuple[Span, ...] = ()
    """First and last time of forgotten ids far above the horizon, in order."""
    skipped_ms: int = 0
    """Of the log's time: what jumps had beyond an ordinary step, together."""
    replies: Map[tuple[str, str], RememberedReply] = Map()
    oldest: int = 0
    following: int = 0
    sequence: Map[int, RememberedReply] = Map()
    """The same, numbered from ``oldest`` to before ``following`` as they came: the oldest is found without a search."""

    def recall(
        self, principal: str, request_id: str, now_ms: int, digest: bytes = b""
    ) -> RememberedReply | Refusal | None:
        """None: it never ran, run it. Refuses InvalidRequestId, RequestExpired (nobody knows any more), and
        RequestIdReused: what ran under this id was another command than that of ``digest``.
        """
        reply = self.replies.get((principal, request_id))
        if reply is not None:
            if digest and reply.digest and digest != reply.digest:
                remark = f"The request id was used for another command, whose events begin at {reply.first_offset}"
                return refuse("RequestIdReused", remark)
            return reply
        time_ms = request_time_ms(request_id)
        if time_ms is None:
            return refuse("InvalidRequestId", "A request id is <epoch milliseconds>-<1 to 100 visible characters>")
        if time_ms > now_ms + self.settings.ahead_ms_max:
            return refuse("InvalidRequestId", f"The request id is {time_ms - now_ms} ms ahead of time")
        if time_ms <= self.horizon_ms or any(first <= time_ms <= last for first, last in self.spans):
            return refuse("RequestExpired", "The outcome of this request is not remembered any more; it is unknown")
        return None

    def limited(self, remembered_max: int, remembered_ms_max: int) -> "RequestTable":
        """The same under these limits; what is beyond them goes when the next request is remembered."""
        settings = self.settings
        if (settings.remembered_max, settings.remembered_ms_max) == (remembered_max, remembered_ms_max):
            return self
        settings = msgspec.structs.replace(settings, remembered_max=remembered_max, remembered_ms_max=remembered_ms_max)
        return msgspec.structs.replace(self, settings=settings)

    def step(self, step_ms: int) -> tuple["RequestTable", tuple[RowChange, ...]]:
        """The log's time made a step: what it has beyond an ordinary one does not count."""
        beyond_ms = step_ms - max(SHORT_STEP_MS, self.settings.remembered_ms_max // ORDINARY_STEPS)
        if beyond_ms <= 0:
            return self, ()
        skipped_ms = self.skipped_ms + beyond_ms
        return msgspec.structs.replace(self, skipped_ms=skipped_ms), ((_SKIPPED_KEY, b"%d" % skipped_ms),)

    def remember(
        self,
        principal: str,
        request_id: str,
        first_offset: int,
        count: int,
        reply: bytes,
        time_ms: int,
        digest: bytes = b"",
        *,
        one_horizon: bool = False,
        forgotten_max: int | None = None,
    ) -> tuple["RequestTable", tuple[RowChange, ...]]:
        """The table with one more, without the ones it forgets for it (at most so many), and the rows that change.
        ``one_horizon``: as entries of format 1 were applied when they were written, without spans.
        """
        entry = RememberedReply(
            principal=principal,
            request_id=request_id,
            first_offset=first_offset,
            count=count,
            time_ms=time_ms,
            reply=reply if len(reply) <= REPLY_BYTES_MAX else None,
            digest=digest,
            skipped_ms=self.skipped_ms,
        )
        table = msgspec.structs.replace(
            self,
            replies=self.replies.set((principal, request_id), entry),
            following=self.following + 1,
            sequence=self.sequence.set(self.following, entry),
        )
        table, forgotten = _evicted(table, time_ms, one_horizon=one_horizon, forgotten_max=forgotten_max)
        return table, ((_OFFSET.pack(first_offset), _ENCODER.encode(entry)), *forgotten)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Every row, in no particular order."""
        if self.horizon_ms >= 0 or self.spans:
            yield _HORIZON_KEY, self.horizon_row()
        if self.skipped_ms:
            yield _SKIPPED_KEY, b"%d" % self.skipped_ms
        for entry in self.sequence.values():
            yield _OFFSET.pack(entry.first_offset), _ENCODER.encode(entry)

    def horizon_row(self) -> bytes:
        """The horizon, and the spans after it."""
        return b" ".join([b"%d" % self.horizon_ms, *[b"%d-%d" % span for span in self.spans]])

    @staticmethod
    def restoring(pairs: Iterable[tuple[bytes, bytes]], settings: RequestSettings) -> Steps["RequestTable"]:
        """The table whose rows these are, a few a step. Raises InvariantBrokenError for a row that is none of ours."""
        horizon_ms, skipped_ms, entries = -1, 0, []
        spans: list[Span] = []
        try:
            for count, (key, value) in enumerate(pairs, start=1):
                if key == _HORIZON_KEY:
                    horizon, *above = value.split(b" ")
                    horizon_ms = int(horizon)
                    spans = [(int(first), int(last)) for first, last in [span.split(b"-") for span in above]]
                elif key == _SKIPPED_KEY:
                    skipped_ms = int(value)
                else:
                    entries.append(_DECODER.decode(value))
                if count % ROWS_PER_STEP == 0:
                    yield
        except (msgspec.DecodeError, ValueError) as error:
            raise InvariantBrokenError(f"a row of the request table is damaged: {error}") from error
        entries.sort(key=lambda entry: entry.first_offset)
        replies, sequence = Map[tuple[str, str], RememberedReply]().mutate(), Map[int, RememberedReply]().mutate()
        for number, entry in enumerate(entries):
            replies[entry.principal, entry.request_id] = entry
            sequence[number] = entry
            if number % ROWS_PER_STEP == 0:
                yield
        return RequestTable(
            settings=settings,
            horizon_ms=horizon_ms,
            spans=tuple(spans),
            skipped_ms=skipped_ms,
            replies=replies.finish(),
            following=len(entries),
            sequence=sequence.finish(),
        )


def rows_gone(before: RequestTable, after: RequestTable) -> Iterator[tuple[bytes, bytes]]:
    """The rows of ``before`` that are not in ``after``, or not with this value; ``after`` came of one entry."""
    for number in range(before.oldest, min(after.oldest, before.following)):
        entry = before.sequence[number]
        yield _OFFSET.pack(entry.first_offset), _ENCODER.encode(entry)
    was_there = before.horizon_ms >= 0 or before.spans
    if was_there and (after.horizon_ms, after.spans) != (before.horizon_ms, before.spans):
        yield _HORIZON_KEY, before.horizon_row()
    if before.skipped_ms and after.skipped_ms != before.skipped_ms:
        yield _SKIPPED_KEY, b"%d" % before.skipped_ms


def _evicted(
    table: RequestTable, time_ms: int, *, one_horizon: bool, forgotten_max: int | None
) -> tuple[RequestTable, tuple[RowChange, ...]]:
    """Forget what is too many or too old, the oldest first, and move the horizon, or a span, over it."""
    settings, spans = table.settings, table.spans
    oldest, horizon_ms, replies, sequence = table.oldest, table.horizon_ms, table.replies, table.sequence
    near_ms = settings.remembered_ms_max  # Nothing that a node may have set for itself alone.
    passed_ms = time_ms - table.skipped_ms
    gone: list[RowChange] = []
    end = table.following if forgotten_max is None else min(table.following, oldest + forgotten_max)
    while oldest < end:
        entry = sequence[oldest]
        aged = passed_ms - entry.time_ms + entry.skipped_ms > settings.remembered_ms_max
        if table.following - oldest <= settings.remembered_max and not aged:
            break
        forgotten_ms = request_time_ms(entry.request_id) or 0
        if one_horizon:
            horizon_ms = max(horizon_ms, forgotten_ms)
        else:
            horizon_ms, spans = _forgotten(horizon_ms, spans, forgotten_ms, near_ms)
        if replies.get((entry.principal, entry.request_id)) is entry:
            replies = replies.delete((entry.principal, entry.request_id))
        sequence = sequence.delete(oldest)
        gone.append((_OFFSET.pack(entry.first_offset), None))
        oldest += 1
    if not gone:
        return table, ()
    kept = msgspec.structs.replace(
        table, horizon_ms=horizon_ms, spans=spans, replies=replies, oldest=oldest, sequence=sequence
    )
    if (horizon_ms, spans) != (table.horizon_ms, table.spans):
        gone.append((_HORIZON_KEY, kept.horizon_row()))
    return kept, tuple(gone)


def _forgotten(horizon_ms: int, spans: tuple[Span, ...], time_ms: int, near_ms: int) -> tuple[int, tuple[Span, ...]]:
    """Horizon and spans once an id of this time is forgotten. Never smaller than before: what they cover stays covered.

    What is within ``near_ms`` of the horizon moves it, for honest ids come nearly in order; else the id joins the span
    within reach, or opens one.
    """
    if time_ms > horizon_ms + near_ms:
        within = [span for span in spans if span[0] - near_ms <= time_ms <= span[1] + near_ms]
        joined = (min([time_ms, *[span[0] for span in within]]), max([time_ms, *[span[1] for span in within]]))
        spans = tuple(sorted([joined, *[span for span in spans if span not in within]]))
    else:
        horizon_ms = max(horizon_ms, time_ms)
    while spans and (spans[0][0] <= horizon_ms + near_ms or len(spans) > SPANS_MAX):
        horizon_ms = max(horizon_ms, spans[0][1])
        spans = spans[1:]
    return horizon_ms, spans
