"""A past without processes: the link replays in place, now or when the test says."""

from collections import deque
from collections.abc import Iterator

import msgspec

from quorate.events import Event
from quorate.history.checkpoints import Checkpoints
from quorate.history.past import Link, Listener, Past
from quorate.history.replay import FRAME, Order, Replay, framed, read_order, read_report
from quorate.history.settings import HistorySettings
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, State
from quorate.wire.avro import decode_events
from tests.unit.controller.bench import Bench


class InlineLink:
    """A ``Link`` to a ``Replay`` in this process, message by message as bytes. ``held``: it says nothing yet."""

    def __init__(self, listener: Listener, *, held: bool = False) -> None:
        self.listener: Listener | None = listener
        self.replay = Replay()
        self.full = False
        self.held = held
        self.waiting: deque[Order] = deque()
        self.orders: list[Order] = []

    def send(self, order: Order) -> None:
        sent = read_order(framed(order)[FRAME.size :])
        assert sent == order
        self.orders.append(sent)
        self.waiting.append(sent)
        if not self.held:
            self.go_on()

    def go_on(self) -> None:
        """Work off what was sent."""
        self.held = False
        while self.waiting:
            for report in self.replay.take(self.waiting.popleft()):
                body = framed(report)[FRAME.size :]
                if len(body) > HistorySettings().frame_bytes_max:
                    self.die(f"a message of {len(body)} bytes")
                elif self.listener is not None:
                    self.listener.report(read_report(body))

    def die(self, reason: str = "killed") -> None:
        listener, self.listener = self.listener, None
        assert listener is not None
        listener.gone(reason)

    def close(self) -> None:
        self.listener = None

    def listened(self) -> bool:
        """Somebody still waits for reports: neither closed nor dead."""
        return self.listener is not None


class Times:
    """A bench with a past."""

    def __init__(self, bench: Bench | None = None, settings: HistorySettings | None = None) -> None:
        self.bench = bench or Bench()
        self.settings = settings or HistorySettings()
        self.links: list[InlineLink] = []
        self.held = False
        self.fatal: list[Exception] = []
        machine = self.bench.machine
        self.checkpoints = Checkpoints(self.bench.store, machine, self.bench.loop, self.settings, self.fatal.append)
        self.bench.listeners.add(self.checkpoints)
        log = machine._log
        self.past = Past(machine, log, self.checkpoints, self.start, self.bench.loop, self.settings, self.bench.metrics)

    def start(self, listener: Listener) -> Link:
        link = InlineLink(listener, held=self.held)
        self.links.append(link)
        return link

    def events(self) -> Iterator[tuple[int, Event]]:
        for *_, batch in self.bench.machine._log.batches_from(0):
            yield from ((stamp.offset, event) for stamp, event in decode_events(batch))

    def folded(self, offset: int) -> State:
        """The fold of the events 0 … offset - 1, by nothing but the log."""
        state = EMPTY
        for *_, batch in self.bench.machine._log.batches_from(0):
            for stamp, event in decode_events(batch):
                if stamp.offset < offset:
                    state = evolve(state, event, stamp)
        return state


def plain(state: State) -> object:
    """A state as plain values, for a comparison that shares nothing."""
    return msgspec.to_builtins({**{f: getattr(state, f) for f in ("cluster", "leader", "feature_level")}}) | {
        name: {str(k): msgspec.to_builtins(v) for k, v in sorted(getattr(state, name).items())}
        for name in ("nodes", "broker_sets", "topics", "configs")
    }
