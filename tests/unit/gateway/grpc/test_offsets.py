"""Offsets on a real controller: what is committed, compared, fetched and deleted, and what is refused by name."""

from typing import Any

import pytest

from quorate.gateway.grpc.codes import StatusCode
from quorate.gateway.grpc.offsets import PAGE_MAX, PREFIX, OffsetsService
from quorate.gateway.grpc.pb import offsets_pb2 as pb
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.metadata.commands import PutKey
from tests.unit.gateway.grpc.house import Caller, House

LAST = 2**63 - 1


class Offsets:
    """The service of a house, called as if it were not a coroutine."""

    def __init__(self, *, level: int = 2) -> None:
        self.house = House(level=level, settings=GrpcSettings(keys_per_turn=2))
        self.service = OffsetsService(self.house.asking)

    def ask(self, name: str, request: Any) -> Any:
        return self.house.run(getattr(self.service, name)(request, self.house.call))

    def refused(self, name: str, request: Any) -> tuple[StatusCode, str]:
        """How it fails; nothing of it is done."""
        before = self.house.revision
        told = self.house.refused(getattr(self.service, name)(request, self.house.call))
        assert self.house.revision == before
        return told

    def commit(self, group: str = "g", shard: str = "s", offset: int = 1, **more: int) -> int:
        revision: int = self.ask("commit", commit(group, shard, offset, **more)).revision
        return revision

    def fetch(self, group: str = "g", *shards: str, **more: Any) -> list[tuple[str, int]]:
        found = self.ask("fetch", pb.FetchOffsetsRequest(group=group, shards=shards, **more))
        return [(one.shard, one.offset) for one in found.positions]

    def put(self, key: bytes, value: bytes) -> None:
        self.house.bench.done(PutKey(key=PREFIX + key, value=value))


def commit(group: str = "g", shard: str = "s", offset: int = 1, **more: int) -> pb.CommitOffsetsRequest:
    return pb.CommitOffsetsRequest(group=group, positions=[pb.CommitOffset(shard=shard, offset=offset, **more)])


def test_a_position_is_a_key_with_the_offset_in_digits() -> None:
    """Its revision is the commit's, so etcd's Watch, Txn and Range know it as they know any key."""
    offsets = Offsets()
    revision = offsets.commit("billing", "orders/0", 17)
    key = offsets.house.bench.controller.state.keys.get(b"quorate.offsets/billing/orders/0")
    assert key is not None
    assert (key.value, key.mod_revision) == (b"17", revision)
    answer = offsets.ask("fetch", pb.FetchOffsetsRequest(group="billing"))
    (one,) = answer.positions
    assert (one.shard, one.offset, one.revision, answer.revision) == ("orders/0", 17, revision, revision)


def test_a_commit_that_expects_another_offset_or_revision_is_refused_and_told_where_it_is() -> None:
    """Both ways of asking hold for a position that is there and for one that is not."""
    offsets = Offsets()
    assert offsets.refused("commit", commit(offset=1, expected_offset=0)) == (
        StatusCode.FAILED_PRECONDITION,
        "quorate: StaleOffset: g is nowhere in s, not at offset 0",
    )
    first = offsets.commit(offset=5, expected_revision=0)
    second = offsets.commit(offset=7, expected_offset=5)
    assert second > first
    for wrong, what in (
        (commit(offset=9, expected_offset=5), "offset 5"),
        (commit(offset=9, expected_revision=first), f"revision {first}"),
    ):
        told = f"quorate: StaleOffset: g is at offset 7, revision {second} in s, not at {what}"
        assert offsets.refused("commit", wrong) == (StatusCode.FAILED_PRECONDITION, told)
    assert "not at revision 0" in offsets.refused("commit", commit(offset=9, expected_revision=0))[1]
    assert offsets.commit(offset=LAST, expected_revision=second) > second
    assert offsets.commit(offset=0) > second
    assert offsets.fetch() == [("s", 0)]


def test_a_commit_that_is_told_again_is_refused_with_its_own_offset() -> None:
    """So whoever lost an answer asks again, and knows."""
    offsets = Offsets()
    offsets.commit(offset=5)
    again = commit(offset=6, expected_offset=5)
    offsets.ask("commit", again)
    assert "StaleOffset: g is at offset 6" in offsets.refused("commit", again)[1]


def test_a_commit_of_many_is_done_whole_or_not_at_all() -> None:
    """The first that is not as expected is named; those without an expectation wait for the others too."""
    offsets = Offsets()
    offsets.commit(shard="b", offset=2)
    many = [
        pb.CommitOffset(shard="a", offset=1),
        pb.CommitOffset(shard="b", offset=3, expected_offset=2),
        pb.CommitOffset(shard="c", offset=4, expected_offset=9),
    ]
    assert "nowhere in c" in offsets.refused("commit", pb.CommitOffsetsRequest(group="g", positions=many))[1]
    assert offsets.fetch() == [("b", 2)]
    revision = offsets.ask("commit", pb.CommitOffsetsRequest(group="g", positions=many[:2])).revision
    found = offsets.ask("fetch", pb.FetchOffsetsRequest(group="g")).positions
    assert [(one.shard, one.offset, one.revision) for one in found] == [("a", 1, revision), ("b", 3, revision)]


def test_positions_are_fetched_by_name_by_page_and_as_they_were() -> None:
    """A group's are its own, whatever another one is called; what has no position is left out."""
    offsets = Offsets()
    revisions = [offsets.commit("g", shard, number) for number, shard in enumerate("abcde")]
    offsets.commit("g2", "a", 9)
    offsets.commit("g-", "a", 9)
    assert offsets.fetch("g", "e", "none", "a") == [("e", 4), ("a", 0)]
    assert offsets.fetch("g", revision=revisions[1]) == [("a", 0), ("b", 1)]
    assert offsets.fetch("nobody", stale=True) == []
    pages, after, more = list[list[str]](), "", True
    while more:
        page = offsets.ask("fetch", pb.FetchOffsetsRequest(group="g", after=after, limit=2))
        pages.append([one.shard for one in page.positions])
        after, more = page.positions[-1].shard, page.more
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


def test_groups_are_listed_by_page() -> None:
    """Each once, with how many it has, in the order of their keys."""
    offsets = Offsets()
    for group in ("b", "a", "a-", "Ü"):
        for shard in ("1", "2/x") if group == "a" else ("1",):
            offsets.commit(group, shard)
    pages, after, more = list[list[tuple[str, int]]](), "", True
    while more:
        page = offsets.ask("groups", pb.ListGroupsRequest(after=after, limit=3, stale=bool(after)))
        pages.append([(one.group, one.keys) for one in page.groups])
        after, more = page.groups[-1].group, page.more
    assert pages == [[("a-", 1), ("a", 2), ("b", 1)], [("Ü", 1)]]


def test_groups_are_listed_as_they_were() -> None:
    """At a revision, though all of them are gone; a page tells the revision that is now, as Fetch does."""
    offsets = Offsets()
    offsets.commit("a")
    then = offsets.commit("b")
    for group in "ab":
        offsets.ask("delete", pb.DeleteOffsetsRequest(group=group, all=True))
    found = offsets.ask("groups", pb.ListGroupsRequest(revision=then))
    assert [(one.group, one.keys) for one in found.groups] == [("a", 1), ("b", 1)]
    assert found.revision == offsets.house.revision
    assert not offsets.ask("groups", pb.ListGroupsRequest()).groups
    assert offsets.refused("groups", pb.ListGroupsRequest(revision=999))[0] is StatusCode.OUT_OF_RANGE


def test_a_shard_or_a_group_is_deleted() -> None:
    """How many were is told; of none, nothing is written."""
    offsets = Offsets()
    for shard in "abc":
        offsets.commit("g", shard)
    offsets.commit("g0", "a")
    assert offsets.ask("delete", pb.DeleteOffsetsRequest(group="g", shards=["a", "none"])).deleted == 1
    assert offsets.fetch() == [("b", 1), ("c", 1)]
    assert offsets.ask("delete", pb.DeleteOffsetsRequest(group="g", all=True)).deleted == 2
    before = offsets.house.revision
    answer = offsets.ask("delete", pb.DeleteOffsetsRequest(group="g", all=True))
    assert (answer.deleted, answer.revision, offsets.house.revision) == (0, before, before)
    assert offsets.fetch("g0") == [("a", 1)]


def test_keys_of_others_below_the_prefix_are_no_positions() -> None:
    """They are left out, and end nobody's commit; one that expects something of them is told that it is not so."""
    offsets = Offsets()
    for value in (b"", b"x", b"05", b"-1", str(LAST + 1).encode(), b"9" * 40):
        offsets.put(b"g/s", value)
        assert offsets.fetch() == []
    assert "at offset unknown" in offsets.refused("commit", commit(expected_offset=5))[1]
    for key in (b"g/\xff", b"g/", b"g/\x07", b"\xff/s", b"/s", b"alone", b"alone2"):
        offsets.put(key, b"1")
    assert offsets.fetch() == []
    assert [one.group for one in offsets.ask("groups", pb.ListGroupsRequest()).groups] == ["g"]
    offsets.commit(offset=2)
    assert offsets.fetch() == [("s", 2)]


@pytest.mark.parametrize("name", ["commit", "fetch", "delete"])
@pytest.mark.parametrize("group", ["", "a/b", "a\n", "x" * 256])
def test_a_name_that_no_group_can_have_is_refused(name: str, group: str) -> None:
    """Before anything else is looked at."""
    requests = {"commit": pb.CommitOffsetsRequest, "fetch": pb.FetchOffsetsRequest, "delete": pb.DeleteOffsetsRequest}
    code, text = Offsets().refused(name, requests[name](group=group))
    assert (code, text.split(": ")[1]) == (StatusCode.INVALID_ARGUMENT, "BadGroup")


@pytest.mark.parametrize(
    ("name", "request_", "told"),
    [
        ("commit", pb.CommitOffsetsRequest(group="g"), "quorate: BadOffset"),
        ("commit", commit(offset=-1), "quorate: BadOffset"),
        ("commit", commit(shard=""), "quorate: BadShardName"),
        ("commit", commit(shard="a\x00"), "quorate: BadShardName"),
        (
            "commit",
            pb.CommitOffsetsRequest(group="g", positions=[pb.CommitOffset(shard="s")] * 2),
            "etcdserver: duplicate key",
        ),
        (
            "commit",
            pb.CommitOffsetsRequest(group="g", positions=[pb.CommitOffset(shard=str(n)) for n in range(129)]),
            "etcdserver: too many operations",
        ),
        ("fetch", pb.FetchOffsetsRequest(group="g", shards=["x" * 256]), "quorate: BadShardName"),
        ("fetch", pb.FetchOffsetsRequest(group="g", shards=["x"] * (PAGE_MAX + 1)), "quorate: at most 1000 shards"),
        ("fetch", pb.FetchOffsetsRequest(group="g", limit=-1), "quorate: a limit"),
        ("groups", pb.ListGroupsRequest(limit=-1), "quorate: a limit"),
        ("groups", pb.ListGroupsRequest(after="a/b"), "quorate: BadGroup"),
        ("delete", pb.DeleteOffsetsRequest(group="g"), "quorate: BadShardName"),
        ("delete", pb.DeleteOffsetsRequest(group="g", shards=["s"], all=True), "quorate: BadShardName"),
        ("delete", pb.DeleteOffsetsRequest(group="g", shards=[""]), "quorate: BadShardName"),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_name(name: str, request_: Any, told: str) -> None:
    """And nothing is written."""
    code, text = Offsets().refused(name, request_)
    assert (code, text[: len(told)]) == (StatusCode.INVALID_ARGUMENT, told)


def test_a_revision_of_the_future_is_refused() -> None:
    """As of any key."""
    assert Offsets().refused("fetch", pb.FetchOffsetsRequest(group="g", revision=999))[0] is StatusCode.OUT_OF_RANGE


def test_nothing_is_kept_below_feature_level_2() -> None:
    """It is a key, and refused as one."""
    code, text = Offsets(level=1).refused("commit", commit())
    assert (code, "feature" in text) == (StatusCode.FAILED_PRECONDITION, True)


RIGHT: dict[str, Any] = {
    "commit": commit(),
    "fetch": pb.FetchOffsetsRequest(group="g"),
    "groups": pb.ListGroupsRequest(),
    "delete": pb.DeleteOffsetsRequest(group="g", all=True),
}


@pytest.mark.parametrize("name", RIGHT)
def test_whoever_may_not_is_refused(name: str) -> None:
    """Each of them asks first."""
    offsets = Offsets()
    offsets.house.may = False
    assert offsets.refused(name, RIGHT[name])[0] is StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("name", RIGHT)
def test_a_call_that_comes_too_late_is_not_begun(name: str) -> None:
    """Its deadline has passed: it is told so, and nothing is decided."""
    offsets = Offsets()
    offsets.house.call = Caller(left_s=0.0)
    assert offsets.refused(name, RIGHT[name])[0] is StatusCode.DEADLINE_EXCEEDED
