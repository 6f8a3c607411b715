"""Who hears of what a controller does, and in which order."""

from collections.abc import Sequence

from quorate.controller import Listener
from quorate.controller.listeners import Listeners
from quorate.controller.live import LiveEntry
from quorate.controller.messages import BrokersClosed, SumsMessage
from quorate.events import Event
from tests.unit.controller.bench import Bench
from tests.unit.controller.test_controller import topic


class Recorder(Listener):
    """Keeps the names of what it heard, under its own."""

    def __init__(self, name: str, heard: list[str]) -> None:
        self._name, self._heard = name, heard

    def _hear(self, what: str) -> None:
        self._heard.append(f"{what} {self._name}")

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
    names = [name for name in vars(Listener) if not name.startswith("_")]
    heard: list[str] = []
    listeners = Listeners()
    listeners.add(Recorder("b", heard), Listener(), Recorder("a", heard))
    listeners.add(Recorder("c", heard))
    for name in names:
        call = getattr(listeners, name)
        call(*[None] * (call.__func__.__code__.co_argcount - 1))
    assert heard == [f"{name} {who}" for name in names for who in "bac"]


def test_a_leadership_is_heard_from_its_opening_to_what_it_decided() -> None:
    """Opened once the first decision is applied, not before; then each entry decided here; then lost, once, and only a
    leadership that was open.
    """
    bench, heard = Bench(), list[str]()
    bench.controller.listeners.add(Recorder("x", heard))
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


def test_a_controller_is_whole_before_it_is_started() -> None:
    """Whatever is asked of one that was only built has an answer, and nothing of it is unset."""
    controller = Bench().controller
    assert (controller.is_leader, controller.term, controller.leader_id) == (False, 0, None)
    told: list[object] = []
    controller.quorum.ask(told.append)
    assert told == [None]
    assert controller.clock.ahead_ms == 0
