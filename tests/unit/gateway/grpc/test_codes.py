"""Refusals and other ends as gRPC codes: etcd's texts, and never a failure for what may have been done."""

from typing import get_args

import pytest

from quorate.controller import Answered, Busy, NotLeader, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.gateway.fresh import NotFresh
from quorate.gateway.grpc.codes import REFUSALS, StatusCode, failed, not_fresh, refused
from quorate.metadata.commands import Accepted
from quorate.metadata.refusals import Code, refuse


def test_the_table_knows_only_names_that_exist() -> None:
    """A refusal that is renamed is found here."""
    assert set(REFUSALS) <= set(get_args(Code))


def test_a_refusal_that_etcd_knows_has_its_words() -> None:
    """Clients match the text, so it is etcd's to the letter, whatever our remark says."""
    error = refused(refuse("LeaseNotFound", "something else"))
    assert (error.code, error.text) == (StatusCode.NOT_FOUND, "etcdserver: requested lease not found")


def test_a_refusal_of_ours_says_its_remark() -> None:
    """As it stands it will be refused again."""
    error = refused(refuse("UnsupportedFeatureLevel", "raise it"))
    assert (error.code, error.text) == (StatusCode.FAILED_PRECONDITION, "quorate: raise it")


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (Refused(refuse("NoRoom", "x"), 1), StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"),
        (Refused(refuse("CallFailed", "x"), 1), StatusCode.INTERNAL, "quorate: CallFailed: x"),
        (
            Refused(refuse("EpochsExhausted", "x"), 1),
            StatusCode.FAILED_PRECONDITION,
            "quorate: EpochsExhausted: x",
        ),
        (NotLeader(2), StatusCode.UNAVAILABLE, "etcdserver: no leader"),
        (Unavailable("x"), StatusCode.UNAVAILABLE, "etcdserver: no leader"),
        (Busy("x"), StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests"),
        (UnknownOutcome("x"), StatusCode.UNAVAILABLE, "etcdserver: request timed out"),
        (Answered(Accepted(), 3), StatusCode.UNAVAILABLE, "etcdserver: request timed out"),
    ],
)
def test_every_other_end_has_a_code(outcome: Outcome, code: StatusCode, text: str) -> None:
    """What nobody knows is etcd's time-out, which none of its clients repeats a write for."""
    error = failed(outcome)
    assert (error.code, error.text) == (code, text)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("busy", "too many requests"),
        ("throttled", "too many requests"),
        ("behind", "applied index"),
        ("beyond_end", "future revision"),
        ("unavailable", "no leader"),
    ],
)
def test_a_state_that_cannot_be_had_says_why(reason: str, text: str) -> None:
    """Each in etcd's words."""
    assert text in not_fresh(NotFresh(reason, "m")).text  # type: ignore[arg-type]


def test_a_past_that_cannot_be_had_is_no_missing_leader() -> None:
    """The reason is told, under the code that says to come again."""
    error = not_fresh(NotFresh("unavailable", "the replay takes longer than a question may; ask again", past=True))
    assert (error.code, error.text) == (
        StatusCode.UNAVAILABLE,
        "quorate: the replay takes longer than a question may; ask again",
    )
