"""What Txn answers: comparisons, outcomes, transactions within transactions, and what no transaction may do."""

from itertools import product

from tests.etcd.registry import add, case
from tests.etcd.subjects.deletes import many_keys
from tests.etcd.teller import FAR, Case, Fields, Teller

RESULTS = ("EQUAL", "NOT_EQUAL", "GREATER", "LESS")
TARGETS = ("version", "create_revision", "mod_revision", "value", "lease")


def around(etcd: Teller, target: str) -> tuple[object, object, object]:
    """Below, at and above what the key "a" has."""
    lease = etcd.grant(lease=etcd.own_lease())
    etcd.put("z", "1")
    etcd.put("a", "l")
    etcd.put("a", "m", lease=lease)
    etcd.put("y", "1")
    if target == "value":
        return b"l", b"m", b"n"
    found = etcd.get("a")
    number = getattr(found.kvs[0], target) if found.kvs else 1
    return number - 1, number, number + 1


def comparing(target: str, result: str) -> Case:
    def told(etcd: Teller) -> None:
        for value in around(etcd, target):
            etcd.txn([etcd.compared("a", result, **{target: value})])

    told.__module__ = __name__
    return told


def comparing_nothing(target: str, result: str) -> Case:
    def told(etcd: Teller) -> None:
        for value in (b"", b"x") if target == "value" else (-1, 0, 1):
            etcd.txn([etcd.compared("none", result, **{target: value})])

    told.__module__ = __name__
    return told


for target, result in product(TARGETS, RESULTS):
    add(f"{target} {result}", comparing(target, result))
    add(f"{target} {result}, of a key that is not there", comparing_nothing(target, result))


# -- comparisons


@case
def no_comparison_holds(etcd: Teller) -> None:
    etcd.txn([], [etcd.put_op("a", "then")], [etcd.put_op("a", "else")])
    etcd.all()


@case
def an_empty_one(etcd: Teller) -> None:
    etcd.txn()


@case
def all_comparisons_must_hold(etcd: Teller) -> None:
    etcd.put("a", "1")
    holds, fails = etcd.compared("a", "EQUAL", value=b"1"), etcd.compared("b", "GREATER", version=0)
    for compare in [holds, holds], [holds, fails], [fails, holds], [fails, fails]:
        etcd.txn(compare, [etcd.get_op("a")], [etcd.get_op("b")])


@case
def the_other_outcome(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn([etcd.compared("a", "EQUAL", value=b"2")], [etcd.put_op("b", "then")], [etcd.put_op("b", "else")])
    etcd.all()


@case
def the_other_outcome_that_is_empty(etcd: Teller) -> None:
    etcd.txn([etcd.compared("a", "GREATER", version=0)], [etcd.put_op("b", "then")])
    etcd.all()


@case
def a_comparison_of_a_range_that_all_pass(etcd: Teller) -> None:
    for key in "a", "b", "c":
        etcd.put(key, "same")
    etcd.txn([etcd.compared("a", "EQUAL", value=b"same", to="d")], [etcd.get_op("a")])


@case
def a_comparison_of_a_range_that_one_fails(etcd: Teller) -> None:
    for key, value in ("a", "same"), ("b", "other"), ("c", "same"):
        etcd.put(key, value)
    etcd.txn([etcd.compared("a", "EQUAL", value=b"same", to="d")])
    etcd.txn([etcd.compared("a", "EQUAL", value=b"same", to="b")])
    etcd.txn([etcd.compared("a", "EQUAL", version=1, to="d")])


@case
def a_comparison_of_a_range_with_nothing_in_it(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn([etcd.compared("x", "EQUAL", version=0, to="z")])
    etcd.txn([etcd.compared("x", "EQUAL", version=1, to="z")])
    etcd.txn([etcd.compared("x", "EQUAL", create_revision=0, to="z")])
    etcd.txn([etcd.compared("x", "EQUAL", value=b"", to="z")])
    etcd.txn([etcd.compared("x", "NOT_EQUAL", value=b"", to="z")])


@case
def a_comparison_of_all_from_a_key_on(etcd: Teller) -> None:
    for key in "a", "b", "c":
        etcd.put(key, "1")
    etcd.put("a", "2")
    etcd.txn([etcd.compared("b", "EQUAL", version=1, range_end=b"\0")])
    etcd.txn([etcd.compared("a", "EQUAL", version=1, range_end=b"\0")])


@case
def a_comparison_of_a_range_that_ends_before_it_starts(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn([etcd.compared("b", "EQUAL", version=0, to="a")])
    etcd.txn([etcd.compared("b", "EQUAL", version=3, to="a")])


@case
def a_value_that_is_empty(etcd: Teller) -> None:
    etcd.put("a", "")
    etcd.txn([etcd.compared("a", "EQUAL", value=b"")])
    etcd.txn([etcd.compared("a", "LESS", value=b"\0")])


@case
def values_are_compared_as_bytes(etcd: Teller) -> None:
    etcd.put("a", b"\x80")
    etcd.txn([etcd.compared("a", "GREATER", value=b"\x7f")])
    etcd.txn([etcd.compared("a", "GREATER", value=b"zzz")])
    etcd.put("a", "10")
    etcd.txn([etcd.compared("a", "LESS", value=b"9")])


@case
def a_comparison_with_no_value_at_all(etcd: Teller) -> None:
    etcd.put("a", "1")
    for target in ("VERSION", "CREATE", "MOD", "VALUE", "LEASE"):
        etcd.txn([{"key": etcd.key("a"), "target": target, "result": "GREATER"}])


@case
def a_comparison_whose_value_is_of_another_target(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn([{"key": etcd.key("a"), "target": "VERSION", "result": "EQUAL", "mod_revision": 1}])
    etcd.txn([{"key": etcd.key("a"), "target": "VALUE", "result": "EQUAL", "version": 1}])


@case
def a_comparison_with_an_unknown_target(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn([{"key": etcd.key("a"), "target": 17, "result": "EQUAL", "version": 1}])


@case
def a_comparison_with_an_unknown_result(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn([{"key": etcd.key("a"), "target": "VERSION", "result": 17, "version": 1}])


@case
def the_same_comparison_twice(etcd: Teller) -> None:
    etcd.txn([etcd.compared("a", "EQUAL", version=0)] * 2, [etcd.put_op("a", "1")])


# -- what the operations of one see of each other


@case
def a_put_and_then_a_range(etcd: Teller) -> None:
    etcd.txn(then=[etcd.all_op(), etcd.put_op("a", "1"), etcd.all_op(), etcd.put_op("b", "1"), etcd.all_op()])


@case
def a_deletion_and_then_a_range(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("b", "1")
    etcd.txn(then=[etcd.delete_op("a"), etcd.all_op(), etcd.delete_op("b", prev_kv=True), etcd.all_op()])


@case
def a_put_with_what_was(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.put_op("a", "2", prev_kv=True), etcd.put_op("b", "1", prev_kv=True)])


@case
def a_range_of_the_revision_of_a_put_before_it(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.put_op("a", "2"), etcd.get_op("a", sort_target="MOD", sort_order="DESCEND")])


@case
def a_deletion_twice(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a"), etcd.delete_op("a")])


@case
def overlapping_deletions(etcd: Teller) -> None:
    for key in "a", "b", "c":
        etcd.put(key, "1")
    etcd.txn(then=[etcd.delete_op("a", to="c"), etcd.delete_op("b", to="d", prev_kv=True)])
    etcd.all()


@case
def a_kept_value_of_a_key_that_is_not_there(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("b", "1"), etcd.put_op("a", ignore_value=True)])
    etcd.all()


@case
def a_kept_value(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.txn(then=[etcd.put_op("a", ignore_value=True, ignore_lease=True)])
    etcd.get("a")


@case
def an_unknown_lease(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("b", "1"), etcd.put_op("a", "1", lease=etcd.own_lease())])
    etcd.all()


@case
def an_unknown_lease_in_the_outcome_that_does_not_come(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("a", "1")], other=[etcd.put_op("a", "1", lease=etcd.own_lease())])
    etcd.all()


@case
def a_lease(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.txn(then=[etcd.put_op("a", "1", lease=lease), etcd.put_op("b", "1", lease=lease)])
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)


@case
def only_reads(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.get_op("a"), etcd.all_op(count_only=True), etcd.get_op("x"), etcd.all_op(serializable=True)])


@case
def a_deletion_of_nothing(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("x")])
    etcd.get("a")


# -- keys written twice


@case
def two_puts_of_a_key(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("a", "1"), etcd.put_op("a", "2")])
    etcd.all()


@case
def two_puts_of_a_key_in_the_outcome_that_does_not_come(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("b", "1")], other=[etcd.put_op("a", "1"), etcd.put_op("a", "2")])
    etcd.all()


@case
def a_key_in_both_outcomes(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("a", "then")], other=[etcd.put_op("a", "else")])
    etcd.all()


@case
def a_put_within_a_deleted_range(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a", to="c"), etcd.put_op("b", "1")])
    etcd.txn(then=[etcd.put_op("b", "1"), etcd.delete_op("a", to="c")])
    etcd.all()


@case
def a_put_of_a_deleted_key(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a"), etcd.put_op("a", "2")])
    etcd.txn(then=[etcd.put_op("a", "2"), etcd.delete_op("a")])
    etcd.all()


@case
def a_put_at_the_end_of_a_deleted_range(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a", to="c"), etcd.put_op("c", "1")])
    etcd.all()


@case
def a_put_behind_an_open_deletion(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a", range_end=b"\0"), etcd.put_op("x", "1")])


@case
def a_put_here_and_one_within(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("a", "1"), etcd.txn_op(then=[etcd.put_op("a", "2")])])
    etcd.txn(then=[etcd.txn_op(then=[etcd.put_op("a", "2")]), etcd.put_op("a", "1")])
    etcd.all()


@case
def puts_of_a_key_in_two_within(etcd: Teller) -> None:
    inner = [etcd.txn_op(then=[etcd.put_op("a", "1")]), etcd.txn_op(then=[etcd.put_op("a", "2")])]
    etcd.txn(then=inner)
    etcd.all()


@case
def a_put_in_both_outcomes_of_one_within(etcd: Teller) -> None:
    etcd.txn(then=[etcd.txn_op(then=[etcd.put_op("a", "1")], other=[etcd.put_op("a", "2")])])
    etcd.all()


@case
def a_deletion_here_and_a_put_within(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.delete_op("a"), etcd.txn_op(then=[etcd.put_op("a", "2")])])
    etcd.txn(then=[etcd.txn_op(then=[etcd.put_op("a", "2")]), etcd.delete_op("a")])
    etcd.all()


@case
def a_put_here_and_a_deletion_within(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.put_op("a", "2"), etcd.txn_op(then=[etcd.delete_op("a")])])
    etcd.txn(then=[etcd.txn_op(then=[etcd.delete_op("a")]), etcd.put_op("a", "2")])
    etcd.all()


@case
def a_put_and_a_deletion_in_the_outcomes_of_one_within(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.txn_op(then=[etcd.put_op("a", "2")], other=[etcd.delete_op("a")])])
    etcd.all()


@case
def a_deletion_and_a_put_in_two_within(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.txn_op(then=[etcd.delete_op("a")]), etcd.txn_op(then=[etcd.put_op("a", "2")])])
    etcd.txn(then=[etcd.txn_op(then=[etcd.put_op("a", "2")]), etcd.txn_op(then=[etcd.delete_op("a")])])


# -- transactions within


@case
def one_within(etcd: Teller) -> None:
    etcd.put("a", "1")
    inner = etcd.txn_op(
        [etcd.compared("a", "EQUAL", value=b"1")], [etcd.put_op("b", "then")], [etcd.put_op("b", "else")]
    )
    etcd.txn(then=[inner, etcd.all_op()])
    etcd.all()


@case
def one_within_that_compares_what_was_put_before_it(etcd: Teller) -> None:
    etcd.put("a", "1")
    inner = etcd.txn_op(
        [etcd.compared("a", "EQUAL", value=b"2")], [etcd.put_op("b", "then")], [etcd.put_op("b", "else")]
    )
    etcd.txn(then=[etcd.put_op("a", "2"), inner])
    etcd.all()


@case
def one_within_the_other_outcome(etcd: Teller) -> None:
    inner = etcd.txn_op(then=[etcd.put_op("a", "within")])
    etcd.txn([etcd.compared("a", "GREATER", version=0)], [etcd.put_op("a", "then")], [inner])
    etcd.all()


@case
def three_deep(etcd: Teller) -> None:
    third = etcd.txn_op(then=[etcd.put_op("c", "3"), etcd.all_op()])
    second = etcd.txn_op(then=[etcd.put_op("b", "2"), third])
    etcd.txn(then=[etcd.put_op("a", "1"), second, etcd.all_op()])
    etcd.all()


@case
def an_empty_one_within(etcd: Teller) -> None:
    etcd.txn(then=[etcd.txn_op()])
    etcd.txn(then=[etcd.txn_op([etcd.compared("a", "GREATER", version=0)])])


@case
def one_within_that_only_reads(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.txn(then=[etcd.txn_op(then=[etcd.get_op("a")])])


# -- how many


def puts(etcd: Teller, number: int, start: str = "") -> list[Fields]:
    """Puts of so many keys."""
    return [etcd.put_op(f"{start}{at:03}") for at in range(number)]


@case
def as_many_operations_as_there_may_be(etcd: Teller) -> None:
    etcd.txn(then=puts(etcd, 128))
    etcd.all(count_only=True)


@case
def one_operation_too_many(etcd: Teller) -> None:
    etcd.txn(then=puts(etcd, 129))
    etcd.all(count_only=True)


@case
def one_operation_too_many_in_the_outcome_that_does_not_come(etcd: Teller) -> None:
    etcd.txn(then=puts(etcd, 1), other=puts(etcd, 129))
    etcd.all(count_only=True)


@case
def one_comparison_too_many(etcd: Teller) -> None:
    etcd.txn([etcd.compared("a", "EQUAL", version=0)] * 128)
    etcd.txn([etcd.compared("a", "EQUAL", version=0)] * 129)


@case
def each_outcome_may_have_as_many(etcd: Teller) -> None:
    compare = [etcd.compared("a", "EQUAL", version=0)] * 128
    etcd.txn(compare, puts(etcd, 128, "then"), puts(etcd, 128, "else"))
    etcd.all(count_only=True)


@case
def operations_within_count_too(etcd: Teller) -> None:
    etcd.txn(then=[*puts(etcd, 63), etcd.txn_op(then=puts(etcd, 64, "in"))])
    etcd.txn(then=[*puts(etcd, 64), etcd.txn_op(then=puts(etcd, 65, "in"))])
    etcd.all(count_only=True)


@case
def operations_of_two_within_count_apart(etcd: Teller) -> None:
    etcd.txn(then=[etcd.txn_op(then=puts(etcd, 100, "in")), etcd.txn_op(then=puts(etcd, 100, "too"))])
    etcd.all(count_only=True)


# -- what is wrong by itself


@case
def an_operation_that_is_none(etcd: Teller) -> None:
    etcd.txn(then=[{}])


@case
def an_empty_key_in_a_comparison(etcd: Teller) -> None:
    etcd.txn([{"key": b"", "target": "VERSION", "result": "EQUAL", "version": 0}])


@case
def an_empty_key_in_each_operation(etcd: Teller) -> None:
    etcd.txn(then=[{"request_put": {"value": b"1"}}])
    etcd.txn(then=[{"request_range": {}}])
    etcd.txn(then=[{"request_delete_range": {}}])
    etcd.txn(other=[{"request_put": {"value": b"1"}}])
    etcd.txn(then=[etcd.txn_op(then=[{"request_put": {}}])])


@case
def a_kept_and_given_value(etcd: Teller) -> None:
    etcd.txn(then=[etcd.put_op("a", "1", ignore_value=True)])
    etcd.txn(other=[etcd.put_op("a", "1", ignore_value=True)])
    etcd.txn(then=[etcd.put_op("a", "1", ignore_lease=True, lease=7)])


@case
def what_is_refused_first(etcd: Teller) -> None:
    twice = [etcd.put_op("a", "1"), etcd.put_op("a", "2")]
    etcd.txn(then=[*twice, {"request_put": {}}])
    etcd.txn(then=[*twice, etcd.put_op("b", lease=etcd.own_lease())])
    etcd.txn([{"key": b"", "version": 0}], puts(etcd, 129))
    etcd.txn(then=[etcd.put_op("b", ignore_value=True), etcd.put_op("c", lease=etcd.own_lease())])
    etcd.all()


# -- as clients use them


@case
def a_lock_by_create_revision(etcd: Teller) -> None:
    first, second = etcd.grant(lease=etcd.own_lease()), etcd.grant(lease=etcd.own_lease() + 1)
    for lease, name in (first, "lock/1"), (second, "lock/2"), (first, "lock/1"):
        owner = etcd.get_op("lock/", to="lock0", sort_order="ASCEND", sort_target="CREATE", limit=1)
        compare = [etcd.compared(name, "EQUAL", create_revision=0)]
        etcd.txn(compare, [etcd.put_op(name, "", lease=lease), owner], [etcd.get_op(name), owner])
    etcd.delete("lock/1")
    etcd.get("lock/", to="lock0", sort_order="DESCEND", sort_target="CREATE", max_create_revision=FAR, limit=1)


@case
def a_swap_by_mod_revision(etcd: Teller) -> None:
    etcd.put("a", "1")
    seen = etcd.get("a").kvs
    revision = seen[0].mod_revision if seen else 1
    for value in "2", "3":
        etcd.txn([etcd.compared("a", "EQUAL", mod_revision=revision)], [etcd.put_op("a", value)], [etcd.get_op("a")])


# -- bounds that etcd does not have; each is in docs/grpc.md


@case
def seventeen_deep(etcd: Teller) -> None:
    inner = etcd.put_op("a", "1")
    for _ in range(16):
        inner = etcd.txn_op(then=[inner])
    etcd.txn(then=[inner])


@case
def more_operations_than_it_has_with_those_within(etcd: Teller) -> None:
    inner = etcd.txn_op(then=[etcd.get_op("a")] * 17)
    etcd.txn(other=[inner] * 60)


@case
def more_revisions_than_it_asks_at(etcd: Teller) -> None:
    parts = [range(at, at + 52) for at in range(1, 257, 52)]
    inner = [etcd.txn_op(then=[etcd.get_op("a", revision=number) for number in part]) for part in parts]
    etcd.txn(other=inner)


@case
def a_longer_answer_than_a_write_has(etcd: Teller) -> None:
    etcd.put("a", b"x" * 900_000)
    etcd.txn(then=[etcd.get_op("a")] * 8)


@case
def more_keys_than_it_looks_at(etcd: Teller) -> None:
    many_keys(etcd, 1_100)
    etcd.txn([etcd.compared("", "GREATER", version=0, range_end=etcd.behind)] * 60)
