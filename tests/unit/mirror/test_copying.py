"""The copy is exact, whatever goes wrong at either end."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate_projections.mirror.copying import MirrorCopier, Progress
from quorate_projections.mirror.ports import Event, ForeignLogError, NodeReport, NodeView
from quorate_projections.mirror.settings import MirrorSettings
from tests.unit.mirror.fakes import FakeNode, FakeSource, FakeTarget, Topic, event, troubles

SETTINGS = MirrorSettings(batch_events_max=7, leader_check_s=1.0, back_off_s=2.0)


class Clock:
    """Moves by hand."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def copying(log: list[Event], topic: Topic, node: NodeView | None = None, clock: Clock | None = None) -> MirrorCopier:
    """A mirror without trouble."""
    return MirrorCopier(
        node or FakeNode(), lambda _: FakeSource(log), lambda _: FakeTarget(topic), SETTINGS, clock or Clock()
    )


def test_copies_everything_in_order() -> None:
    """An empty target gets every event once, in order, and the position is the log's end."""
    log, topic = [event(k) for k in range(20)], Topic()
    mirror = copying(log, topic)
    for _ in range(5):
        mirror.step()
    assert topic.committed == log
    assert mirror.progress.position == 20
    assert mirror.progress.lag == 0


def test_resumes_behind_what_is_committed() -> None:
    """A second mirror goes on where the target ends, not where another believed it to be."""
    log, topic = [event(k) for k in range(30)], Topic(committed=[event(k) for k in range(11)])
    mirror = copying(log, topic)
    mirror.step()
    assert topic.committed == log[:18]


def test_only_a_leader_copies() -> None:
    """Beside a follower nothing is opened; a leader that stops leading lets go of both ends."""
    log, topic, node, clock = [event(0)], Topic(), FakeNode(leads=False), Clock()
    mirror = copying(log, topic, node, clock)
    assert mirror.step() == SETTINGS.leader_check_s
    assert (topic.epoch, mirror.progress.state) == (0, "standing by")
    node.leads = True
    mirror.step()
    assert topic.committed == log
    node.leads = False
    clock.s += 2.0
    mirror.step()
    assert mirror.progress.state == "standing by"


@pytest.mark.parametrize("pause", ["between reads", "while reading"])
def test_another_cluster_at_the_same_address_adds_nothing(pause: str) -> None:
    """A mirror that was paused while its cluster was made anew, longer: it proves the log again and is refused."""
    log, topic, node, clock = [event(k) for k in range(10)], Topic(), FakeNode(), Clock()
    source = FakeSource(log)
    read = source.read

    def resumed(most: int, wait_s: float) -> Sequence[Event]:
        found = read(most, wait_s)
        if len(topic.committed) == 10 and pause == "while reading":
            clock.s += 2.0
        return found

    source.read = resumed  # type: ignore[method-assign]
    mirror = MirrorCopier(node, lambda _: source, lambda _: FakeTarget(topic), SETTINGS, clock)
    for _ in range(2):
        mirror.step()
    copied = list(log)
    assert topic.committed == copied
    node.cluster, log[:] = "another", [event(k, "b") for k in range(14)]
    clock.s += 2.0 if pause == "between reads" else 0.5
    assert mirror.step() == SETTINGS.back_off_s
    with pytest.raises(ForeignLogError):
        mirror.step()
    assert topic.committed == copied


def test_a_zombie_is_fenced_and_adds_nothing() -> None:
    """A mirror that was overtaken cannot commit any more, says so, and waits before it tries again."""
    log, topic = [event(k) for k in range(50)], Topic()
    old, new = copying(log, topic), copying(log, topic)
    old.step()
    new.step()
    assert old.step() == SETTINGS.back_off_s
    assert (old.progress.state, old.progress.fenced) == ("failed", 1)
    assert topic.committed == log[:14]


@pytest.mark.parametrize(
    "committed",
    [
        [event(3)],
        [event(0, "b")],
        [event(0), event(1), event(2, "b")],
        [event(number, "b") for number in range(20)],
    ],
    ids=["headless", "another cluster's", "another tail", "another cluster's, and longer"],
)
def test_another_log_in_the_target_is_refused(committed: list[Event]) -> None:
    """A target that does not hold this very log's beginning stops the mirror for good, unchanged."""
    topic = Topic(committed=list(committed))
    mirror = copying([event(k) for k in range(9)], topic)
    turns = iter(range(100))
    with pytest.raises(ForeignLogError):
        mirror.run(lambda _: next(turns, None) is None)
    assert topic.committed == committed


def test_a_question_that_takes_long_is_not_asked_for_every_few_events() -> None:
    """It counts from its answer: else whoever waits for a dead address asks again at once, and hardly copies."""
    log, topic, clock, node = [event(k) for k in range(50)], Topic(), Clock(), FakeNode()
    asked, ask = [], node.ask

    def slow() -> NodeReport:
        asked.append(clock.s)
        clock.s += 15.0
        return ask()

    node.ask = slow  # type: ignore[method-assign]
    mirror = copying(log, topic, node, clock)
    for _ in range(4):
        mirror.step()
    assert len(topic.committed) == 28
    assert len(asked) == 1


def test_a_target_ahead_of_the_source_waits() -> None:
    """A node that has not applied yet what the target holds cannot vouch for it: the mirror waits, nothing changes."""
    topic = Topic(committed=[event(k) for k in range(5)])
    mirror = copying([event(k) for k in range(3)], topic)
    assert mirror.step() == SETTINGS.back_off_s
    assert mirror.progress.state == "failed"
    assert len(topic.committed) == 5


def test_stopping_lets_go_of_both_ends() -> None:
    """After ``run`` ends source and target are closed and the state says so."""
    source, target = FakeSource([event(0)]), FakeTarget(Topic())
    told: list[Progress] = []
    mirror = MirrorCopier(FakeNode(), lambda _: source, lambda _: target, SETTINGS, Clock(), told.append)
    turns = iter([False, False, True])
    mirror.run(lambda _: next(turns))
    assert source.closed
    assert target.closed
    assert told[-1].state == "stopped"


@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.0, 0.1, 0.4, 0.7]), size=st.integers(1, 120))
def test_exact_under_any_trouble(seed: int, share: float, size: int) -> None:
    """Three mirrors that overtake, lose, abort and misread at random leave the target a prefix at every step, whole at
    the end.
    """
    chance = random.Random(seed)
    log, topic = [event(k) for k in range(size)], Topic()
    clock = Clock()
    nodes = [FakeNode(leads=False) for _ in range(3)]
    trouble = {"share": share}

    def now_and_then() -> str:
        return troubles(chance, trouble["share"])()

    mirrors = [
        MirrorCopier(
            node, lambda _: FakeSource(log, now_and_then), lambda _: FakeTarget(topic, now_and_then), SETTINGS, clock
        )
        for node in nodes
    ]
    for _ in range(60):
        clock.s += chance.random()
        for node in nodes:
            node.leads, node.away = chance.random() < 0.5, chance.random() < 0.1
        chance.choice(mirrors).step()
        assert topic.committed == log[: len(topic.committed)]
    trouble["share"] = 0.0
    for node, leads in zip(nodes, (True, False, False), strict=True):
        node.leads, node.away = leads, False
    for _ in range(size + 5):
        clock.s += 5.0
        mirrors[0].step()
    assert topic.committed == log
