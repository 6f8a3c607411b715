"""What we rely on in Faust, under faults: this must pass before faust-streaming is upgraded.

Workers are killed (-9) while events flow, a bad delivery loses and doubles events, and whatever any of them answers at
any moment equals a replay, told apart, at the offset it is stamped with.
"""

import random
from pathlib import Path

import pytest

pytest.importorskip("faust", reason="projections are not installed (make setup-all)")

from tests.projections.log import HistoryLog, MirrorLog
from tests.projections.samples import VIEWS, Samples, fill
from tests.projections.worker import FAULTY, Worker, pause, workers

BAD = {"LOSE": "0.002", "DOUBLE": "0.02"}


def run_with_kills(log: HistoryLog, pair: list[Worker], kills: int, offsets: int, samples: Samples) -> None:
    """Events flow, workers die; samples all the while, and of every view of both at the end."""
    killed, chance = 0, samples.chance
    while samples.offsets < offsets or killed < kills:
        log.append_commits(chance.randint(1, 8))
        answered = samples.take(chance.choice(pair))
        if answered and killed < kills and chance.random() < 2 * kills / offsets:
            victim = chance.choice(pair)
            victim.kill()
            victim.start()
            killed += 1
        pause(chance.uniform(0, 0.05))
    fill(log)
    for worker in pair:
        worker.wait(ready=True, offset=log.events, lag=0)
        for view in VIEWS:
            assert samples.take(worker, view)


def test_answers_equal_a_replay_while_workers_die_and_events_are_lost_and_doubled(tmp_path: Path) -> None:
    """One sound worker and one with a bad delivery, four kills: every answer is exact at its own offset."""
    with HistoryLog(seed=11) as log:
        log.append_events(1000)
        source = {"nodes": log.bootstrap}
        sound = Worker(source, tmp_path / "sound")
        bad = Worker(source, tmp_path / "bad", FAULTY, BAD | {"LOSE_FIRST": "1"})
        with workers(sound, bad):
            for worker in (sound, bad):
                worker.wait(ready=True)
            samples = Samples(random.Random(11))
            run_with_kills(log, [sound, bad], 4, 40, samples)
            assert bad.health()["failed"] is None
        samples.check(log)


def test_a_loss_at_the_end_is_found_although_nothing_follows(tmp_path: Path) -> None:
    """The last events of an idle log are lost on the way: the worker notices, reads again, and has them."""
    with HistoryLog(seed=12) as log:
        log.append_events(50)
        bad = Worker({"nodes": log.bootstrap}, tmp_path / "bad", FAULTY, {"LOSE_FIRST": "2"})
        with workers(bad):
            bad.wait(ready=True, offset=log.events)
            log.append_commits(1)
            told = bad.wait(offset=log.events, ready=True)
            assert told["rewinds"] >= 1


def test_the_same_worker_reads_a_mirror_by_configuration_alone(tmp_path: Path) -> None:
    """A mirror's Kafka offsets have holes; the rows equal the replay, and rows made there go on at a node."""
    with MirrorLog(seed=13) as mirror, HistoryLog(seed=13) as node:
        mirror.append_commits(300)
        worker = Worker({"mirror": mirror.bootstrap}, tmp_path / "w")
        samples = Samples(random.Random(13))
        with workers(worker):
            worker.wait(ready=True, offset=mirror.events)
            for _ in range(20):
                mirror.append_commits(5)
                samples.take(worker)
            worker.wait(ready=True, offset=mirror.events, lag=0)
            assert worker.stop() == 0
        node.append_commits(450)
        fill(node)
        worker.source = {"nodes": node.bootstrap}
        with workers(worker):
            worker.wait(ready=True, offset=node.events, lag=0)
            for view in VIEWS:
                samples.take(worker, view)
        samples.check(node)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", [HistoryLog, MirrorLog])
def test_answers_equal_a_replay_at_length(kind: type[HistoryLog], tmp_path: Path) -> None:
    """Two hundred offsets and more, twelve kills, both workers with a bad delivery."""
    with kind(seed=14) as log:
        source = {"mirror": log.bootstrap}
        pair = [Worker(source, tmp_path / name, FAULTY, BAD) for name in "ab"]
        with workers(*pair):
            samples = Samples(random.Random(14))
            run_with_kills(log, pair, 12, 220, samples)
            samples.check(log)
