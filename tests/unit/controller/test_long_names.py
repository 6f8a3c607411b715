"""What a request may ask fits an entry, whatever its keys are called, and a lease can always end."""

from collections.abc import Iterator

import pytest

from quorate.consensus.journal.frames import FRAMES_AT, frame_bytes
from quorate.consensus.ports import MAX_ENTRY_BYTES, Index, Term
from quorate.consensus.settings import EngineSettings, PeerSettings
from quorate.consensus.storage_settings import JournalSettings
from quorate.consensus.transport import codec
from quorate.controller import Answered, Refused
from quorate.controller.settings import COMMAND_BYTES_MAX
from quorate.events import codec as names_of
from quorate.events import ordered_name
from quorate.metadata.commands import (
    Command,
    DeleteKeys,
    GrantLease,
    KeysAreDeleted,
    PutKey,
    RevokeLease,
    Transact,
)
from quorate.metadata.keys import DELETED_BYTES_MAX, LEASE_KEYS_MAX, OPERATIONS_MAX
from quorate.model import rows
from quorate_projections.mirror.settings import MirrorSettings
from tests.unit.controller.bench import Bench
from tests.unit.controller.test_certainty import topic
from tests.unit.controller.test_lease_keeper import ends, keeping, passing

LEASE = 7


def names(count: int, rest: bytes) -> list[bytes]:
    """So many, each with the same end."""
    return [b"%04d" % number + rest for number in range(count)]


LONG = {
    "500 bytes": names(2_500, b"k" * 500),
    "no text": names(1_500, b"\xe9" * 100),
    "as many as there may be": names(LEASE_KEYS_MAX, b"k" * (DELETED_BYTES_MAX // LEASE_KEYS_MAX - 4)),
    "as long as there may be": names(4, b"k" * (DELETED_BYTES_MAX // 4 - 4)),
}


def attach(bench: Bench, found: list[bytes]) -> None:
    """All of them under the lease."""
    parts: Iterator[list[bytes]] = (found[at : at + OPERATIONS_MAX] for at in range(0, len(found), OPERATIONS_MAX))
    for part in parts:
        outcome = bench.done(Transact(success=tuple(PutKey(key=name, lease=LEASE) for name in part)))
        assert isinstance(outcome, Answered), outcome


@pytest.mark.parametrize("kind", LONG)
def test_a_lease_whose_keys_have_long_names_ends(kind: str) -> None:
    """When it expires, and when it is revoked: all of its keys are gone, in one entry that every node takes."""
    bench = keeping()
    for end in "expired", "revoked":
        bench.done(GrantLease(lease=LEASE, ttl_s=2 if end == "expired" else 600))
        attach(bench, LONG[kind])
        if end == "expired":
            passing(bench, 3)
        else:
            assert isinstance(bench.done(RevokeLease(lease=LEASE)), Answered)
        assert ends(bench)[-1].reason == end
        assert ends(bench)[-1].keys == len(LONG[kind])
        assert not bench.machine.state.keys


@pytest.mark.parametrize(
    "command",
    [
        PutKey(key=b"k" * 350_000, value=b"v" * 400_000),
        PutKey(key=b"k" * (COMMAND_BYTES_MAX - 100)),
        PutKey(key=b"\xff" * 200_000),
        PutKey(key=b"\xff" * 600_000),
        Transact(success=tuple(PutKey(key=name) for name in names(100, b"k" * 6_000))),
    ],
    ids=["key and value", "the longest key", "no text", "much that is no text", "many"],
)
def test_what_a_request_may_ask_can_be_written(command: Command) -> None:
    """A name stands in its record twice, and what is no text is three times as long there."""
    bench = keeping()
    assert isinstance(bench.done(command), Answered)


def test_a_key_can_be_deleted_whatever_its_name_and_many_up_to_a_bound() -> None:
    """Two of 300 KB go at once, and one whose name alone is beyond the bound; what is beyond it together is refused by
    its name, within a transaction too, and stays.
    """
    bench = keeping()
    alone = b"\xff" * 500_000
    assert len(ordered_name(alone)) > DELETED_BYTES_MAX
    for key in b"a" + b"k" * 300_000, b"b" + b"k" * 300_000, alone, b"c" + b"k" * 800_000:
        assert isinstance(bench.done(PutKey(key=key)), Answered)
    many = DeleteKeys(key=b"\x00", range_end=b"\x00")
    apart = Transact(success=(DeleteKeys(key=b"a", range_end=b"c"), DeleteKeys(key=b"c", range_end=b"d")))
    for command in many, apart:
        outcome = bench.done(command)
        assert isinstance(outcome, Refused)
        assert outcome.refusal.code == "TooManyKeys"
        assert "names of all keys" in outcome.refusal.remark
    for command, deleted in (DeleteKeys(key=b"a", range_end=b"c"), 2), (DeleteKeys(key=alone), 1):
        outcome = bench.done(command)
        assert isinstance(outcome, Answered)
        assert outcome.reply == KeysAreDeleted(deleted=deleted)


def test_of_long_names_nothing_is_kept_once_their_keys_are_gone() -> None:
    """What is kept by number is kept of short names alone: else so many long ones would fill a node that holds none."""
    bench, kept = keeping(), (names_of._kept_key, rows._kept_place)
    for rest, expected in (b"of short names", 20), (b"k" * 100_000, 0):
        for cache in kept:
            cache.cache_clear()
        for key in names(20, rest):
            for command in PutKey(key=key), DeleteKeys(key=key):
                assert isinstance(bench.done(command), Answered)
        assert [cache.cache_info().currsize for cache in kept] == [expected, expected]
    assert len(bench.machine.sums._kept) > 20
    assert max(map(len, bench.machine.sums._kept)) <= names_of.KEPT_NAME_MAX
    assert not bench.machine.state.keys


def test_an_end_that_is_refused_is_tried_again_ever_later() -> None:
    """It may cost much, and the loop is there for others; once it can be, it is."""
    bench = keeping()
    bench.done(GrantLease(lease=LEASE, ttl_s=1))
    bench.done(PutKey(key=b"a", lease=LEASE))
    tried = 0
    propose = bench.engine.propose

    def counting(entry: bytes, term: Term) -> Index | None:
        nonlocal tried
        tried += 1
        return propose(entry, term)

    bench.engine.propose = counting  # type: ignore[method-assign]
    bench.engine.entry_bytes_max = 10
    passing(bench, 120)
    assert 3 <= tried <= 12
    assert b"a" in bench.machine.state.keys
    bench.engine.entry_bytes_max = MAX_ENTRY_BYTES
    passing(bench, 31)
    assert [end.keys for end in ends(bench)] == [1]


def test_what_nodes_of_before_write_too_stays_as_short() -> None:
    """A node that knows feature level 1 alone would not apply a longer entry; what came with 2 may write more."""
    bench = keeping(command_bytes_max=300, group_entry_bytes_max=100)
    outcome = bench.done(topic("x" * 100))
    assert isinstance(outcome, Refused)
    assert (outcome.refusal.code, "the limit of 300" in outcome.refusal.remark) == ("CommandTooLarge", True)
    assert isinstance(bench.done(PutKey(key=b"k" * 300)), Answered)


def test_the_longest_entry_goes_wherever_entries_go() -> None:
    """Into a segment of the journal, to a follower in one frame, and as one record through the mirror."""
    journal, engine = JournalSettings(), EngineSettings()
    assert FRAMES_AT + frame_bytes(MAX_ENTRY_BYTES) <= journal.segment_bytes
    assert min(journal.max_entry_bytes, engine.max_entry_bytes, codec.ENTRY_BYTES_MAX) >= MAX_ENTRY_BYTES
    entry = (Index(2), Term(1), bytes(MAX_ENTRY_BYTES))
    sent = codec.AppendEntries(Term(1), 1, Index(1), Term(1), Index(1), (entry,))
    frame = codec.encode(sent)
    assert len(frame) + engine.append_bytes < PeerSettings().frame_bytes_max
    assert codec.decode(frame) == sent
    assert MirrorSettings().message_bytes_max > MAX_ENTRY_BYTES
