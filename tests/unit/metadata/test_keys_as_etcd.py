"""What etcd's own answers taught: each of these was found by asking it (tests/etcd)."""

from quorate.events import LeaseEnded
from quorate.metadata.commands import DeleteKeys, GrantLease, KeyOperation, PutKey, RevokeLease, Transact, Transacted
from quorate.model.keys import RangeKeys, within
from tests.unit.metadata.test_keys import world


def test_a_lease_without_keys_ends() -> None:
    """Its end is the only event; a second revocation finds nothing."""
    made = world()
    made.do(GrantLease(lease=7, ttl_s=10))
    assert made.events(RevokeLease(lease=7)) == (LeaseEnded(lease=7, reason="revoked", keys=0, silent_ms=0),)
    assert made.refused(RevokeLease(lease=7)).code == "LeaseNotFound"


def test_a_limit_without_an_order_comes_before_the_sort() -> None:
    """etcd takes as many keys as the limit and one, in their order, and sorts these; with an order, it sorts all."""
    made = world()
    for key, value in (b"a", b"3"), (b"b", b"2"), (b"c", b"4"), (b"d", b"1"):
        made.do(PutKey(key=key, value=value))

    def found(asked: RangeKeys) -> list[str]:
        return [one.key for one in within(made.state.keys, asked).found]

    assert found(RangeKeys(key=b"a", range_end=b"\x00", sort_by="value", limit=2)) == ["b", "a"]
    assert found(RangeKeys(key=b"a", range_end=b"\x00", sort_by="value", order="ascending", limit=2)) == ["d", "b"]


def test_the_outcomes_of_a_transaction_within_exclude_each_other() -> None:
    """One puts a key that the other deletes: only one of them comes. What is around it may do neither."""
    made = world()
    inner = Transact(compare=(), success=(PutKey(key=b"a", value=b"1"),), failure=(DeleteKeys(key=b"a"),))
    assert made.reply(Transact(compare=(), success=(inner,), failure=()), Transacted).succeeded
    around: tuple[KeyOperation, ...] = (PutKey(key=b"a"), DeleteKeys(key=b"a"))
    for one in around:
        for success in (one, inner), (inner, one):
            refused = made.refused(Transact(compare=(), success=success, failure=()))
            assert refused.code == ("DuplicateKey")
