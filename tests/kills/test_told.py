"""What services were told is compared with what there is: each comparison fails when either side is another one."""

from collections.abc import Callable

import pytest

from quorate.gateway.grpc.pb import journal_pb2, mqtt_pb2
from tests.kills.cluster import LostError
from tests.kills.ledger import Ledger
from tests.kills.services import Told
from tests.kills.test_services import LEAST, enough, holds_in, segments_hold, sessions_hold


def of_log() -> tuple[Ledger, Told]:
    """A ledger, and what fits it."""
    ledger, told = Ledger(), Told()
    for each in (ledger, told):
        each.keys = {b"k": b"1"}
        each.given = {7: ("s/0", "m")}
        each.sets = {("s/0", 1, frozenset("m"))}
        each.ends = {(6, "s/0"): 10}
        each.copies = {(6, "s/0", "m")}
    told.keys[b"gone"] = None
    told.beats = {1: 1.0}
    ledger.ended_ms = {1: 3000}
    told.deletions = ledger.gone = {("s", 6)}
    return ledger, told


@pytest.mark.parametrize(
    "hurt",
    [
        lambda ledger: ledger.keys.clear(),
        lambda ledger: ledger.keys.update({b"gone": b"1"}),
        lambda ledger: ledger.given.update({7: ("s/0", "n")}),
        lambda ledger: ledger.sets.clear(),
        lambda ledger: ledger.ends.update({(6, "s/0"): 9}),
        lambda ledger: ledger.ends.clear(),
        lambda ledger: ledger.copies.clear(),
        lambda ledger: setattr(ledger, "gone", set()),
        lambda ledger: ledger.deleting.update(s=6),
        lambda ledger: ledger.leases.add(1),
        lambda ledger: ledger.ended_ms.update({1: 2900}),
        lambda ledger: ledger.ended_ms.clear(),
    ],
)
def test_a_log_that_says_something_else_is_found(hurt: Callable[[Ledger], None]) -> None:
    """As it was told it holds; with any of it lost or otherwise it does not."""
    ledger, told = of_log()
    holds_in(ledger, told)
    hurt(ledger)
    with pytest.raises(AssertionError):
        holds_in(ledger, told)


def session(*filters: str, client: str = "c", epoch: int = 5) -> mqtt_pb2.Session:
    """As a node answers it."""
    subscriptions = [mqtt_pb2.Subscription(filter=one, qos=1) for one in filters]
    return mqtt_pb2.Session(client=client, session_epoch=epoch, member="m", subscriptions=subscriptions)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [session()],
        [session("a", "b")],
        [session("b")],
        [session("a", epoch=6)],
        [session("a"), session(client="b")],
    ],
)
def test_a_session_without_what_was_subscribed_is_found(found: list[mqtt_pb2.Session]) -> None:
    """None may be lost, come back, or be of another opening; one that is to be gone is not there."""
    told = Told(sessions={"c": (5, "m")}, subscriptions={"c": {"a"}}, brief={"b"})
    sessions_hold(told, [session("a")])
    with pytest.raises(AssertionError):
        sessions_hold(told, found)


def test_of_a_client_only_what_is_unknown_may_be_either() -> None:
    """The filter that nobody knows of is there or not; the others are as they were told."""
    told = Told(subscriptions={"c": {"a"}}, unsure={"c": {"b"}})
    sessions_hold(told, [session("a")])
    sessions_hold(told, [session("a", "b", epoch=9)])
    for found in (session("b"), session("a", "d")):
        with pytest.raises(AssertionError):
            sessions_hold(told, [found])


def test_a_segment_that_ends_elsewhere_is_found() -> None:
    """Or not at all; a shard of another epoch is another shard."""

    def shard(epoch: int, end: int, *, sealed: bool = True) -> list[journal_pb2.DescribeShardResponse]:
        segment = journal_pb2.Segment(name="s/0", sealed=sealed, end_offset=end)
        return [journal_pb2.DescribeShardResponse(shard=journal_pb2.Shard(epoch=epoch), segments=[segment])]

    told = Told(ends={(6, "s/0"): 10})
    for right in (shard(6, 10), shard(8, 20)):
        segments_hold(told, right)
    for wrong in (shard(6, 9), shard(6, 10, sealed=False)):
        with pytest.raises(AssertionError):
            segments_hold(told, wrong)


def test_two_answers_that_name_two_leaders_in_one_epoch_are_found() -> None:
    """Whichever of them the log has."""
    told = Told()
    for _ in range(2):
        told.gives(7, "s/0", "m")
    with pytest.raises(LostError, match="epoch 7"):
        told.gives(7, "s/0", "n")


@pytest.mark.parametrize("short", [*LEAST, "doubtful keys", "doubtful sessions"])
def test_a_campaign_that_did_too_little_is_no_campaign(short: str) -> None:
    """Too little of anything that is to be done, or too much of which nobody knows what came of it."""
    counts = dict(LEAST) | {"doubtful keys": 1, "doubtful sessions": 1}
    enough(counts, LEAST)
    counts[short] = 1_000_000 if short.startswith("doubtful") else LEAST[short] - 1
    with pytest.raises(AssertionError):
        enough(counts, LEAST)
