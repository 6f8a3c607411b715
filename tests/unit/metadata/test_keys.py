"""Keys: what a request may do, what it answers, and what it leaves, held against plain dictionaries."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.settings import PeerSettings
from quorate.controller import Answered, ControllerSettings, messages
from quorate.controller.routing import OUTCOME_PER_COMMAND
from quorate.errors import InvariantBrokenError
from quorate.events import KeyDeleted, KeyPut, Stamp, ordered_name
from quorate.metadata import commands
from quorate.metadata import keys as rules
from quorate.metadata.commands import (
    THIS_REVISION,
    CompareKeys,
    DeleteKeys,
    GrantLease,
    KeyIsPut,
    KeysAreDeleted,
    LeaseIs,
    PutKey,
    Transact,
    Transacted,
)
from quorate.metadata.keys import ANSWERED_MAX, DELETED_MAX, KEY_BYTES, OPERATIONS_MAX, fault_of, puts_keys
from quorate.model.evolve import evolve, without_keys
from quorate.model.keys import KeysAre, RangeKeys, within
from quorate.model.state import KeyValue
from tests.unit.metadata.kit import ADDRESSES, CREATE, World


def world() -> World:
    """A cluster of level 2."""
    made = World()
    made.do(CREATE)
    made.do(
        commands.RecordNodeStart(
            node_id=1, dir_uuid="u1", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2
        )
    )
    made.do(commands.RaiseFeatureLevel(level=2))
    return made


def found(made: World, key: bytes) -> KeyValue:
    """What is under a key that is there."""
    there = made.state.keys.get(key)
    assert there is not None
    return there


def test_below_its_level_nothing_of_keys_is_done() -> None:
    """A voter of the build before could not read the events."""
    made = World()
    made.do(CREATE)
    assert made.refused(PutKey(key=b"a")).code == "UnsupportedFeatureLevel"


def test_revisions_and_versions() -> None:
    """A key keeps the revision of its creation, takes that of each change, and begins anew after a deletion."""
    made = world()
    first = made.offset
    made.do(PutKey(key=b"a", value=b"1"))
    made.do(PutKey(key=b"a", value=b"2"))
    assert found(made, b"a") == KeyValue(key="a", value=b"2", create_revision=first, mod_revision=first + 1, version=2)
    made.do(DeleteKeys(key=b"a"))
    assert made.state.keys.get(b"a") is None
    made.do(PutKey(key=b"a", value=b"3"))
    assert (found(made, b"a").create_revision, found(made, b"a").version) == (first + 3, 1)


def test_one_transaction_has_one_revision() -> None:
    """That of its last event, whatever it writes."""
    made = world()
    made.do(PutKey(key=b"gone"))
    base = made.offset
    puts = tuple(PutKey(key=bytes((letter,))) for letter in b"abc")
    made.do(Transact(success=(*puts, DeleteKeys(key=b"gone"))))
    assert made.offset == base + 4
    assert {found(made, name).mod_revision for name in (b"a", b"b", b"c")} == {base + 3}
    assert [event.following for event, _ in made.log[base:] if isinstance(event, KeyPut | KeyDeleted)] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("further", "bounds", "names"),
    [
        (-1, ("max_mod_revision", "max_create_revision"), ["old"]),
        (0, ("max_mod_revision", "max_create_revision"), ["new", "old"]),
        (9, ("max_mod_revision", "max_create_revision"), ["new", "old"]),
        (0, ("min_mod_revision", "min_create_revision"), ["new"]),
        (1, ("min_mod_revision", "min_create_revision"), []),
    ],
)
def test_what_a_transaction_put_has_the_next_revision_for_a_bound(
    further: int, bounds: tuple[str, ...], names: list[str]
) -> None:
    """As in etcd: a bound in the future lets it through, and nothing is newer than it."""
    for bound in bounds:
        made = world()
        made.do(PutKey(key=b"old"))
        asked = RangeKeys(key=b"a", range_end=b"z", **{bound: made.offset + further})  # type: ignore[arg-type]
        reply = made.reply(Transact(success=(PutKey(key=b"new"), asked)), Transacted)
        ranged = reply.replies[1]
        assert isinstance(ranged, KeysAre)
        assert [one.key for one in ranged.found] == names


def test_keys_are_any_bytes() -> None:
    """And they are in the order of their bytes, on the tip and in the store."""
    made = world()
    names = [b"\x00", b"\x00\x00", b"%", b"a/b", b"~", b"\x80", b"\xff\xff", "ü".encode()]
    for name in names:
        made.do(PutKey(key=name))
    assert list(made.state.keys) == sorted(names)


def test_previous_values_are_answered_when_asked_for() -> None:
    """And only then."""
    made = world()
    made.do(PutKey(key=b"a", value=b"1"))
    assert made.reply(PutKey(key=b"a", value=b"2"), KeyIsPut).previous is None
    previous = made.reply(PutKey(key=b"a", value=b"3", previous=True), KeyIsPut).previous
    assert previous is not None
    assert previous.value == b"2"
    deleted = made.reply(DeleteKeys(key=b"a", range_end=b"b", previous=True), KeysAreDeleted)
    assert [kv.value for kv in deleted.previous] == [b"3"]
    assert made.reply(DeleteKeys(key=b"a"), KeysAreDeleted) == KeysAreDeleted(deleted=0)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (PutKey(key=b""), "EmptyKey"),
        (DeleteKeys(key=b""), "EmptyKey"),
        (PutKey(key=b"a", value=b"v", keep_value=True), "ValueProvided"),
        (PutKey(key=b"a", lease=1, keep_lease=True), "LeaseProvided"),
        (PutKey(key=b"a", keep_value=True), "KeyNotFound"),
        (PutKey(key=b"a", keep_lease=True), "KeyNotFound"),
        (PutKey(key=b"a", lease=77), "LeaseNotFound"),
        (Transact(success=(RangeKeys(key=b""),)), "EmptyKey"),
        (Transact(compare=(CompareKeys(key=b"", target="version"),)), "EmptyKey"),
        (Transact(success=(PutKey(key=b"a"), PutKey(key=b"a"))), "DuplicateKey"),
        (Transact(success=(PutKey(key=b"b"), DeleteKeys(key=b"a", range_end=b"c"))), "DuplicateKey"),
        (Transact(failure=(DeleteKeys(key=b"a"), Transact(success=(PutKey(key=b"a"),)))), "DuplicateKey"),
        (Transact(success=(PutKey(key=b"a"),) * (OPERATIONS_MAX + 1)), "TooManyOperations"),
    ],
)
def test_what_is_refused(command: Any, code: str) -> None:
    """By name, and nothing changes."""
    assert world().refused(command).code == code


def test_the_fault_of_a_transaction_is_known_without_a_state() -> None:
    """What is wrong with it by itself: a lease that nobody has is not."""
    faults = [
        fault_of(Transact(success=asked))
        for asked in (
            (PutKey(key=b"a", lease=77),),
            (RangeKeys(key=b""),),
            (PutKey(key=b"a"), PutKey(key=b"a")),
            (PutKey(key=b"a"),) * (OPERATIONS_MAX + 1),
        )
    ]
    assert [fault and fault.code for fault in faults] == [None, "EmptyKey", "DuplicateKey", "TooManyOperations"]


def test_two_outcomes_may_write_the_same_key() -> None:
    """Only one of them comes to be."""
    made = world()
    transaction = Transact(
        compare=(CompareKeys(key=b"a", target="version"),),
        success=(PutKey(key=b"a", value=b"new"),),
        failure=(PutKey(key=b"a", value=b"again"),),
    )
    assert made.reply(transaction, Transacted).succeeded
    assert not made.reply(transaction, Transacted).succeeded
    assert found(made, b"a").value == b"again"


def test_transactions_too_deep_or_too_many_are_refused() -> None:
    """The operations within count with those around them."""
    deep: Transact = Transact()
    for _ in range(rules.DEPTH_MAX + 1):
        deep = Transact(success=(deep,))
    assert world().refused(deep).code == "TooManyOperations"
    half = tuple(PutKey(key=bytes((number,))) for number in range(1, 66))
    assert world().refused(Transact(success=(*half[:64], Transact(success=half)))).code == "TooManyOperations"


def test_a_transaction_reads_what_it_wrote() -> None:
    """With the revision that nobody knows yet; and a key it deleted is not there."""
    made = world()
    made.do(PutKey(key=b"b"))
    read = RangeKeys(key=b"a", range_end=b"z")
    reply = made.reply(Transact(success=(PutKey(key=b"a"), DeleteKeys(key=b"b"), read)), Transacted)
    answer = reply.replies[2]
    assert isinstance(answer, KeysAre)
    assert [(kv.key, kv.mod_revision, kv.create_revision) for kv in answer.found] == [
        ("a", THIS_REVISION, THIS_REVISION)
    ]
    assert found(made, b"a").mod_revision == made.offset - 1


def test_comparisons_are_judged_before_anything_is_written() -> None:
    """Those of a transaction within one, too (etcd does so)."""
    made = world()
    inner = Transact(compare=(CompareKeys(key=b"a", target="version", number=1),), success=(PutKey(key=b"inner"),))
    reply = made.reply(Transact(success=(PutKey(key=b"a"), inner)), Transacted)
    assert reply.replies[1] == Transacted(succeeded=False)
    assert b"inner" not in made.state.keys


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        (CompareKeys(key=b"a", target="value", value=b"v"), True),
        (CompareKeys(key=b"a", target="value", result="greater", value=b"u"), True),
        (CompareKeys(key=b"a", target="value", result="less", value=b"u"), False),
        (CompareKeys(key=b"a", target="value", result="not equal", value=b"u"), True),
        (CompareKeys(key=b"none", target="value", result="not equal", value=b"u"), False),
        (CompareKeys(key=b"none", target="mod", number=0), True),
        (CompareKeys(key=b"none", range_end=b"nonf", target="lease", number=1), False),
        (CompareKeys(key=b"a", range_end=b"c", target="version", number=1), False),
        (CompareKeys(key=b"a", range_end=b"c", target="version", result="less", number=3), True),
        (CompareKeys(key=b"a", target="create", result="greater", number=0), True),
        (CompareKeys(key=b"a", target="mod", result="greater", number=0), True),
        (CompareKeys(key=b"a", target="lease", number=9), True),
    ],
)
def test_comparisons(comparison: CompareKeys, holds: bool) -> None:
    """Each target and result; of a range all keys; of what is not there numbers are 0, and no value holds."""
    made = world()
    made.do(GrantLease(lease=9, ttl_s=10))
    made.do(PutKey(key=b"a", value=b"v", lease=9))
    for _ in range(2):
        made.do(PutKey(key=b"b", value=b"w"))
    assert made.reply(Transact(compare=(comparison,)), Transacted).succeeded is holds


def test_a_transaction_that_only_reads_writes_nothing() -> None:
    """It has no event, and no revision of its own."""
    made = world()
    assert made.events(Transact(success=(RangeKeys(key=b"a"),))) == ()
    assert not puts_keys(Transact(success=(RangeKeys(key=b"a"), DeleteKeys(key=b"a"))))
    assert puts_keys(Transact(failure=(Transact(success=(PutKey(key=b"a"),)),)))


def test_keep_value_and_keep_lease_change_one_and_leave_the_other() -> None:
    """As etcd's ``ignore_value`` and ``ignore_lease``."""
    made = world()
    made.reply(GrantLease(lease=5, ttl_s=10), LeaseIs)
    made.do(PutKey(key=b"a", value=b"v"))
    made.do(PutKey(key=b"a", lease=5, keep_value=True))
    assert (found(made, b"a").value, found(made, b"a").lease) == (b"v", 5)
    made.do(Transact(success=(PutKey(key=b"a", value=b"w", keep_lease=True),)))
    assert (found(made, b"a").value, found(made, b"a").lease) == (b"w", 5)
    made.do(PutKey(key=b"a", value=b"x"))
    assert found(made, b"a").lease == 0
    assert not made.state.attached


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 5, 6])), max_size=60),
    st.sets(st.integers(0, 40)),
)
def test_deletions_that_follow_each_other_leave_what_they_leave_one_by_one(
    puts: list[tuple[int, int]], deleted: set[int]
) -> None:
    """Keys, leases and the bytes of their names; a key that is not there is no decision's either way."""
    made = world()
    for lease in (5, 6):
        made.reply(GrantLease(lease=lease, ttl_s=10), LeaseIs)
    for number, lease in puts:
        made.do(PutKey(key=b"\xff%d" % number, lease=lease))
    there = [b"\xff%d" % number for number in sorted(deleted) if b"\xff%d" % number in made.state.keys]
    events = [KeyDeleted(key=ordered_name(name), lease=found(made, name).lease, following=0) for name in there]
    alone = made.state
    for event in events:
        alone = evolve(alone, event, Stamp(offset=99, term=1, time_ms=1))
    assert without_keys(made.state, events) == alone
    missing = KeyDeleted(key="z", lease=0, following=0)
    with pytest.raises(InvariantBrokenError):
        without_keys(made.state, [*events, missing])


@pytest.mark.parametrize("within", [False, True])
def test_a_request_that_keeps_more_values_than_an_entry_holds_is_refused_as_it_is_decided(*, within: bool) -> None:
    """It is short itself; whatever it keeps would be encoded first, and be too long then. As much as fits is kept."""
    made = world()
    names = [b"%d" % number for number in range(5)]
    for name in names:
        made.do(PutKey(key=name, value=b"v" * (1 << 20)))
    puts = tuple(PutKey(key=name, keep_value=True) for name in names)
    asked = (Transact(success=puts[:1]), Transact(success=puts[1:])) if within else puts
    assert made.refused(Transact(success=asked)).code == "CommandTooLarge"
    assert len(made.events(Transact(success=puts[:3]))) == 3


def test_a_put_looks_for_its_lease_before_its_key_and_a_transaction_does_not() -> None:
    """Which of two errors is told, as by etcd."""
    put = PutKey(key=b"a", lease=5, keep_value=True)
    assert world().refused(put).code == "LeaseNotFound"
    assert world().refused(Transact(success=(put,))).code == "KeyNotFound"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"limit": 1, "sort_by": "version", "order": "descending"},
        {"limit": 1, "order": "ascending"},
        {"limit": 1, "min_mod_revision": 1},
        {"keys_only": True},
    ],
)
def test_the_ranges_of_a_transaction_look_at_a_bounded_number_of_keys(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """All of them together, whatever they let through; more are refused, and nothing is written."""
    monkeypatch.setattr("quorate.metadata.keys.READ_MAX", 10)
    made = world()
    for number in range(5):
        made.do(PutKey(key=b"%d" % number))
    ranges = (RangeKeys(key=b"0", range_end=b"\x00", **asked),) * 2
    assert made.reply(Transact(success=ranges), Transacted).succeeded
    more = Transact(success=(PutKey(key=b"x"), *ranges))
    assert made.refused(more).code == "TooManyKeys"


def test_what_takes_no_look_is_not_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a range, and how many there are."""
    monkeypatch.setattr("quorate.metadata.keys.READ_MAX", 2)
    made = world()
    for number in range(5):
        made.do(PutKey(key=b"%d" % number))
    ranges = [RangeKeys(key=b"0", range_end=b"\x00", **more) for more in ({"limit": 1}, {"count_only": True})]
    first, counted = made.reply(Transact(success=tuple(ranges)), Transacted).replies
    assert isinstance(first, KeysAre)
    assert isinstance(counted, KeysAre)
    assert (len(first.found), first.more, counted.count) == (1, True, 5)


def test_the_comparisons_of_a_transaction_look_at_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a range each key is compared: so many comparisons of all keys would stop a leader for seconds."""
    monkeypatch.setattr("quorate.metadata.keys.READ_MAX", 10)
    made = world()
    for number in range(5):
        made.do(PutKey(key=b"%d" % number))
    everything = CompareKeys(key=b"0", range_end=b"\x00", target="version", result="greater")
    assert made.reply(Transact(compare=(everything, everything)), Transacted).succeeded
    assert made.refused(Transact(compare=(everything,) * 3)).code == "TooManyKeys"


@pytest.mark.parametrize(
    "asked",
    [
        Transact(success=(RangeKeys(key=b"0", range_end=b"\x00"),)),
        Transact(success=(RangeKeys(key=b"0", range_end=b"\x00", keys_only=True),) * 30),
        Transact(success=(PutKey(key=b"new"), *(PutKey(key=b"%d" % number, previous=True) for number in range(7)))),
        DeleteKeys(key=b"0", range_end=b"\x00", previous=True),
    ],
)
def test_a_write_is_answered_with_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    """Keys it reads, and what was before: the answer to a node that asked for its client is one frame of the link that
    consensus is on. More are refused, and nothing is written.
    """
    monkeypatch.setattr("quorate.metadata.keys.ANSWERED_MAX", 20_000)
    made = world()
    for number in range(7):
        made.do(PutKey(key=b"%d" % number, value=b"x" * 3_000))
    before = made.state
    assert made.refused(asked).code == "TooManyKeys"
    assert made.state is before
    made.do(DeleteKeys(key=b"0", range_end=b"2", previous=True))
    assert made.reply(Transact(success=(RangeKeys(key=b"0", range_end=b"\x00"),)), Transacted).succeeded


def test_what_an_answer_is_said_to_take_is_no_less_than_it_takes() -> None:
    """In a frame of the link, whatever the keys are called."""
    most = 2**62
    longest = KeyValue(
        key=ordered_name(b"\xff" * 40), value=b"v", create_revision=most, mod_revision=most, version=most, lease=most
    )
    found = (longest,) * 1_000
    reply = Transacted(succeeded=True, replies=(KeysAre(found=found, count=1_000),))
    taken = len(messages.encode(messages.CommandOutcome(1, Answered(reply, 5))))
    assert taken <= sum(KEY_BYTES + len(one.key) + len(one.value) for one in found)
    assert ANSWERED_MAX < OUTCOME_PER_COMMAND * ControllerSettings().command_bytes_max < PeerSettings().frame_bytes_max


def test_one_request_deletes_a_bounded_number_of_keys() -> None:
    """More are refused, and none of them is gone."""
    made = world()
    for number in range(DELETED_MAX + 1):
        made.do(PutKey(key=b"%05d" % number))
    assert made.refused(DeleteKeys(key=b"0", range_end=b"\x00")).code == "TooManyKeys"
    assert made.reply(DeleteKeys(key=b"00001", range_end=b"\x00"), KeysAreDeleted).deleted == DELETED_MAX


NAMES = st.sampled_from([b"a", b"b", b"b\x00", b"c", b"\xff"])
ENDS = st.sampled_from([b"", b"\x00", b"b", b"c"])
OPERATIONS = st.one_of(
    st.builds(PutKey, key=NAMES, value=st.binary(max_size=2)), st.builds(DeleteKeys, key=NAMES, range_end=ENDS)
)


def inside(name: bytes, key: bytes, range_end: bytes) -> bool:
    """By the words of etcd's API."""
    if not range_end:
        return name == key
    return name >= key and (range_end == b"\x00" or name < range_end)


@given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=3), max_size=20), NAMES, ENDS)
def test_keys_are_as_plain_dictionaries_say(
    entries: list[list[PutKey | DeleteKeys]], key: bytes, range_end: bytes
) -> None:
    """Each entry done by hand on a dictionary leaves the same keys, values, revisions and versions."""
    made, plain = world(), dict[bytes, tuple[bytes, int, int, int]]()
    for operations in entries:
        before = made.offset
        outcome = made.do(Transact(success=tuple(operations)))
        if isinstance(outcome, commands.Refusal):
            assert outcome.code == "DuplicateKey"
            continue
        revision = before + len(outcome.events) - 1
        for operation in operations:
            if isinstance(operation, PutKey):
                _, created, _, version = plain.get(operation.key, (b"", revision, 0, 0))
                plain[operation.key] = (operation.value, created, revision, version + 1)
            else:
                for name in [name for name in plain if inside(name, operation.key, operation.range_end)]:
                    del plain[name]
    answer = within(made.state.keys, RangeKeys(key=key, range_end=range_end))
    told = [(kv.value, kv.create_revision, kv.mod_revision, kv.version) for kv in answer.found]
    assert told == [plain[name] for name in sorted(plain) if inside(name, key, range_end)]
    assert answer.count == len(told)
