"""Keys of real nodes by etcd's API, while nodes are killed, paused and cut off: Put, Range and Txn are linearizable,
and watches are what etcd says of them.
"""

from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import msgspec
import pytest

from tests.linearizability.history import steps_back, unexplained, verdict
from tests.linearizability.keys import Change, KeyClients, Watcher, in_the_log
from tests.linearizability.nemesis import KINDS, Findings, campaign

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
IN_EVERY_RUN = ("the leader is killed", "the leader is paused", "a follower is paused", "the leader is cut off asleep")
SHARE = 3
"""Of each kind of write for each fault, at least."""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """One campaign, judged by all tests of this module."""
    return campaign(tmp_path_factory.mktemp("keys") / "c", 1, 1, kinds=IN_EVERY_RUN, clients=KeyClients)


def judge(findings: Findings) -> None:
    """Every register has an explanation, no answer reflects less than one before it, and enough was seen."""
    history = findings.history
    assert not unexplained(history)
    assert not steps_back(history.answers)
    calls = Counter(
        (
            "pair" if answer.call.register.startswith("p") else "key",
            "differs" if answer.told.differs else "swap" if answer.call.compares else "put",
        )
        for answer in history.answers
        if answer.call.is_put
    )
    kinds = [(family, what) for family in ("key", "pair") for what in ("put", "swap", "differs")]
    assert min(calls[kind] for kind in kinds) >= SHARE * len(findings.faults), calls
    by_followers = Counter(answer.call.node for answer in history.followers(findings.elections))
    assert by_followers.total() >= SHARE * len(findings.faults)
    assert len(findings.elections) > sum(fault.led for fault in findings.faults)
    print(f"{calls=} {by_followers=} elections={len(findings.elections)}", *findings.faults, sep="\n")


def broken(told: list[list[Change]], truth: list[Change]) -> str:
    """Which of etcd's guarantees does not hold of what a watcher was told, answer by answer? Empty: all do."""
    changes = [change for answer in told for change in answer]
    if any(later[0] < earlier[0] for earlier, later in pairwise(changes)):
        return "ordered"
    if len({change[:2] for change in changes}) != len(changes):
        return "unique"
    if any(later[0][0] == earlier[-1][0] for earlier, later in pairwise(told)):
        return "atomic"
    return "" if changes == truth else "reliable"


def judge_watchers(findings: Findings) -> list[Watcher]:
    """Each was told everything, in order, once, whole revisions, though its streams broke."""
    clients = findings.clients
    assert isinstance(clients, KeyClients)
    truth = list(in_the_log(findings.log))
    assert Counter(len(list(group)) for _, group in groupby(truth, key=lambda change: change[0])).keys() == {1, 2}
    assert [broken(watcher.answers, truth) for watcher in clients.watchers] == [""] * 3
    assert min(watcher.streams for watcher in clients.watchers) > 1
    print([(watcher.streams, len(watcher.answers)) for watcher in clients.watchers], len(truth))
    return clients.watchers


def test_keys_and_transactions_are_linearizable(findings: Findings) -> None:
    """One order of puts and successful comparisons explains what every Range and Txn saw on whatever node."""
    judge(findings)


def test_watches_are_ordered_unique_atomic_reliable_and_resumable(findings: Findings) -> None:
    """What etcd guarantees, against the events of the log."""
    judge_watchers(findings)


def test_what_is_not_so_is_noticed(findings: Findings) -> None:
    """The judges can tell: a comparison that found another value than it says, an event lost, told twice or too late,
    half a transaction.
    """
    told, truth = judge_watchers(findings)[0].answers, list(in_the_log(findings.log))
    pair = next(at for at, answer in enumerate(told) if len(answer) == 2 and answer[0][0] == answer[1][0])
    halves = [[told[pair][0]], [told[pair][1]]]
    assert broken([*told[:pair], *halves, *told[pair + 1 :]], truth) == "atomic"
    assert broken([*told[:pair], *told[pair + 1 :]], truth) == "reliable"
    assert broken([*told[:pair], told[pair], told[pair], *told[pair + 1 :]], truth) == "unique"
    assert broken([*told[1:], told[0]], truth) == "ordered"
    history = findings.history
    swaps = [a for a in history.answers if a.call.compares and not a.told.differs and a.call.expected is not None]
    assert len(swaps) > 3
    for answer in swaps[:3]:
        blind = msgspec.structs.replace(answer.call.operation(answer.returned), expected="never")
        others = [op for op in history.registers()[answer.call.register] if op.value != answer.call.value]
        assert verdict([*others, blind]) is False


@pytest.mark.slow
def test_at_length(tmp_path: Path) -> None:
    """The same with every kind of fault, four times each."""
    findings = campaign(tmp_path / "c", 4, 3, kinds=tuple(KINDS), clients=KeyClients)
    judge(findings)
    judge_watchers(findings)
