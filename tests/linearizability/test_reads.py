"""Reads of real nodes over real wires, while nodes are killed, paused and cut off: the histories are judged."""

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from tests.linearizability import hasty
from tests.linearizability.history import older, steps_back, unexplained, verdict
from tests.linearizability.nemesis import KINDS, READS, WRITES, Findings, campaign

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
TRIES = 5
"""An echo may be too short on a machine that is busy elsewhere."""
SHARE = 5
"""Reads that each node over each wire, and followers over HTTP, must have answered for each fault."""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """One campaign, judged by all tests of this module."""
    return campaign(tmp_path_factory.mktemp("linearizability") / "c", rounds=1, seed=1)


def judge(findings: Findings) -> None:
    """Every register has an explanation, and no answer reflects less than an answer before it."""
    assert not unexplained(findings.history)
    assert not steps_back(findings.history.answers)


def judge_the_campaign(findings: Findings, rounds: int) -> None:
    """Enough was seen: of every fault, on every node, over both wires, by followers."""
    history, nodes = findings.history, {1, 2, 3}
    assert Counter(fault.kind for fault in findings.faults) == dict.fromkeys(KINDS, rounds)
    assert len(findings.elections) > sum(fault.led for fault in findings.faults)
    assert findings.held_bytes > 0
    for fault in findings.faults:
        others = nodes - {fault.victim}
        within = [a for a in history.answers if a.call.called >= fault.began and a.returned <= fault.ended]
        within = [a for a in within if a.call.node in others and a.call.level == "linearizable"]
        assert sum(not a.call.is_put for a in within) >= READS, fault
        assert sum(a.call.is_put for a in within) >= WRITES, fault
        assert history.answered(fault.ended, [fault.victim], puts=False) >= READS, fault
    reads = Counter((a.call.node, a.call.wire) for a in history.answers if a.call.level == "linearizable")
    assert min(reads[way] for way in product(nodes, ("http", "remoting"))) >= SHARE * len(findings.faults), reads
    by_followers = Counter(answer.call.node for answer in history.followers(findings.elections))
    assert set(by_followers) == nodes
    assert by_followers.total() >= SHARE * len(findings.faults)
    print(f"{reads=} {by_followers=} elections={len(findings.elections)}", *findings.faults, sep="\n")


def test_every_history_has_an_explanation(findings: Findings) -> None:
    """Whatever was read on whatever node, one order of the writes explains it; offsets never go back in real time."""
    judge(findings)


def test_the_campaign_saw_what_it_is_about(findings: Findings) -> None:
    """Each fault happened, leaders changed, and followers, survivors and the struck themselves answered reads."""
    judge_the_campaign(findings, rounds=1)


def test_a_paused_leader_comes_back_to_reads_that_are_older_than_its_rule(findings: Findings) -> None:
    """Reads asked of the old leader while others already wrote under a new one were answered, after its return."""
    kinds = ("the leader is paused", "the leader is cut off asleep")
    slept = [fault for fault in findings.faults if fault.kind in kinds]
    assert len(slept) == len(kinds)
    for fault in slept:
        late = [
            a
            for a in findings.history.answers
            if a.call.node == fault.victim and a.call.level == "linearizable" and not a.call.is_put
            if fault.outlived < a.call.called < fault.ended < a.returned
        ]
        assert late, fault


def test_stale_reads_under_the_same_faults_have_none(findings: Findings) -> None:
    """The checker can tell: the same writes, with the reads of ``level=stale``, have no explanation."""
    registers = findings.history.registers("stale")
    verdicts = Counter(verdict(operations) for operations in registers.values())
    print(verdicts)
    assert verdicts[False] >= 1


def test_one_older_value_is_noticed(findings: Findings) -> None:
    """The checker can tell: one read that saw a value overwritten before it began makes a register's history wrong."""
    changed = [found for ops in findings.history.registers().values() if (found := older(ops)) is not None]
    assert len(changed) >= 3
    assert {verdict(operations) for operations in changed} == {False}


@pytest.mark.slow
def test_a_leader_that_does_not_confirm_its_reads_is_caught(tmp_path: Path) -> None:
    """The campaign can tell: with the one bug that only a leader wrong about its rule shows, a history is refused."""
    verdicts: Counter[bool | None] = Counter()
    for attempt in range(TRIES):
        folder = tmp_path / f"c{attempt}"
        findings = campaign(folder, 1, attempt, kinds=["the leader hears an echo"], program=[hasty.__file__])
        verdicts.update(map(verdict, findings.history.registers().values()))
        if verdicts[False]:
            return
    pytest.fail(f"{TRIES} echoes, and no old answer: {verdicts}")


@pytest.mark.slow
def test_at_length(tmp_path: Path) -> None:
    """The same, eight times as long, and in other orders."""
    findings = campaign(tmp_path / "c", rounds=8, seed=2)
    judge(findings)
    judge_the_campaign(findings, rounds=8)
