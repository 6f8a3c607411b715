"""An election in words: the same for the page, the command line and the demonstration."""

from typing import Any, get_args

import msgspec
import pytest

from quorate.events import Candidate, ElectionFailed, MasterElected
from quorate.metadata import replica_set, whatif
from quorate.metadata.commands import ElectionTrigger, Evidence
from quorate.model.election_words import (
    AnyElection,
    asker,
    because,
    caveat,
    columns,
    headline,
    kind_words,
    rule_words,
    verdict,
    whatif_words,
)

MIB = 1 << 20
FALLS = (
    replica_set.NOT_ALIVE,
    replica_set.NOT_IN_SYNC,
    replica_set.LEARNER,
    replica_set.NOT_ASKED_FOR,
    *replica_set.DECIDED_BY,
)
APPOINTED = (replica_set.FIRST_ELECTION, replica_set.DESIGNATED, replica_set.MOVED)
RULES = (*APPOINTED, replica_set.ONLY_CANDIDATE, *replica_set.DECIDED_BY.values())


def candidate(broker_id: int, out_by: str = "", **seen: Any) -> Candidate:
    told = {"alive": True, "in_sync": True, "epoch": 4, "max_offset": 3 * MIB, "confirm_offset": 0, "priority": 1_000}
    return Candidate(broker_id=broker_id, verdict="out" if out_by else "elected", out_by=out_by, **{**told, **seen})


def election(*candidates: Candidate, **told: Any) -> MasterElected:
    """Broker 2 in place of broker 1."""
    event = MasterElected(
        cluster="c", broker_set="a", trigger="master lost", evidence="connection closed", old_master=1, master=2,
        master_address="h:2", master_epoch=5, sync_state_set=(2,), sync_state_set_epoch=5, old_sync_state_set=(1, 2),
        candidates=candidates, decided_by="higher epoch", explanation="", unclean=False, last_heartbeat_ms=0,
        detected_ms=0, proposed_ms=0,
    )  # fmt: skip
    return msgspec.structs.replace(event, **told)


def failure(*candidates: Candidate, old_master: int | None = 1) -> ElectionFailed:
    return ElectionFailed(
        cluster="c", broker_set="a", trigger="master lost", evidence="connection closed", old_master=old_master,
        master_epoch=5, candidates=candidates, explanation="", last_heartbeat_ms=0, detected_ms=0, proposed_ms=0,
    )  # fmt: skip


DEAD = candidate(1, "not alive", alive=False)
BEHIND = candidate(3, "not in sync state set", in_sync=False)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (election(old_master=None, old_sync_state_set=()), "a got its first master, broker 2"),
        (election(old_master=None), "a has a master again, broker 2"),
        (election(trigger="admin"), "a was handed from broker 1 to broker 2"),
        (election(), "a elected broker 2 in place of broker 1"),
        (election(old_master=2, decided_by="address changed"), "a keeps broker 2, which moved"),
        (failure(), "a lost its master and nobody could follow"),
        (failure(old_master=None), "a: again nobody could be elected"),
    ],
)
def test_a_headline_says_what_became_of_the_set(event: AnyElection, told: str) -> None:
    """First, again, handed over, elected, moved, or lost: each has its own headline."""
    assert headline(event) == told


@pytest.mark.parametrize(
    ("loser", "told"),
    [
        (DEAD, "it is the master that was lost"),
        (candidate(3, "not alive", alive=False), "fenced"),
        (candidate(3, "not in sync state set", max_offset=MIB // 2), "not in the sync set, 2.50 MiB behind"),
        (candidate(3, "not in sync state set"), "not in the sync set"),
        (candidate(3, "not in sync state set", max_offset=-1), "not in the sync set"),
        (candidate(3, "learner"), "a learner is never elected"),
        (candidate(3, "not asked for"), "another was asked for"),
        (candidate(3, "lower epoch", epoch=3), "epoch 3, broker 2 has 4"),
        (candidate(3, "lower max offset", max_offset=3 * MIB - 812), "812 B behind broker 2"),
        (candidate(3, "lower priority", priority=2**31 - 1), "priority 2,147,483,647, broker 2 has 1,000"),
        (candidate(3, "higher broker id"), "as good, but a higher id"),
        (candidate(3, "lower karma"), "lower karma"),
    ],
)
def test_a_verdict_says_where_a_candidate_fell(loser: Candidate, told: str) -> None:
    """Each way out has its words, with the figures that count; a rule nobody knows is named."""
    event = election(loser, candidate(2))
    assert verdict(loser, event) == f"out: {told}"
    assert verdict(event.candidates[1], event) == "elected: highest epoch"


@pytest.mark.parametrize("out_by", FALLS)
def test_a_verdict_needs_no_winner(out_by: str) -> None:
    """Where nobody won, or one who was no candidate, every verdict can be told all the same."""
    loser = candidate(3, out_by)
    for event in (failure(loser), election(loser)):
        assert verdict(loser, event).startswith("out: ")


def test_whatever_the_rules_write_has_words() -> None:
    """No rule, way out, trigger or evidence of this build is told by its raw name."""
    supposed = (whatif.OFFSETS_UNKNOWN, whatif.NO_QUORUM, whatif.NOBODY)
    assert [rule for rule in (*RULES, *supposed) if rule_words(rule) == rule] == []
    assert [trigger for trigger in get_args(ElectionTrigger) if asker(trigger) == trigger] == []
    kinds = {*get_args(Evidence), *get_args(ElectionTrigger)} - {"", "master lost"}
    assert [kind for kind in kinds if kind_words(kind) == kind] == []
    losers = [candidate(3, fall) for fall in FALLS]
    assert [one.out_by for one in losers if verdict(one, election(one, candidate(2))) == f"out: {one.out_by}"] == []


def test_what_nobody_knows_keeps_its_name() -> None:
    """A newer build's kinds, triggers and rules are told as they are written; so is a lost master, which is plain."""
    for words in (kind_words, asker, rule_words):
        assert words("moon phase") == "moon phase"
    assert kind_words("master lost") == "master lost"
    assert because(election(candidate(2), decided_by="moon phase")).endswith("broker 2 won: moon phase.")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (election(DEAD, candidate(2)), "Of 2 candidates one was alive; broker 2 had the highest epoch of those that"),
        (
            election(candidate(1), candidate(2), decided_by="only candidate"),
            "Of 2 candidates 2 were alive; broker 2 was the only one that could stand.",
        ),
        (failure(DEAD), "None of 1 candidate was alive."),
        (failure(DEAD, BEHIND), "Of 2 candidates one was alive, but none of the living may be elected."),
        (election(candidate(2), decided_by="first election"), "The set never had a master, and this broker asked fir"),
        (election(candidate(2), decided_by="designated"), "An operator named it, and it was alive and in the sync"),
        (election(candidate(2), decided_by="address changed"), "The master came back at another address and stays"),
    ],
)
def test_the_reason_counts_the_living_and_names_the_rule(event: AnyElection, told: str) -> None:
    """Who was compared, and how the winner was better; an appointed one was not compared; or why nobody."""
    assert because(event).startswith(told)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_a_reason(rule: str) -> None:
    """No rule of this build leaves the reason without words of its own."""
    told = because(election(candidate(2), decided_by=rule))
    assert "won:" not in told


def test_a_caveat_is_for_what_may_be_lost_or_was_not_done() -> None:
    """A clean election needs none; an unclean one may lack messages; a failed one names the policy of the log."""
    assert not caveat(election(candidate(2)), None)
    assert "may lack acknowledged messages" in caveat(election(candidate(2), unclean=True), True)
    assert caveat(failure(DEAD), None).startswith("No candidate passed “Alive”. Unclean election is not set in the log")
    assert caveat(failure(DEAD, BEHIND), False).startswith("No candidate passed “In sync set”. Unclean election is off")
    assert "Unclean election is on" in caveat(failure(DEAD), True)


def test_what_would_be_tells_the_rule_and_the_loss() -> None:
    """A clean winner loses nothing; of an unclean one it is said how much, as far as that is known."""
    assert whatif_words("higher max offset", unclean=False, loses_bytes=0) == "highest offset"
    assert whatif_words("only candidate", unclean=True, loses_bytes=3 * MIB) == "only one left to stand; loses 3.00 MiB"
    told = whatif_words("only candidate", unclean=True, loses_bytes=None)
    assert told == "only one left to stand; loses what it had not copied"


def test_a_move_for_balance_is_told_as_one() -> None:
    """Neither an operator nor a loss was the reason."""
    candidate = Candidate(
        broker_id=2, alive=True, in_sync=True, epoch=1, max_offset=1, confirm_offset=1, priority=1,
        verdict="elected", out_by="", learner=False,
    )  # fmt: skip
    event = MasterElected(
        cluster="c", broker_set="a", trigger="balance", evidence="", old_master=1, master=2, master_address="h:1",
        master_epoch=2, sync_state_set=(2,), sync_state_set_epoch=2, old_sync_state_set=(1, 2),
        candidates=(candidate,), decided_by="designated", explanation="", unclean=False, last_heartbeat_ms=0,
        detected_ms=0, proposed_ms=0,
    )  # fmt: skip
    assert headline(event) == "a was moved from broker 1 to broker 2 for balance"
    assert because(event).startswith("The controller named it to even out who leads")


DECIDING = {
    **dict.fromkeys(APPOINTED, "named"),
    replica_set.ONLY_CANDIDATE: "priority",
    "higher epoch": "epoch",
    "higher max offset": "offset",
    "higher priority": "priority",
    "lower broker id": "lowest",
}


@pytest.mark.parametrize("rule", RULES)
def test_the_questions_are_those_of_the_rules(rule: str) -> None:
    """Every verdict has its column, in the order of the rules, and one decided; where one was named nobody is compared,
    and the only one left was found at the last question that another fell at.
    """
    every = [candidate(number, out_by) for number, out_by in enumerate(FALLS, start=3)]
    found = columns(election(candidate(2), *every, decided_by=rule))
    asked = FALLS[:4] if rule in APPOINTED else FALLS if rule == "lower broker id" else FALLS[:-1]
    assert [column.out_by for column in found] == list(asked)
    assert [column.id for column in found if column.decided] == [DECIDING[rule]]


def test_a_question_that_says_nothing_is_not_asked() -> None:
    """Without learners, somebody named or equal candidates three columns are left out; a failure decided nowhere."""
    found = columns(election(DEAD, candidate(2), decided_by="only candidate"))
    assert [column.id for column in found] == ["alive", "sync", "epoch", "offset", "priority"]
    assert [column.id for column in found if column.decided] == ["alive"]
    assert not any(column.decided for column in columns(failure(DEAD, BEHIND)))
    assert "learner" in [column.id for column in columns(failure(candidate(4, "not alive", learner=True)))]
