"""Watches of keys: a client watches on some node, hears slowly, and goes on elsewhere where it was.

Rules: ``WatchHub``, ``WatchStream`` and the fold of the log are production's, with small limits; only their waiting is
a turn of the simulated loop, and the past is told by who saw it committed. A client knows what an etcd client knows:
after a revision, or a word of progress, it asks from the next one on. Chance is of a seed of its own: a seed without
watches is what it was.

Theory: etcd's promise, word by word. What a watch tells is compared with what is committed about its keys: the next
revision and no other (ordered, unique, none missing), with all that was written in it (atomic), wherever and however
often it was begun again (resumable); and when nothing is written any more all of it was told (reliable).
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from functools import partial
from itertools import groupby
from math import inf
from random import Random
from types import coroutine
from typing import Any, Final

from quorate.controller import ReadView
from quorate.errors import StorageError
from quorate.events import Event, KeyDeleted, KeyPut, Stamp, raw_name
from quorate.gateway.access import NoQuota, OpenAccess
from quorate.gateway.fresh import FreshReader
from quorate.gateway.grpc.asking import Asking
from quorate.gateway.grpc.context import GrpcContext
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.watching import ALL, NOBODY_READS_S, WatchHub, WatchStream
from quorate.history.past import Answer as PastAnswer
from quorate.history.past import NoAnswer
from quorate.metadata.commands import DeleteKeys, KeyOperation, PutKey, Transact
from quorate.metrics import Metrics
from quorate.model.evolve import evolve
from quorate.model.live import Silence
from quorate.model.state import State
from tests.sim.clients import Answer, Service
from tests.sim.cluster import Cluster, Process
from tests.sim.nodes import CoreNode
from tests.sim.world import Loop, ViolationError

WATCHED: Final = "a watch tells every change once, in order, whole revisions"
SHARE: Final = 0.3
"""Of seeds with watches."""
SETTINGS: Final = GrpcSettings(
    request_bytes_max=100,  # Of fragments.
    watch_buffer_bytes=400,
    watch_answer_bytes=200,
    watch_read_bytes=1500,
    watch_turn=3,
    replays_max=1,
)
NAMES: Final = tuple(b"/watched/%s/%d" % (part, number) for part in (b"a", b"b") for number in range(3))
TURNS: Final = 20
"""Of a stream in one turn of its node, at most."""
RANGES: Final = ((b"\0", b"\0"), (b"/watched/a/", b"/watched/a0"), (b"/watched/b/1", b""))
"""Key and end of range of the watches of a client."""

Told = tuple[bytes, bytes | None, int, bytes | None]
"""Of a key: its name, its value (None: deleted), in which revision it was created, its value before."""


class Written:
    """What is committed about keys, by revision."""

    def __init__(self) -> None:
        self.revisions: list[int] = []
        self.changes: list[tuple[Told, ...]] = []
        self._keys: dict[bytes, tuple[bytes, int]] = {}
        self._states = [State()]

    def committed(self, events: Sequence[tuple[Stamp, Event]]) -> None:
        """The next entry of the log."""
        revision, state, changes = events[-1][0].offset, self._states[-1], list[Told]()
        for stamp, event in events:
            if isinstance(event, KeyPut | KeyDeleted):
                state = evolve(state, event, stamp)
                changes.append(self._change(event, revision))
        if changes:
            self.revisions.append(revision)
            self.changes.append(tuple(changes))
            self._states.append(state)

    def _change(self, event: KeyPut | KeyDeleted, revision: int) -> Told:
        name = raw_name(event.key)
        value, created = self._keys.pop(name, (None, revision))
        if isinstance(event, KeyDeleted):
            return name, None, 0, value
        self._keys[name] = event.value, created
        return name, event.value, created, value

    def before(self, offset: int) -> State:
        """The keys as they were before an offset."""
        return self._states[bisect_right(self.revisions, offset - 1)]


class Watch:
    """One range of keys, from a revision on; ``next`` 0: from now on."""

    def __init__(self, written: Written, number: int, next_revision: int) -> None:
        self.number, self.next = number, next_revision
        self.key, self.range_end = RANGES[number - 1]
        self._written, self._at = written, 0
        self._parts: list[kv_pb2.Event] = []

    def request(self) -> rpc_pb2.WatchCreateRequest:
        """As it is asked for, whatever was heard of an answer that did not end."""
        self._parts = []
        return rpc_pb2.WatchCreateRequest(
            watch_id=self.number,
            key=self.key,
            range_end=self.range_end,
            start_revision=self.next,
            prev_kv=True,
            fragment=True,
        )

    def _covers(self, name: bytes) -> bool:
        return name == self.key if not self.range_end else self.range_end == b"\0" or self.key <= name < self.range_end

    def due(self) -> tuple[int, list[Told]] | None:
        """The next that it must be told; None: nothing yet."""
        written = self._written
        self._at = max(self._at, bisect_left(written.revisions, self.next))
        while self._at < len(written.revisions):
            mine = [told for told in written.changes[self._at] if self._covers(told[0])]
            if mine:
                return written.revisions[self._at], mine
            self._at += 1
        return None

    def begun(self, revision: int) -> None:
        """Asked for from now on: that was at this revision."""
        self.next = self.next or revision + 1

    def progress(self, revision: int) -> None:
        """All up to this revision was told, it is said. Raises ViolationError."""
        due = self.due()
        if due is not None and due[0] <= revision:
            raise ViolationError(WATCHED, f"{self.key!r} is said to be told up to {revision}, and was not told {due}")
        if self.next:
            self.next = max(self.next, revision + 1)

    def hear(self, response: rpc_pb2.WatchResponse) -> int:
        """How many revisions that was. Raises ViolationError."""
        self._parts += response.events
        if response.fragment:
            return 0
        heard, self._parts, count = self._parts, [], 0
        for revision, events in groupby(heard, lambda event: event.kv.mod_revision):
            told, due = (revision, [_told(event) for event in events]), self.due()
            if told != due:
                raise ViolationError(WATCHED, f"{self.key!r} from {self.next} is told {told}; due is {due}")
            self.next, count = revision + 1, count + 1
        return count


def _told(event: kv_pb2.Event) -> Told:
    before = event.prev_kv.value if event.HasField("prev_kv") else None
    if event.type == kv_pb2.Event.DELETE:
        return event.kv.key, None, 0, before
    return event.kv.key, event.kv.value, event.kv.create_revision, before


# -- production's streams


class _Past:
    """``history.past.Past`` (its replays are a process of its own): answered late, and now and then not at all."""

    def __init__(self, watches: "Watches", loop: Loop) -> None:
        self._watches, self._loop = watches, loop

    def at(self, offset: int, done: PastAnswer, timeout_s: float | None = None) -> None:
        """The keys before this offset."""
        random = self._watches.random
        state = self._watches.written.before(offset)
        found = ReadView(state=state, offset=offset, term=0, time_ms=0, live=Silence())
        answer = NoAnswer("failed", "in this simulation") if random.random() < 0.05 else found
        self._loop.call_later(random.random() * 0.02, lambda: done(answer))


@coroutine
def _another_turn() -> Generator[None]:
    yield


class _Stream(WatchStream):
    """Waits in turns."""

    async def _pause(self) -> None:
        clock = self._context.scheduler
        waits = any(fold is None for fold in self._behind.values())
        until_s = clock.monotonic() + NOBODY_READS_S if waits else inf
        while not self._wake.is_set() and clock.monotonic() < until_s:
            await _another_turn()


def _hub(watches: "Watches", process: Process) -> WatchHub:
    """All watches of a process."""
    assert isinstance(process.node, CoreNode)
    core, loop, settings = process.node.core, process.loop, SETTINGS
    fresh = FreshReader(
        core.controller,
        _Past(watches, loop),
        core.listeners,
        loop,
        timeout_s=settings.answer_timeout_s,
        past_timeout_s=settings.past_timeout_s,
        waiting_max=settings.waiting_max,
    )
    context = GrpcContext(
        node_id=process.node_id,
        cluster_id="sim",
        version="sim",
        voters=(),
        controller=core.controller,
        machine=core.machine,
        engine=core.engine,
        log=core.log,
        fresh=fresh,
        written=fresh,
        scheduler=loop,
        metrics=Metrics(),
        access=OpenAccess(),
        quota=NoQuota(),
        chance=watches.random,
        connected=lambda _node: True,
        unready=str,
        settings=settings,
    )
    hub = WatchHub(Asking(context))
    hub.start()
    return hub


class _Line:
    """A stream of one process, as far as its client has it."""

    def __init__(self, viewer: "Viewer", process: Process, requests: Sequence[rpc_pb2.WatchCreateRequest]) -> None:
        self._viewer, self._process, self._requests = viewer, process, requests
        self._world = process.cluster.world
        self._stream: _Stream
        self._answers: AsyncIterator[rpc_pb2.WatchResponse]
        self._next: Any = None
        """The answer that it is on its way to."""
        self._arrives_s = 0.0
        process.io(self._open)

    @property
    def broken(self) -> bool:
        """Is there nobody at its other end?"""
        return not self._process.alive

    def _open(self) -> None:
        stream = self._stream = _Stream(self._viewer.watches.hub_of(self._process))
        for request in self._requests:
            stream.watch(request)
        self._answers = stream.responses()

    def take(self, most: int) -> None:
        """Let so many answers come."""
        self._process.io(partial(self._take, most))

    def _take(self, most: int) -> None:
        for _ in range(TURNS):
            step: Any = self._next or self._answers.__anext__()
            try:
                step.send(None)
            except (StorageError, StopAsyncIteration):  # The log is rotten there: the call fails, its node stops.
                self._next = None
                return
            except StopIteration as end:
                self._next = None
                self._send(end.value)
                most -= 1
                if not most:
                    return
            else:
                self._next = step

    def _send(self, response: rpc_pb2.WatchResponse) -> None:
        """In order, as a connection does."""
        world = self._world
        self._arrives_s = max(self._arrives_s, world.now + self._viewer.random.random() * 0.004)
        world.after(self._arrives_s - world.now, lambda: self._viewer.hear(self, response))

    def ask(self, what: Callable[[WatchStream], None]) -> None:
        """Something else of it."""
        self._process.io(lambda: what(self._stream))


class Viewer:
    """One client, and its watches."""

    def __init__(self, watches: "Watches") -> None:
        self.watches, self.random = watches, watches.random
        begins = self.random.choice((0, 1))
        self._pace_s = self.random.choice((0.01, 0.03, 0.1))
        self._leaves_s = 0.0
        self.mine = {number: Watch(watches.written, number, begins) for number in range(1, len(RANGES) + 1)}
        self._line: _Line | None = None

    def step(self) -> None:
        """Take what there is; now and then ask how far it is, or go elsewhere."""
        watches, random = self.watches, self.random
        if watches.over:
            return
        world, hurries = watches.cluster.world, watches.stopped
        if self._line is None or self._line.broken or (world.now > self._leaves_s and not hurries):
            self._connect()
        else:
            if random.random() < 0.1:
                self._line.ask(WatchStream.ask_progress)
            self._line.take(10 if hurries else random.choice((1, 3, 10)))
        world.after(0.01 if hurries else self._pace_s * (0.5 + random.random()), self.step)

    def _connect(self) -> None:
        if self._line is not None:
            self._line.ask(WatchStream.close)
        cluster = self.watches.cluster
        process = cluster.hosts[self.random.choice(cluster.voters)].process
        self._line, self._leaves_s = None, cluster.world.now + self.random.random() * 2
        if process is not None and process.alive:
            cluster.counts["watches begun"] += 1
            self._line = _Line(self, process, [watch.request() for watch in self.mine.values()])

    def hear(self, line: _Line, response: rpc_pb2.WatchResponse) -> None:
        """An answer arrives. Raises ViolationError."""
        if line is not self._line:
            return
        counts = self.watches.cluster.counts
        if response.canceled:
            raise ViolationError(WATCHED, f"a watch is refused: {response.cancel_reason}")
        if response.created:
            self.mine[response.watch_id].begun(response.header.revision)
        elif response.watch_id == ALL:
            counts["words of a watch's progress"] += 1
            for watch in self.mine.values():
                watch.progress(response.header.revision)
        else:
            counts["revisions watched"] += self.mine[response.watch_id].hear(response)


class Watches:
    """All of them, what they must tell, and who writes it."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.random = Random(f"watches of {seed}")
        self.written = Written()
        count = self.random.choice((1, 2)) if seed and self.random.random() < SHARE else 0
        self._viewers = [Viewer(self) for _ in range(count)]
        self._hubs: dict[Process, WatchHub] = {}
        self._asked = 0
        self.stopped = self.over = False

    def start(self) -> None:
        """Begin."""
        for viewer in self._viewers:
            self.cluster.world.after(self.random.random(), viewer.step)
        if self._viewers:
            self.cluster.world.after(0.2, self._write)

    def stop(self) -> None:
        """Nothing more is written."""
        self.stopped = True

    @property
    def settled(self) -> bool:
        """Was everything told? Then nobody watches any more."""
        self.over = all(
            watch.next and watch.due() is None for viewer in self._viewers for watch in viewer.mine.values()
        )
        return self.over

    def hub_of(self, process: Process) -> WatchHub:
        """Of this life of a node."""
        if process not in self._hubs:
            self._hubs[process] = _hub(self, process)
        return self._hubs[process]

    def committed(self, events: Sequence[tuple[Stamp, Event]]) -> None:
        """The next entry of the log."""
        if self._viewers:
            self.written.committed(events)

    def _write(self) -> None:
        """Several keys in one decision."""
        if self.stopped:
            return
        self._asked += 1
        tag, names = f"watched-{self._asked}", self.random.sample(NAMES, self.random.randrange(1, 5))
        value = b"%d" % self._asked
        operations: list[KeyOperation] = [
            DeleteKeys(key=name) if self.random.random() < 0.2 else PutKey(key=name, value=value) for name in names
        ]

        def call(service: Service, done: Answer) -> None:
            assert isinstance(service, CoreNode)
            service.submit(Transact(success=tuple(operations)), tag, "", done)

        self.cluster.ask(self.random.choice(self.cluster.voters), call, lambda _result: None)
        self.cluster.world.after(0.02 + self.random.random() * 0.06, self._write)
