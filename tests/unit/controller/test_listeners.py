"""Who hears of what a controller does, and in which order."""

from collections.abc import Iterable, Sequence

from quorate.consensus.ports import Index, LeaderCause, Term
from quorate.controller import Listener, Listeners
from quorate.controller.live import LiveEntry
from quorate.controller.messages import BrokersClosed, SumsMessage
from quorate.events import Event, LeaseEnded, TopicDeleted
from quorate.metadata.group_rows import encode_changes
from tests.unit.controller.bench import CALLER, Bench
from tests.unit.controller.test_controller import topic


class Recorder(Listener):
    """Keeps the names of what it heard, under its own."""

    def __init__(self, name: str, heard: list[str], *only: str) -> None:
        self._name, self._heard, self._only = name, heard, only

    def _hear(self, what: str) -> None:
        if not self._only or what in self._only:
            self._heard.append(f"{what} {self._name}")

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        self._hear("leadership")

    def disowned(self, index: Index) -> None:
        self._hear("disowned")

    def slice_end(self) -> None:
        self._hear("slice_end")

    def installed(self, index: Index) -> None:
        self._hear("installed")

    def applied(self, end_offset: int) -> None:
        self._hear("applied")

    def kept(self, index: Index, term: Term) -> None:
        self._hear("kept")

    def leader_recorded(self) -> None:
        self._hear("leader_recorded")

    def leases_touched(self, rows: Iterable[bytes]) -> None:
        self._hear("leases_touched")

    def clock_said(self, text: str, ahead_ms: int) -> None:
        self._hear("clock_said")

    def directories_named(self) -> None:
        self._hear("directories_named")

    def stopping(self) -> None:
        self._hear("stopping")

    def opened(self, term: int) -> None:
        self._hear("opened")

    def lost(self) -> None:
        self._hear("lost")

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        self._hear("committed")

    def suspected(self, suspects: list[LiveEntry]) -> None:
        self._hear("suspected")

    def closed_elsewhere(self, peer: int, note: BrokersClosed) -> None:
        self._hear("closed_elsewhere")

    def revived(self, entry: LiveEntry) -> None:
        self._hear("revived")

    def sums_told(self, peer: int, message: SumsMessage) -> None:
        self._hear("sums_told")


def test_each_is_told_everything_in_the_order_in_which_they_were_named() -> None:
    """Whatever it is that a listener may hear: all of them hear it, the first named first."""
    names = [name for name, value in vars(Listener).items() if callable(value) and not name.startswith("_")]
    heard: list[str] = []
    listeners = Listeners()
    listeners.add(Recorder("b", heard), Listener(), Recorder("a", heard))
    listeners.add(Recorder("c", heard))
    for name in names:
        call = getattr(listeners, name)
        call(*[()] * (call.__func__.__code__.co_argcount - 1))
    assert heard == [f"{name} {who}" for name in names for who in "bac"]


def test_who_was_removed_hears_nothing_more() -> None:
    """And the others go on hearing, in order."""
    heard: list[str] = []
    listeners, second = Listeners(), Recorder("b", heard)
    listeners.add(Recorder("a", heard), second, Recorder("c", heard))
    listeners.remove(second)
    listeners.applied(1)
    assert heard == ["applied a", "applied c"]


def test_a_leadership_is_heard_from_its_opening_to_what_it_decided() -> None:
    """Opened once the first decision is applied, not before; then each entry decided here; then lost, once, and only a
    leadership that was open.
    """
    bench, heard = Bench(), list[str]()
    bench.listeners.add(Recorder("x", heard, "opened", "committed", "lost"))
    bench.engine.lead(1)
    assert heard == []
    bench.engine.commit()  # ClusterCreated
    bench.engine.commit()  # ControllerLeaderElected
    assert heard == ["committed x", "opened x", "committed x"]
    heard.clear()
    bench.done(topic("a"))
    bench.engine.lose(None)
    bench.engine.lead(2)
    bench.engine.lose(None)
    assert heard == ["committed x", "lost x"]


def test_an_entry_is_heard_of_as_the_machine_has_it() -> None:
    """Its slice is stored before anybody is told, the decider's answer goes out before the news of the offset, and what
    a slice kept for groups comes last.
    """
    bench, heard = Bench(), list[str]()
    bench.open()
    bench.listeners.add(Recorder("x", heard))
    bench.controller.submit(topic("a"), CALLER, lambda _: heard.append("answered"))
    bench.engine.commit()
    assert heard == ["answered", "committed x", "slice_end x", "applied x"]
    heard.clear()
    assert bench.controller.keep_groups(encode_changes([(b"k", b"row")])) is not None
    bench.engine.commit()
    assert heard == ["slice_end x", "kept x"]


def test_a_controller_is_whole_before_it_is_started() -> None:
    """Whatever is asked of one that was only built has an answer, and nothing of it is unset."""
    controller = Bench().controller
    assert (controller.is_leader, controller.term, controller.leader_id) == (False, 0, None)
    told: list[object] = []
    controller.quorum.ask(told.append)
    assert told == [None]
    assert controller.clock.ahead_ms == 0


class OfTopics(Listener):
    """Hears of one kind alone."""

    concerns = frozenset((TopicDeleted,))

    def __init__(self) -> None:
        self.heard: list[int] = []

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        self.heard += [offset for offset, _ in events]


def test_a_slice_without_what_concerns_it_costs_a_part_nothing() -> None:
    """Who names kinds of events is told whole slices with any of them, and no other."""
    listeners, part = Listeners(), OfTopics()
    listeners.add(part)
    listeners.committed([(1, LeaseEnded(lease=1, reason="expired", keys=0, silent_ms=1))])
    listeners.committed([(2, LeaseEnded(lease=2, reason="expired", keys=0, silent_ms=1)), (3, TopicDeleted(topic="t"))])
    assert part.heard == [2, 3]
