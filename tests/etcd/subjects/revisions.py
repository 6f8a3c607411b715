"""Revisions: how they count, and what the past holds."""

from tests.etcd.registry import case
from tests.etcd.teller import FAR, Teller


@case
def a_new_key(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a")


@case
def a_key_put_again(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("b", "1")
    etcd.put("a", "2")
    etcd.all()


@case
def a_key_put_again_with_the_same_value(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", "1")
    etcd.get("a")


@case
def a_key_created_again(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", "2")
    etcd.delete("a")
    etcd.get("a")
    etcd.put("a", "3")
    etcd.get("a")


@case
def a_key_created_again_in_one_transaction_after_the_other(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a")])
    etcd.txn(then=[etcd.put_op("a", "2")])
    etcd.get("a")


@case
def the_past(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    second = etcd.put("a", "2").header.revision
    third = etcd.delete("a").header.revision
    for revision in first, second, third:
        etcd.get("a", revision=revision)


@case
def the_past_before_a_key(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    etcd.put("b", "1")
    etcd.get("b", revision=first)
    etcd.all(revision=first)


@case
def the_past_of_a_range(etcd: Teller) -> None:
    etcd.put("a", "1")
    then = etcd.put("b", "1").header.revision
    etcd.put("a", "2")
    etcd.delete("b")
    etcd.put("c", "1")
    etcd.all(revision=then)
    etcd.all(revision=then, count_only=True)
    etcd.all(revision=then, limit=1)
    etcd.all(revision=then, sort_order="DESCEND", sort_target="MOD")
    etcd.all(revision=then, keys_only=True)
    etcd.all()


@case
def the_present(etcd: Teller) -> None:
    now = etcd.put("a", "1").header.revision
    etcd.get("a", revision=now)


@case
def the_future(etcd: Teller) -> None:
    now = etcd.put("a", "1").header.revision
    etcd.get("a", revision=now + FAR)


@case
def a_negative_revision_is_the_present(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a", revision=-1)


@case
def a_negative_revision_within_a_transaction(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn((), [etcd.get_op("a", revision=-5)])


@case
def the_past_serializable(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    etcd.put("a", "2")
    etcd.get("a")
    etcd.get("a", revision=first, serializable=True)


@case
def the_past_within_a_transaction(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    etcd.put("a", "2")
    etcd.txn(then=[etcd.get_op("a", revision=first), etcd.get_op("a")])


@case
def the_future_within_a_transaction(etcd: Teller) -> None:
    now = etcd.put("a", "1").header.revision
    etcd.txn(then=[etcd.put_op("b", "1"), etcd.get_op("a", revision=now + FAR)])
    etcd.all()


@case
def the_future_in_the_outcome_that_does_not_come(etcd: Teller) -> None:
    now = etcd.put("a", "1").header.revision
    etcd.txn(then=[etcd.put_op("b", "1")], other=[etcd.get_op("a", revision=now + FAR)])


@case
def reading_and_deleting_nothing_is_no_revision(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a")
    etcd.delete("x")
    etcd.txn(then=[etcd.get_op("a")])
    etcd.txn()
    etcd.put("b", "1")
    etcd.all()


@case
def a_refused_put_is_no_revision(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", "2", lease=etcd.own_lease())
    etcd.get("a")


@case
def leases_are_no_revisions(etcd: Teller) -> None:
    etcd.put("a", "1")
    lease = etcd.grant()
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.get("a")


@case
def all_writes_of_a_transaction_share_one(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("a", "1"), etcd.put_op("b", "1"), etcd.put_op("c", "1")])
    etcd.all()
    etcd.txn(then=[etcd.put_op("d", "1"), etcd.delete_op("a"), etcd.put_op("b", "2")])
    etcd.all()


@case
def the_revision_before_a_transaction(etcd: Teller) -> None:
    before = etcd.put("a", "1").header.revision
    after = etcd.txn(then=[etcd.put_op("a", "2"), etcd.put_op("b", "1")]).header.revision
    etcd.all(revision=before)
    etcd.all(revision=after)


@case
def the_revision_of_a_deleted_range(etcd: Teller) -> None:
    etcd.put("a", "1")
    both = etcd.put("b", "1").header.revision
    none = etcd.delete("a", to="c").header.revision
    etcd.all(revision=both)
    etcd.all(revision=none)


@case
def many_versions(etcd: Teller) -> None:
    for number in range(20):
        etcd.quietly("Put", etcd.putting("a", str(number)))
    etcd.get("a")


@case
def compaction_of_the_past(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    second = etcd.put("a", "2").header.revision
    etcd.ask("Compact", revision=second)
    etcd.get("a", revision=first)
    etcd.get("a", revision=second)
    etcd.get("a")


@case
def compaction_twice(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    second = etcd.put("a", "2").header.revision
    etcd.ask("Compact", revision=second, physical=True)
    etcd.ask("Compact", revision=second)
    etcd.ask("Compact", revision=first)


@case
def compaction_of_the_future(etcd: Teller) -> None:
    now = etcd.put("a", "1").header.revision
    etcd.ask("Compact", revision=now + FAR)


@case
def compaction_of_a_deleted_key(etcd: Teller) -> None:
    etcd.put("a", "1")
    gone = etcd.delete("a").header.revision
    etcd.ask("Compact", revision=gone)
    etcd.get("a")
    etcd.put("a", "2")
    etcd.get("a")


@case
def the_past_within_a_transaction_after_a_compaction(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    second = etcd.put("a", "2").header.revision
    etcd.ask("Compact", revision=second)
    etcd.txn(then=[etcd.get_op("a", revision=first)])
