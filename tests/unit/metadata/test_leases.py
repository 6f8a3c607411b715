"""Leases: they begin, are kept, and end with their keys."""

from quorate.events import KeyDeleted, LeaseCheckpointed, LeaseEnded
from quorate.metadata.commands import (
    AskLease,
    CheckpointLeases,
    DeleteKeys,
    ExpireLease,
    GrantLease,
    KeepLease,
    LeaseIs,
    PutKey,
    RevokeLease,
    Transact,
)
from quorate.metadata.keys import DELETED_BYTES_MAX, LEASE_KEYS_MAX
from quorate.metadata.leases import TTL_MAX_S
from tests.unit.metadata.test_keys import world


def test_a_lease_is_granted_once() -> None:
    """Its time is at least a second, and at most what etcd allows; the number 0 is none."""
    made = world()
    assert made.reply(GrantLease(lease=3, ttl_s=-1), LeaseIs) == LeaseIs(lease=3, ttl_s=1)
    assert made.refused(GrantLease(lease=3, ttl_s=9)).code == "LeaseExists"
    assert made.refused(GrantLease(lease=4, ttl_s=TTL_MAX_S + 1)).code == "LeaseTtlTooLarge"
    assert made.refused(GrantLease(lease=0, ttl_s=9)).code == "LeaseNotFound"


def test_a_lease_ends_with_its_keys_in_one_decision() -> None:
    """In the order of their names; what left it before stays; all have the revision of its end."""
    made = world()
    made.do(GrantLease(lease=-3, ttl_s=9))
    for name in (b"b", b"a", b"left", b"gone"):
        made.do(PutKey(key=name, lease=-3))
    made.do(PutKey(key=b"left"))
    made.do(DeleteKeys(key=b"gone"))
    base = made.offset
    events = made.events(RevokeLease(lease=-3))
    assert events == (
        KeyDeleted(key="a", lease=-3, following=2),
        KeyDeleted(key="b", lease=-3, following=1),
        LeaseEnded(lease=-3, reason="revoked", keys=2, silent_ms=0),
    )
    assert made.offset == base + 3
    assert list(made.state.keys) == [b"left"]
    assert not made.state.leases
    assert not made.state.attached
    assert made.refused(RevokeLease(lease=-3)).code == "LeaseNotFound"


def test_a_lease_that_expires_says_how_long_its_holder_was_silent() -> None:
    """As the leader measured it."""
    made = world()
    made.do(GrantLease(lease=3, ttl_s=9))
    assert made.events(ExpireLease(lease=3, silent_ms=9_100)) == (
        LeaseEnded(lease=3, reason="expired", keys=0, silent_ms=9_100),
    )
    assert made.refused(ExpireLease(lease=3, silent_ms=1)).code == "LeaseNotFound"


def test_what_is_left_is_written_down_and_taken_back_by_a_word_of_the_holder() -> None:
    """A lease that is heard while nothing is written down needs no event."""
    made = world()
    made.do(GrantLease(lease=3, ttl_s=90))
    assert made.events(KeepLease(lease=3)) == ()
    noted = CheckpointLeases(leases=((3, 40), (4, 1)))
    assert made.events(noted) == (LeaseCheckpointed(lease=3, remaining_s=40),)
    assert made.events(noted) == ()
    assert made.events(KeepLease(lease=3)) == (LeaseCheckpointed(lease=3, remaining_s=0),)
    assert made.refused(KeepLease(lease=4)).code == "LeaseNotFound"


def test_a_lease_tells_its_keys_and_its_time() -> None:
    """The keys only to whoever asks for them."""
    made = world()
    made.do(GrantLease(lease=3, ttl_s=90))
    made.do(PutKey(key=b"\xff", lease=3))
    assert made.reply(AskLease(lease=3), LeaseIs) == LeaseIs(lease=3, ttl_s=90, left_s=90)
    assert made.reply(AskLease(lease=3, with_keys=True), LeaseIs).keys == (b"\xff",)
    assert made.refused(AskLease(lease=4)).code == "LeaseNotFound"


def test_a_lease_holds_a_bounded_number_of_keys() -> None:
    """For all of them go at once; one more is refused, also when a transaction brings it."""
    made = world()
    made.do(GrantLease(lease=3, ttl_s=90))
    for number in range(LEASE_KEYS_MAX - 1):
        made.do(PutKey(key=b"%d" % number, lease=3))
    assert made.refused(Transact(success=(PutKey(key=b"x", lease=3), PutKey(key=b"y", lease=3)))).code == "LeaseIsFull"
    made.do(PutKey(key=b"x", lease=3))
    made.do(PutKey(key=b"x", lease=3))
    assert made.refused(PutKey(key=b"y", lease=3)).code == "LeaseIsFull"
    made.do(Transact(success=(DeleteKeys(key=b"0"), PutKey(key=b"y", lease=3))))
    made.do(Transact(success=(PutKey(key=b"z", lease=3), PutKey(key=b"1"))))
    assert made.refused(PutKey(key=b"0", lease=3)).code == "LeaseIsFull"
    assert len(made.events(RevokeLease(lease=3))) == LEASE_KEYS_MAX + 1


def test_the_names_of_a_lease_s_keys_are_bounded_together() -> None:
    """For its end names them all, in one entry: what one put or many brought, and what left counts no more."""
    made, name = world(), b"n" * (DELETED_BYTES_MAX // 4)
    made.do(GrantLease(lease=3, ttl_s=90))
    for number in range(3):
        made.do(PutKey(key=b"%d" % number + name[1:], lease=3))
    both = (PutKey(key=b"3" + name[2:], lease=3), PutKey(key=b"45", lease=3))
    assert made.refused(Transact(success=both)).code == "LeaseIsFull"
    made.do(both[0])
    assert made.refused(both[1]).code == "LeaseIsFull"
    made.do(PutKey(key=b"0" + name[1:]))
    made.do(both[1])
    assert len(made.events(RevokeLease(lease=3))) == 5
