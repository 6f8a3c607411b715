"""Clients who write and read registers through any node, lose patience, try again, and remember what they were told.

Rules: a client has one operation open at a time. What it was told is believed in full: *done* must be in the log for
ever, *nothing happened* must never be, *unknown* may be either. An attempt carries a ``tag`` of its own, so that each
can be found in the log; attempts of one operation share a request id where the service remembers those.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from quorate.consensus.ports import NodeId
from tests.sim.linearizability import Operation, check, settled
from tests.sim.world import EPOCH_MS, ViolationError, World

FORGOTTEN = "not remembered"
"""What an id that is too old is told (metadata/requests.py)."""
FINAL_REFUSALS = ("InvalidRequestId", "UnsupportedFeatureLevel")
"""What one that is too far ahead is told; and a key before its level is raised, which needs every voter."""


PATIENCES_S = (0.06, 0.2, 0.6)
"""How long a client waits for an answer before it asks again; each has one of these."""
SWAPS = 2
"""Of so many writes of a key, the last is a put; the others are compare-and-set."""
LIES_MS = (-86_400_000, -5000, 200, 5000, 50_000, 86_400_000, 31_536_000_000)
"""How far a dishonest request id is from the time of its maker, milliseconds."""


class Done(msgspec.Struct, frozen=True):
    """It happened; ``offset``: the reply is true of the first so many events. ``value``: what a get saw, or a swap that
    found something else (``differs``), and wrote nothing.
    """

    offset: int
    value: str | None = None
    by_follower: bool = False
    differs: bool = False


class Nothing(msgspec.Struct, frozen=True):
    """Provably nothing happened."""

    reason: str


class Unknown(msgspec.Struct, frozen=True):
    """Nobody knows."""

    reason: str


Result = Done | Nothing | Unknown
Answer = Callable[[Result], None]


class Service(Protocol):
    """What a process offers to clients."""

    remembers_requests: bool

    def put(self, key: str, value: str, tag: str, request_id: str, done: Answer) -> None:
        """Write a register; ``done`` once."""

    def swap(self, key: str, expected: str | None, value: str, tag: str, request_id: str, done: Answer) -> None:
        """Write a key if this is its value (None: if it is not there); ``done`` once."""

    def get(self, key: str, done: Answer) -> None:
        """Read a register, linearizably; ``done`` once."""


Ask = Callable[[NodeId, Callable[[Service, Answer], None], Answer, str], None]
"""(node, what to call there, who hears the answer, kind of request): over a network that may lose either way."""


class History:
    """What all clients were told."""

    def __init__(self) -> None:
        self.operations: dict[str, list[Operation]] = {}
        self.acknowledged: dict[str, int] = {}
        """Tag, or request id, of a write → offset of its answer. Each must be in the log."""
        self.floor = 0
        self.reads = 0
        self.follower_reads = 0
        self.swaps = 0
        self.swaps_refused = 0
        """Those that found another value than they expected."""
        self.on_denied: Callable[[str, Nothing], None] = lambda _tag, _result: None

    def told(self, tag: str, proof: str, result: Result, floor: int) -> None:
        """An attempt begun when ``floor`` events were known was answered; ``proof`` is what to look for in the log."""
        match result:
            case Done(offset=offset):
                if offset < floor:
                    raise ViolationError(
                        "linearizable answers", f"{tag} reflects offset {offset}, {floor} was answered before it began"
                    )
                self.floor = max(self.floor, offset)
                if proof:
                    self.acknowledged[proof] = offset
            case Nothing():
                self.on_denied(tag, result)
            case Unknown():
                pass

    def check_registers(self) -> None:
        """Every register's history has an explanation."""
        for key, operations in sorted(self.operations.items()):
            verdict = check(settled(operations))
            if verdict is not True:
                why = "no order explains" if verdict is False else "undecided within the budget of steps for"
                raise ViolationError("linearizable answers", f"{why} the {len(operations)} operations on {key}")


class Habits(msgspec.Struct, frozen=True):
    """How clients behave; times in virtual seconds."""

    keys: int = 3
    patience_s: float = 0.5
    tries: int = 6
    think_s: float = 0.01
    reads: float = 0.4
    """Share of reads."""
    lies: float = 0.0
    """Share of request ids that are not as asked for: of another time, or of no form."""
    loyal: float = 0.8
    """Chance to ask the node that answered last, and not just any; who asks again asks the next."""


class _Call:
    """One operation under way."""

    __slots__ = (
        "attempt",
        "began",
        "called",
        "expected",
        "floor",
        "key",
        "open",
        "request_id",
        "swaps",
        "tag",
        "tries",
        "unknown",
        "value",
    )

    def __init__(self, key: str, value: str | None, request_id: str) -> None:
        self.key = key
        self.value = value
        self.swaps = False
        self.expected: str | None = None
        self.request_id = request_id
        self.called = 0.0
        self.began = 0.0
        self.tries = 0
        self.attempt = 0
        self.floor = 0
        self.tag = ""
        self.unknown = False
        self.open = True


class Client:
    """Asks, waits, and asks again until ``stop``."""

    def __init__(
        self,
        world: World,
        name: str,
        nodes: tuple[NodeId, ...],
        ask: Ask,
        history: History,
        habits: Habits,
        retries: bool,
    ) -> None:
        self._world = world
        self._name = name
        self._nodes = nodes
        self._ask = ask
        self._history = history
        self._habits = habits
        self._retries = retries
        self._favourite = self._asked = nodes[0]
        self._count = 0
        self._stopped = False
        self._call: _Call | None = None
        self._seen: dict[str, str | None] = {}
        """What each register held when it heard of it last."""
        self.answered = 0
        self.lies = 0
        """Dishonest request ids given."""

    def start(self) -> None:
        """Begin asking."""
        self._world.after(self._world.random.random() * 0.1, self._next)

    def wait_longer(self) -> None:
        """From the next attempt on, for as long as anybody does: longer than a read of old entries, which an answer may
        be behind where memory keeps a few of them.
        """
        self._habits = msgspec.structs.replace(self._habits, patience_s=max(PATIENCES_S))

    def stop(self) -> None:
        """Ask no more; what is open stays indeterminate."""
        self._stopped = True
        if self._call is not None:
            self._call.unknown = True
            self._finish(self._call, None)

    def _next(self) -> None:
        if self._stopped:
            return
        random, self._count = self._world.random, self._count + 1
        number = random.randrange(self._habits.keys)
        key = f"/k{number}" if number % 2 else f"k{number}"
        value = None if random.random() < self._habits.reads else f"{self._name}.{self._count}"
        call = self._call = _Call(key, value, self._new_id() if self._retries else "")
        call.called = self._world.now
        if value is not None and key.startswith("/") and self._count % SWAPS:
            call.swaps, call.expected = True, self._seen.get(key)
        self._try(call)

    def _new_id(self) -> str:
        """A request id as the product asks for: it begins with the time of its maker, epoch milliseconds."""
        now_ms = EPOCH_MS + int(self._world.now * 1000)
        if self._habits.lies and self._world.random.random() < self._habits.lies:
            self.lies += 1
            now_ms += self._world.random.choice(LIES_MS)
        return f"{now_ms}-{self._name}.{self._count}"

    def _try(self, call: _Call) -> None:
        if self._stopped or not call.open:
            return
        world = self._world
        call.tries += 1
        call.attempt += 1
        call.began = world.now
        if call.tries == 1 or not call.request_id:
            call.floor = self._history.floor
        call.tag = f"{self._name}.{self._count}.{call.attempt}"
        loyal = call.tries > 1 or world.random.random() < self._habits.loyal
        node = self._favourite if loyal else world.random.choice(self._nodes)
        self._asked = node
        key, value, tag, request_id, attempt, floor = (
            call.key,
            call.value,
            call.tag,
            call.request_id,
            call.attempt,
            call.floor,
        )

        def heard(result: Result) -> None:
            self._heard(call, attempt, node, tag, floor, result)

        if value is None:
            self._ask(node, lambda s, done: s.get(key, done), heard, "read")
        elif call.swaps:
            self._ask(node, lambda s, done: s.swap(key, call.expected, value, tag, request_id, done), heard, "swap")
        else:
            self._ask(node, lambda s, done: s.put(key, value, tag, request_id, done), heard, "config")
        world.after(self._habits.patience_s, lambda: self._impatient(call, attempt))

    def _heard(self, call: _Call, attempt: int, node: NodeId, tag: str, floor: int, result: Result) -> None:
        """An answer, perhaps to an attempt given up long ago: what it says is a fact all the same."""
        wrote = call.value is not None and not (isinstance(result, Done) and result.differs)
        proof = (call.request_id or tag) if wrote else ""
        self._history.told(tag, proof, result, floor)
        if not call.open or attempt != call.attempt:
            return
        match result:
            case Done():
                self.answered += 1
                self._favourite = node
                self._finish(call, result)
            case Nothing(reason=reason) if any(name in reason for name in FINAL_REFUSALS):  # The cluster's last word.
                self.answered += 1
                self._finish(call, None)
            case Nothing():
                self._again(call)
            case Unknown(reason=reason):
                call.unknown = True
                if FORGOTTEN in reason:  # The cluster's last word: the next operation has another id.
                    self.answered += 1
                    self._finish(call, None)
                else:
                    self._again(call)

    def _impatient(self, call: _Call, attempt: int) -> None:
        if call.open and attempt == call.attempt:
            call.unknown = True
            self._again(call)

    def _again(self, call: _Call) -> None:
        """The next node, if asking again is safe: who chooses by chance may miss a core for as long as it has."""
        call.attempt += 1
        self._favourite = self._nodes[(self._nodes.index(self._asked) + 1) % len(self._nodes)]
        hopeless = call.tries >= self._habits.tries
        unsafe = call.unknown and call.value is not None and not call.request_id
        if self._stopped or hopeless or unsafe:
            self._finish(call, None)
        else:
            self._world.after(0.005 + self._world.random.random() * 0.05, lambda: self._try(call))

    def _finish(self, call: _Call, result: Done | None) -> None:
        call.open = False
        self._call = None
        operations = self._history.operations.setdefault(call.key, [])
        if result is not None and call.value is None:
            self._history.reads += 1
            self._history.follower_reads += result.by_follower
            operations.append(Operation(call.began, self._world.now, "get", result.value))
        elif call.value is not None:
            what, wrote = "cas" if call.swaps else "put", result is not None and not result.differs
            if wrote or call.unknown:  # Who was told that something else is there may have written before, or yet.
                returned = self._world.now if wrote else None
                operations.append(Operation(call.called, returned, what, call.value, call.expected))
            if result is not None and result.differs:
                operations.append(Operation(call.began, self._world.now, "get", result.value))
            self._history.swaps += wrote and call.swaps
            self._history.swaps_refused += result is not None and result.differs
        if result is not None:
            self._seen[call.key] = result.value if call.value is None or result.differs else call.value
        if not self._stopped:
            self._world.after(self._world.random.random() * 2 * self._habits.think_s, self._next)
