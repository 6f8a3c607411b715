"""What Range answers, option by option."""

from itertools import product

from tests.etcd.registry import add, case
from tests.etcd.teller import FAR, Case, Teller

TARGETS = ("KEY", "VERSION", "CREATE", "MOD", "VALUE")
ORDERS = ("NONE", "ASCEND", "DESCEND")


def shelf(etcd: Teller) -> None:
    """Five keys whose orders by key, version, creation, modification and value all differ."""
    for key, value in ("c", "v5"), ("a", "v3"), ("e", "v1"), ("b", "v4"), ("d", "v2"), ("b", "v6"), ("a", "v0"):
        etcd.put(key, value)
    etcd.put("b", "v7")


def sorted_by(target: str, order: str, limit: int) -> Case:
    def told(etcd: Teller) -> None:
        shelf(etcd)
        etcd.all(sort_target=target, sort_order=order, limit=limit)

    told.__module__ = __name__
    return told


for target, order in product(TARGETS, ORDERS):
    add(f"by {target} {order}", sorted_by(target, order, 0))
    add(f"by {target} {order}, the first two", sorted_by(target, order, 2))


@case
def one_key(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a")


@case
def a_key_that_is_not_there(etcd: Teller) -> None:
    etcd.get("a")


@case
def a_key_is_no_prefix(etcd: Teller) -> None:
    etcd.put("ab", "1")
    etcd.get("a")
    etcd.put("a", "2")
    etcd.get("a")


@case
def an_end_is_not_within(etcd: Teller) -> None:
    shelf(etcd)
    etcd.get("b", to="d")


@case
def a_range_that_ends_where_it_starts(etcd: Teller) -> None:
    shelf(etcd)
    etcd.get("b", to="b")


@case
def a_range_that_ends_before_it_starts(etcd: Teller) -> None:
    shelf(etcd)
    etcd.get("d", to="b")


@case
def a_range_between_keys(etcd: Teller) -> None:
    shelf(etcd)
    etcd.get("bb", to="cc")


@case
def all_from_a_key_on(etcd: Teller) -> None:
    shelf(etcd)
    etcd.get("c", range_end=b"\0")


@case
def all_keys(etcd: Teller) -> None:
    shelf(etcd)
    etcd.ask("Range", key=b"\0", range_end=b"\0")


@case
def all_from_a_key_on_that_is_behind_them(etcd: Teller) -> None:
    shelf(etcd)
    etcd.get("f", range_end=b"\0")


@case
def an_empty_prefix(etcd: Teller) -> None:
    etcd.all()


@case
def a_limit_that_is_not_reached(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(limit=6)


@case
def a_limit_that_is_just_reached(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(limit=5)


@case
def a_limit_of_one(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(limit=1)


@case
def a_negative_limit(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(limit=-1)


@case
def pages_of_two(etcd: Teller) -> None:
    shelf(etcd)
    first = etcd.all(limit=2)
    last = first.kvs[-1].key if first.kvs else b""
    second = etcd.ask("Range", key=last + b"\0", range_end=etcd.behind, limit=2)
    last = second.kvs[-1].key if second.kvs else b""
    etcd.ask("Range", key=last + b"\0", range_end=etcd.behind, limit=2)


@case
def a_limit_on_one_key(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a", limit=1)


@case
def a_count_only(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(count_only=True)
    etcd.get("a", count_only=True)
    etcd.get("x", count_only=True)


@case
def a_count_only_is_not_limited(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(count_only=True, limit=2)


@case
def a_count_only_is_not_filtered(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(count_only=True, min_mod_revision=FAR)


@case
def keys_only(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(keys_only=True)
    etcd.get("a", keys_only=True)


@case
def keys_only_sorted_by_value(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(keys_only=True, sort_target="VALUE", sort_order="DESCEND")


@case
def keys_only_and_count_only(etcd: Teller) -> None:
    shelf(etcd)
    etcd.all(keys_only=True, count_only=True)


@case
def count_is_of_all_when_filtered(etcd: Teller) -> None:
    shelf(etcd)
    found = etcd.get("b")
    etcd.all(min_mod_revision=found.kvs[0].mod_revision if found.kvs else 1)


def bounded(name: str, at: str) -> Case:
    def told(etcd: Teller) -> None:
        shelf(etcd)
        found = etcd.get("d")
        revision = getattr(found.kvs[0], at) if found.kvs else 1
        etcd.all(**{name: revision})
        etcd.all(**{name: revision}, limit=1)
        etcd.all(**{name: revision}, sort_order="DESCEND")

    told.__module__ = __name__
    return told


for bound in ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision"):
    add(bound.replace("_", " "), bounded(bound, bound.partition("_")[2]))


@case
def between_two_mod_revisions(etcd: Teller) -> None:
    shelf(etcd)
    low, high = etcd.get("e"), etcd.get("a")
    if low.kvs and high.kvs:
        etcd.all(min_mod_revision=low.kvs[0].mod_revision, max_mod_revision=high.kvs[0].mod_revision)
        etcd.all(min_mod_revision=high.kvs[0].mod_revision, max_mod_revision=low.kvs[0].mod_revision)


@case
def bounds_on_one_key(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a", min_mod_revision=FAR)
    etcd.get("a", max_mod_revision=FAR)


@case
def serializable(etcd: Teller) -> None:
    etcd.get("nothing", serializable=True)


@case
def binary_keys(etcd: Teller) -> None:
    for key in b"\xff\xff", b"\x00", b"\x00\x00", b"\xff", b"\x80", b"\xc3\x28", b"\x7f", b"\xff\x00", b"\xed\xa0\x80":
        etcd.put(key, key)
    etcd.all()
    etcd.all(sort_order="DESCEND")
    etcd.get(b"\x00")
    etcd.get(b"\x80", to=b"\xff")
    etcd.get(b"\xff", to=b"\xff\x00")


@case
def keys_of_other_scripts(etcd: Teller) -> None:
    for key in "ß", "日本", "é", "😀", "z", "\uffff":
        etcd.put(key, key)
    etcd.all()
    etcd.all(sort_target="VALUE", sort_order="DESCEND")


@case
def a_long_key(etcd: Teller) -> None:
    etcd.put("k" * 5000, "1")
    etcd.get("k" * 5000)
    etcd.all(keys_only=True)


@case
def a_hundred_keys(etcd: Teller) -> None:
    for number in range(100):
        etcd.quietly("Put", etcd.putting(f"{number:03}", str(number)))
    etcd.all(limit=3)
    etcd.get("050", range_end=etcd.behind, limit=2)
    etcd.all(count_only=True)
    etcd.all(limit=2, sort_order="DESCEND")


@case
def equal_values_keep_the_order_of_keys(etcd: Teller) -> None:
    for key in "c", "a", "b":
        etcd.put(key, "same")
    etcd.all(sort_target="VALUE", sort_order="ASCEND")
    etcd.all(sort_target="VERSION", sort_order="ASCEND", limit=2)


@case
def a_sort_of_equal_values_downwards(etcd: Teller) -> None:
    for key in "c", "a", "b":
        etcd.put(key, "same")
    etcd.all(sort_target="VALUE", sort_order="DESCEND")
    etcd.all(sort_target="VERSION", sort_order="DESCEND")


@case
def an_order_that_nobody_knows(etcd: Teller) -> None:
    etcd.put("b", "1")
    etcd.put("a", "2")
    etcd.all(sort_order=9)
    etcd.all(sort_order=-1, sort_target="VALUE")
