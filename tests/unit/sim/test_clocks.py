"""Clocks that jump, on the nodes as the product composes them: one alone, all together, ahead, back.

What must hold of the log's time is asked in the caller's own time, which is that of the world.
"""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from quorate.consensus.ports import NodeId
from quorate.controller import Listener
from quorate.metadata.requests import RequestSettings
from quorate.node.compose import Core
from tests.sim.clients import Done, Result
from tests.sim.nodes import CoreNode, Limits
from tests.sim.scripted import Stage
from tests.sim.world import EPOCH_MS

YEAR_MS = 365 * 24 * 3600 * 1000
SOON_MS = 2_000
NOTE_S = 1.0


def plain(draw: Callable[[Random], Limits]) -> Callable[[Random], Limits]:
    """Limits with few remembered requests, and no others of theirs that matter here."""

    def drawn(random: Random) -> Limits:
        limits, replace = draw(random), msgspec.structs.replace
        controller = replace(limits.core.controller, answer_timeout_s=1.5, clock_note_s=NOTE_S, clock_alone_s=3.0)
        requests = RequestSettings(remembered_max=50, remembered_ms_max=3_600_000)
        return replace(limits, core=replace(limits.core, controller=controller, requests=requests))

    return drawn


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits without extremes (``plain``)."""
    monkeypatch.setattr(Limits, "draw", staticmethod(plain(Limits.draw)))


class News(Listener):
    """Keeps what a clock said."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def clock_said(self, text: str, ahead_ms: int) -> None:
        self._told.append(text)


class Hall(Stage):
    """A settled cluster of three, honest callers, and hands on its clocks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.first = self.leader(self.cluster.voters)
        self.wait(self.settled, "equal logs")
        self.pause(2 * NOTE_S)
        self.asked = 0
        self.news: dict[NodeId, list[str]] = {node: [] for node in self.cluster.voters}
        for node, told in self.news.items():
            self.core(node).listeners.add(News(told))

    def core(self, node: NodeId) -> Core:
        found = self.process(node).node
        assert isinstance(found, CoreNode)
        return found.core

    def pause(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.world.now * 1000)

    def skew(self, ms: int, *nodes: NodeId) -> None:
        for node in nodes or self.cluster.voters:
            self.cluster.hosts[node].wall_skew_ms = ms
            self.process(node).loop.wall_skew_ms = ms

    def leads(self) -> NodeId:
        return self.leader(self.cluster.voters)

    def put(self, node: NodeId, request_id: str = "") -> Result:  # type: ignore[override]
        """A keyed write of an honest caller, whose clock is right, unless it says another id."""
        self.asked += 1
        answers: list[Result] = []
        tag, name = f"t{self.asked}", request_id or f"{self.now_ms()}-{self.asked}"
        self.cluster.ask(node, lambda service, done: service.put("k", name, tag, name, done), answers.append)
        self.wait(lambda: bool(answers), "an answer")
        return answers[0]

    def log_ahead_ms(self) -> int:
        """How far the log's time is ahead of the world's."""
        living = [process.node_id for process in self.cluster.processes()]
        return max(self.core(node).machine.time_ms for node in living) - self.now_ms()


def test_a_leader_a_year_ahead_for_a_moment_writes_nothing_of_it() -> None:
    """Nothing is stamped with its time, nothing forgotten for it, nobody refused for it, then or later."""
    hall = Hall(1)
    remembered = f"{hall.now_ms()}-remembered"
    assert isinstance(hall.put(hall.first, remembered), Done)
    hall.skew(YEAR_MS, hall.first)
    for _ in range(3):
        assert isinstance(hall.put(hall.first), Done)
        assert not isinstance(hall.put(hall.first, f"{hall.now_ms() + YEAR_MS}-ahead"), Done)
    assert hall.log_ahead_ms() < SOON_MS
    hall.skew(0, hall.first)
    again = hall.put(hall.first, remembered)
    assert isinstance(again, Done)
    for _ in range(60):
        assert isinstance(hall.put(hall.first), Done)
    assert hall.log_ahead_ms() < SOON_MS
    assert hall.leads() == hall.first


def test_a_leader_that_stays_alone_in_the_future_hands_over_and_says_so() -> None:
    """Another leads soon, by the true time; the node says what is the matter until its clock is back."""
    hall = Hall(2)
    hall.skew(YEAR_MS, hall.first)
    hall.wait(lambda: any(p.node_id != hall.first for p in hall.cluster.leaders()), "another leader", 8.0)
    hall.pause(1.0)
    other = hall.leads()
    assert other != hall.first
    assert isinstance(hall.put(other), Done)
    assert hall.log_ahead_ms() < SOON_MS
    clock = hall.core(hall.first).controller.clock
    assert abs(clock.ahead_ms - YEAR_MS) < SOON_MS
    hall.skew(0, hall.first)
    hall.pause(3 * NOTE_S)
    told = hall.news[hall.first]
    assert "jumped ahead" in told[0]
    assert "ahead of a majority" in told[1]
    assert any(f"handed over to node {other}" in text for text in told)
    assert "jumped back" in told[-2]
    assert "again" in told[-1]
    assert abs(clock.ahead_ms) < 100
    assert not any(hall.news[node] for node in hall.cluster.voters if node != hall.first)


def test_a_follower_a_year_ahead_leads_by_the_majoritys_time_when_it_must() -> None:
    """It is elected like any other, and stamps nothing of its clock."""
    hall = Hall(3)
    wrong, third = [node for node in hall.cluster.voters if node != hall.first]
    hall.skew(YEAR_MS, wrong)
    hall.pause(2 * NOTE_S)
    hall.only((wrong, third))
    hall.wait(lambda: any(p.node_id != hall.first for p in hall.cluster.leaders()), "another leader")
    if wrong not in {p.node_id for p in hall.cluster.leaders()}:  # The first one may not know yet that it is none.
        hall.wait(lambda: hall.process(third).node.engine.transfer_leadership(wrong), "a hand-over begun")
        hall.wait(lambda: wrong in {p.node_id for p in hall.cluster.leaders()}, "the wrong one leading")
    assert isinstance(hall.put(wrong), Done)
    assert hall.log_ahead_ms() < SOON_MS
    hall.wait(lambda: third in {process.node_id for process in hall.cluster.leaders()}, "handover", 8.0)


def test_all_together_stay_electable_believe_it_and_say_so() -> None:
    """A suspended host: the log's time follows, the leader stays, what was remembered is, and each node tells."""
    hall = Hall(4)
    remembered = f"{hall.now_ms()}-remembered"
    assert isinstance(hall.put(hall.first, remembered), Done)
    hall.skew(8 * 3_600_000)
    hall.pause(3 * NOTE_S)
    assert hall.leads() == hall.first
    assert isinstance(hall.put(hall.first, f"{hall.now_ms() + 8 * 3_600_000}-next"), Done)
    assert abs(hall.log_ahead_ms() - 8 * 3_600_000) < SOON_MS
    offset = hall.process(hall.first).node.offset
    assert isinstance(hall.put(hall.first, remembered), Done)
    assert hall.process(hall.first).node.offset == offset, "it ran again"
    assert all("jumped ahead by 28800" in told[0] and len(told) == 1 for told in hall.news.values())
    hall.cluster.crash(hall.first, "kill", 1.0)
    hall.wait(lambda: any(p.node_id != hall.first for p in hall.cluster.leaders()), "another leader")


def test_a_cluster_that_was_a_year_ahead_and_came_back_takes_honest_ids_again() -> None:
    """Ids of that year are forgotten one day: no honest one is taken for them, and none of them runs again."""
    hall = Hall(5)
    hall.skew(YEAR_MS)
    hall.pause(3 * NOTE_S)
    ahead = []
    for number in range(60):
        ahead.append(f"{hall.now_ms() + YEAR_MS}-{number}")
        assert isinstance(hall.put(hall.leads(), ahead[-1]), Done)
    hall.skew(0)
    hall.pause(3 * NOTE_S)
    assert hall.log_ahead_ms() > YEAR_MS / 2
    assert not isinstance(hall.put(hall.leads(), f"{hall.now_ms() + YEAR_MS}-judged-by-the-clock"), Done)
    for _ in range(120):
        assert isinstance(hall.put(hall.leads()), Done)
    assert hall.core(hall.leads()).machine.requests.horizon_ms < hall.now_ms()
    hall.skew(YEAR_MS)
    hall.pause(3 * NOTE_S)
    assert not isinstance(hall.put(hall.leads(), ahead[0]), Done)


def test_a_leader_whose_clock_went_back_judges_ids_by_the_majoritys() -> None:
    """Time in the log does not fall, honest callers are heard, and the node says that it is behind."""
    hall = Hall(6)
    before = hall.log_ahead_ms()
    hall.skew(-600_000, hall.first)
    hall.pause(2 * NOTE_S)
    assert isinstance(hall.put(hall.first), Done)
    assert hall.leads() == hall.first
    assert hall.log_ahead_ms() <= before
    assert "behind a majority" in hall.news[hall.first][1]
