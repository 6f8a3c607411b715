"""Replay, and what is said about it: rows of a checkpoint and batches in, rows of the state at an offset out.

Rules: pure; runs in a process of its own (worker.py), and in tests without one. The state at N is the fold of the
events 0 … N-1. A replay that passes many events tells the rows it passes, so that the next one is shorter. Messages
are msgpack, decoded strictly; a frame is four bytes of length and the message.
"""

import struct
from collections.abc import Iterable, Iterator

import msgspec

from quorate.errors import PeerError, QuorateError
from quorate.model.evolve import evolve
from quorate.model.rows import count, from_rows, rows
from quorate.model.state import EMPTY, State
from quorate.wire.avro import decode_events

PAIRS_PER_FRAME = 64
BYTES_PER_FRAME = 1024 * 1024
"""Of rows, after which a message ends: its last may be longer, as long as an entry may be."""
FRAME = struct.Struct("!I")


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The state at ``stop`` is wanted. ``kept``: from the state this process kept at ``start``; else rows of a
    checkpoint there follow (none: ``start`` is 0), then batches, then ``End``.
    """

    start: int
    stop: int
    kept: bool
    checkpoint_events: int
    """Tell the rows when so many events were passed."""
    states_max: int
    """Keep so many states."""


class Rows(msgspec.Struct, frozen=True, tag=True):
    """Some rows: (key, row)."""

    pairs: list[tuple[bytes, bytes]]


class Batches(msgspec.Struct, frozen=True, tag=True):
    """Record batches of the event log, in order."""

    batches: list[bytes]


class End(msgspec.Struct, frozen=True, tag=True):
    """That was all."""


class Waypoint(msgspec.Struct, frozen=True, tag=True):
    """The rows sent before were those of the state at ``offset``, on the way."""

    offset: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """The rows sent before were those of the state at the offset wanted; ``kept``: offsets whose states are kept."""

    kept: list[int]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It could not be done."""

    reason: str


Order = Begin | Rows | Batches | End
Report = Rows | Waypoint | Done | Failed

_encoder = msgspec.msgpack.Encoder()
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def framed(message: Order | Report) -> bytes:
    """A message as bytes on the way."""
    body = _encoder.encode(message)
    return FRAME.pack(len(body)) + body


def read_order(body: bytes) -> Order:
    """A message to the process. Raises PeerError."""
    try:
        return _orders.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(f"malformed order: {error}") from error


def read_report(body: bytes) -> Report:
    """A message of the process. Raises PeerError."""
    try:
        return _reports.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(f"malformed report: {error}") from error


class Replay:
    """The process's side: takes orders, yields reports."""

    def __init__(self) -> None:
        self._states: dict[int, State] = {}
        """By offset, the one used last at the end."""
        self._begin = Begin(0, 0, kept=False, checkpoint_events=0, states_max=0)
        self._pairs: list[tuple[bytes, bytes]] = []
        self._state: State | None = None
        self._offset = 0
        self._due = 0
        """Where rows are told on the way."""
        self._broken = ""

    def take(self, order: Order) -> Iterator[Report]:
        """The reports on a message. An error is reported at the end of its replay, and harms no other."""
        if isinstance(order, Begin):
            self._broken = ""
        try:
            yield from self._take(order)
        except QuorateError as error:
            self._broken = self._broken or f"{type(error).__name__}: {error}"
            self._state = None
        if isinstance(order, End) and self._broken:
            yield Failed(self._broken)

    def _take(self, order: Order) -> Iterator[Report]:
        if isinstance(order, Begin):
            self._begin, self._pairs, self._offset, self._due = order, [], order.start, 0
            self._state = self._states.pop(order.start, None) if order.kept else None
            if self._state is not None:
                self._states[order.start] = self._state
            elif order.kept:
                raise PeerError(f"no state is kept at {order.start}")
        elif self._broken:
            return
        elif isinstance(order, Rows):
            self._pairs += order.pairs
        elif isinstance(order, Batches):
            for batch in order.batches:
                yield from self._fold(batch)
        else:
            yield from self._end()

    def _at(self) -> State:
        if self._state is None:
            self._state = from_rows(self._pairs) if self._begin.start else EMPTY
            self._pairs = []
        return self._state

    def _fold(self, batch: bytes) -> Iterator[Report]:
        state, stop = self._at(), self._begin.stop
        self._due = self._due or self._offset + spacing(state, self._begin.checkpoint_events)
        for stamp, event in decode_events(batch):
            if self._offset <= stamp.offset < stop:
                if stamp.offset != self._offset:
                    raise PeerError(f"the event at {stamp.offset} came instead of the one at {self._offset}")
                state = evolve(state, event, stamp)
                self._offset += 1
        self._state = state
        if self._due <= self._offset < stop:
            self._due = self._offset + spacing(state, self._begin.checkpoint_events)
            yield from told(rows(state))
            yield Waypoint(self._offset)

    def _end(self) -> Iterator[Report]:
        state, stop = self._at(), self._begin.stop
        if self._offset != stop:
            raise PeerError(f"the events end at {self._offset}, {stop} was wanted")
        self._states.pop(stop, None)
        self._states[stop] = state
        while len(self._states) > self._begin.states_max:
            del self._states[next(iter(self._states))]
        yield from told(rows(state))
        yield Done(list(self._states))


def spacing(state: State, events: int) -> int:
    """Events from a checkpoint of this state to the next: ``events``, but at least four for each row, so that
    checkpoints take no more room and time than a share of the log's, and while the state grows about the log's own.
    """
    return max(events, 4 * count(state))


def told(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Rows]:
    """Rows in messages of bounded size."""
    some, size = list[tuple[bytes, bytes]](), 0
    for pair in pairs:
        some.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(some) == PAIRS_PER_FRAME or size >= BYTES_PER_FRAME:
            yield Rows(some)
            some, size = [], 0
    if some:
        yield Rows(some)
