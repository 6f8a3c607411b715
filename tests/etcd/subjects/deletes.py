"""What DeleteRange answers."""

from tests.etcd.registry import case
from tests.etcd.teller import Teller


def shelf(etcd: Teller) -> None:
    """Four keys."""
    for key in "a", "b", "c", "d":
        etcd.put(key, key.upper())


@case
def one_key(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("b")
    etcd.all()


@case
def a_key_that_is_not_there(etcd: Teller) -> None:
    etcd.delete("a")
    etcd.delete("a", prev_kv=True)


@case
def a_key_twice(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("a")
    etcd.delete("a")


@case
def a_range(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("b", to="d")
    etcd.all()


@case
def a_range_with_what_was(etcd: Teller) -> None:
    shelf(etcd)
    etcd.put("b", "again")
    etcd.delete("b", to="d", prev_kv=True)


@case
def one_key_with_what_was(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.delete("a", prev_kv=True)


@case
def a_prefix(etcd: Teller) -> None:
    for key in "p", "p/1", "p/2", "pp", "q":
        etcd.put(key, "1")
    etcd.delete("p/", to="p0")
    etcd.all()


@case
def all_from_a_key_on(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("c", range_end=b"\0", prev_kv=True)
    etcd.all()


@case
def all_keys(etcd: Teller) -> None:
    shelf(etcd)
    etcd.ask("DeleteRange", key=b"\0", range_end=b"\0")
    etcd.all()


@case
def a_range_that_ends_where_it_starts(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("b", to="b")
    etcd.all(count_only=True)


@case
def a_range_that_ends_before_it_starts(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("d", to="a")
    etcd.all(count_only=True)


@case
def a_range_with_nothing_in_it(etcd: Teller) -> None:
    shelf(etcd)
    etcd.delete("x", to="z", prev_kv=True)


@case
def an_empty_key(etcd: Teller) -> None:
    etcd.ask("DeleteRange", key=b"")
    etcd.ask("DeleteRange", key=b"", range_end=b"\0")


@case
def binary_keys(etcd: Teller) -> None:
    for key in b"\x00", b"\x00\x00", b"\xff", b"\xff\xff":
        etcd.put(key, b"1")
    etcd.delete(b"\x00", to=b"\x00\x00")
    etcd.delete(b"\xff", prev_kv=True)
    etcd.all()


@case
def three_hundred_keys(etcd: Teller) -> None:
    for number in range(300):
        etcd.quietly("Put", etcd.putting(f"{number:03}"))
    etcd.delete("100", to="300")
    etcd.all(count_only=True)


def many_keys(etcd: Teller, count: int) -> None:
    """So many, without a step."""
    for at in range(0, count, 128):
        puts = [etcd.put_op(f"{number:05}") for number in range(at, min(at + 128, count))]
        etcd.quietly("Txn", {"success": puts})


@case
def more_keys_than_one_request_deletes(etcd: Teller) -> None:
    many_keys(etcd, 4_097)
    etcd.delete("", range_end=etcd.behind)
    for hundred in range(41):  # What is left is deleted a little at a time.
        etcd.quietly("DeleteRange", etcd.spanned(f"{hundred:03}", {"to": f"{hundred:03}a"}))


@case
def more_bytes_of_names_than_one_request_deletes(etcd: Teller) -> None:
    keys = [f"{number}" + "k" * 400_000 for number in range(4)]
    for key in keys:
        etcd.quietly("Put", etcd.putting(key))
    etcd.delete("", range_end=etcd.behind)
    for key in keys:
        etcd.quietly("DeleteRange", etcd.spanned(key, {}))
