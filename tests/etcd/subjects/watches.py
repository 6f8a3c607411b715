"""What Watch tells."""

from tests.etcd.registry import case
from tests.etcd.teller import FAR, Teller


@case
def from_now_on(etcd: Teller) -> None:
    etcd.put("a", "before")
    with etcd.watching("a") as watch:
        etcd.put("a", "1")
        etcd.put("b", "1")
        etcd.put("a", "2")
        etcd.delete("a")
        watch.events(3)


@case
def from_the_past_on(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    etcd.put("a", "2")
    etcd.put("b", "1")
    etcd.delete("a")
    with etcd.watching("a", start_revision=first) as watch:
        watch.events(3)
        etcd.put("a", "3")
        watch.events(1)


@case
def from_the_next_revision_on(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    with etcd.watching("a", start_revision=first + 1) as watch:
        etcd.put("a", "2")
        watch.events(1)


@case
def from_the_present_revision_on(etcd: Teller) -> None:
    etcd.put("a", "1")
    second = etcd.put("a", "2").header.revision
    with etcd.watching("a", start_revision=second) as watch:
        etcd.put("a", "3")
        watch.events(2)


@case
def from_the_future_on(etcd: Teller) -> None:
    now = etcd.put("a", "1").header.revision
    with etcd.watching("a", start_revision=now + FAR) as watch:
        etcd.put("a", "2")
        watch.create("b")
        etcd.put("b", "1")
        watch.events(1)


@case
def from_a_negative_revision_on(etcd: Teller) -> None:
    etcd.put("a", "1")
    with etcd.stream() as watch:
        if not watch.create("a", start_revision=-1).canceled:
            watch.take()


@case
def a_range(etcd: Teller) -> None:
    with etcd.watching("b", to="d") as watch:
        for key in "a", "b", "c", "d", "bb":
            etcd.put(key, "1")
        watch.events(3)


@case
def a_prefix(etcd: Teller) -> None:
    with etcd.watching("p/", to="p0") as watch:
        for key in "p", "p/", "p/1", "p0", "p/2":
            etcd.put(key, "1")
        watch.events(3)


@case
def all_from_a_key_on(etcd: Teller) -> None:
    with etcd.watching("b", range_end=b"\0") as watch:
        for key in "a", "b", "c":
            etcd.put(key, "1")
        watch.events(2)


@case
def all_keys_by_an_empty_key(etcd: Teller) -> None:
    with etcd.stream() as watch:
        watch.send({"create_request": {"key": b"", "range_end": b"\0"}})
        watch.take()
        etcd.put("a", "1")
        watch.events(1)


@case
def an_empty_key_alone(etcd: Teller) -> None:
    with etcd.stream() as watch:
        watch.send({"create_request": {"key": b""}})
        watch.take()
        watch.create("a")
        etcd.put("a", "1")
        watch.events(1)


@case
def a_range_that_ends_before_it_starts(etcd: Teller) -> None:
    with etcd.watching("b", to="a") as watch:
        watch.create("a")
        etcd.put("a", "1")
        watch.events(1)


@case
def a_range_that_ends_where_it_starts(etcd: Teller) -> None:
    with etcd.watching("a", to="a") as watch:
        watch.create("a")
        etcd.put("a", "1")
        watch.events(1)


@case
def binary_keys(etcd: Teller) -> None:
    with etcd.watching(b"\xfe", to=b"\xff\x00") as watch:
        for key in b"\xff", b"\xfe\xff", b"\xff\x00", b"\xfe":
            etcd.put(key, key)
        watch.events(3)


@case
def what_was(etcd: Teller) -> None:
    etcd.put("a", "1")
    with etcd.watching("a", prev_kv=True) as watch:
        etcd.put("a", "2")
        etcd.delete("a")
        etcd.put("a", "3")
        watch.events(3)


@case
def what_was_in_the_past(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    etcd.put("a", "2")
    etcd.delete("a")
    etcd.put("a", "3")
    with etcd.watching("a", prev_kv=True, start_revision=first) as watch:
        watch.events(4)


@case
def what_was_with_a_lease(etcd: Teller) -> None:
    lease = etcd.grant()
    with etcd.watching("a", prev_kv=True) as watch:
        etcd.put("a", "1", lease=lease)
        etcd.delete("a")
        watch.events(2)


@case
def no_puts(etcd: Teller) -> None:
    with etcd.watching("a", filters=["NOPUT"]) as watch:
        etcd.put("a", "1")
        etcd.delete("a")
        etcd.put("a", "2")
        etcd.delete("a")
        watch.events(2)


@case
def no_deletions(etcd: Teller) -> None:
    with etcd.watching("a", filters=["NODELETE"]) as watch:
        etcd.put("a", "1")
        etcd.delete("a")
        etcd.put("a", "2")
        watch.events(2)


@case
def neither_puts_nor_deletions(etcd: Teller) -> None:
    with etcd.watching("a", filters=["NOPUT", "NODELETE"]) as watch:
        etcd.put("a", "1")
        etcd.delete("a")
        watch.create("b")
        etcd.put("b", "1")
        watch.events(1)


@case
def an_unknown_filter(etcd: Teller) -> None:
    with etcd.watching("a", filters=[17]) as watch:
        etcd.put("a", "1")
        watch.events(1)


@case
def a_filter_in_the_past(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    etcd.delete("a")
    etcd.put("a", "2")
    with etcd.watching("a", filters=["NOPUT"], start_revision=first, prev_kv=True) as watch:
        watch.events(1)


@case
def the_writes_of_a_transaction(etcd: Teller) -> None:
    etcd.put("c", "1")
    with etcd.watching("", range_end=etcd.behind) as watch:
        etcd.txn(then=[etcd.put_op("b", "1"), etcd.put_op("a", "1"), etcd.delete_op("c")])
        watch.events(3)


@case
def the_writes_of_a_transaction_in_the_past(etcd: Teller) -> None:
    first = etcd.put("c", "1").header.revision
    etcd.txn(then=[etcd.put_op("b", "1"), etcd.delete_op("c"), etcd.put_op("a", "1")])
    etcd.put("a", "2")
    with etcd.watching("", range_end=etcd.behind, start_revision=first) as watch:
        watch.events(5)


@case
def a_part_of_a_transaction(etcd: Teller) -> None:
    with etcd.watching("b") as watch:
        etcd.txn(then=[etcd.put_op("a", "1"), etcd.put_op("b", "1")])
        watch.events(1)


@case
def a_deleted_range(etcd: Teller) -> None:
    for key in "a", "b", "c":
        etcd.put(key, "1")
    with etcd.watching("", range_end=etcd.behind, prev_kv=True) as watch:
        etcd.delete("a", to="c")
        watch.events(2)


@case
def a_deletion_of_nothing(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        etcd.delete("a")
        etcd.put("a", "1")
        watch.events(1)


@case
def a_key_created_again(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        for value in "1", "2":
            etcd.put("a", value)
            etcd.put("a", value)
            etcd.delete("a")
        watch.events(6)


@case
def a_revoked_lease(etcd: Teller) -> None:
    lease = etcd.grant()
    for key in "b", "a":
        etcd.put(key, "1", lease=lease)
    with etcd.watching("", range_end=etcd.behind) as watch:
        etcd.ask("LeaseRevoke", ID=lease)
        watch.events(2)


@case
def several_on_one_stream(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        watch.create("b")
        watch.create("a", filters=["NOPUT"])
        etcd.put("a", "1")
        watch.events(1)
        etcd.put("b", "1")
        watch.events(1)
        etcd.delete("a")
        watch.events(2)


@case
def a_number_of_ones_own(etcd: Teller) -> None:
    with etcd.watching("a", watch_id=7) as watch:
        etcd.put("a", "1")
        watch.events(1)
        watch.create("b")
        watch.create("c")


@case
def a_number_twice(etcd: Teller) -> None:
    with etcd.watching("a", watch_id=7) as watch:
        watch.create("b", watch_id=7)
        etcd.put("b", "1")
        etcd.put("a", "1")
        watch.events(1)


@case
def a_number_that_the_server_would_choose(etcd: Teller) -> None:
    with etcd.watching("a", watch_id=1) as watch:
        watch.create("b")
        watch.create("c")
        watch.create("d")


@case
def a_negative_number(etcd: Teller) -> None:
    with etcd.watching("a", watch_id=-5) as watch:
        etcd.put("a", "1")
        watch.events(1)


@case
def a_number_again_after_its_end(etcd: Teller) -> None:
    with etcd.watching("a", watch_id=7) as watch:
        watch.cancel(7)
        watch.create("b", watch_id=7)
        etcd.put("b", "1")
        watch.events(1)


@case
def cancelled(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        watch.cancel(0)
        etcd.put("a", "1")
        watch.create("b")
        etcd.put("b", "1")
        watch.events(1)


@case
def an_unknown_one_cancelled(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        watch.send({"cancel_request": {"watch_id": 99}})
        etcd.put("a", "1")
        watch.events(1)


@case
def one_cancelled_twice(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        watch.cancel(0)
        watch.send({"cancel_request": {"watch_id": 0}})
        watch.create("b")


@case
def progress(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        etcd.put("b", "1")
        watch.progress()


@case
def progress_of_no_watch(etcd: Teller) -> None:
    with etcd.stream() as watch:
        watch.send({"progress_request": {}})
        watch.create("a")


@case
def a_request_for_nothing(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        watch.send({})
        etcd.put("a", "1")
        watch.events(1)


@case
def fragments_of_little(etcd: Teller) -> None:
    with etcd.watching("a", fragment=True) as watch:
        etcd.put("a", "1")
        watch.events(1)


@case
def long_values(etcd: Teller) -> None:
    with etcd.watching("a", prev_kv=True) as watch:
        for letter in b"xy":
            etcd.put("a", bytes([letter]) * 1_000_000)
        watch.events(2)


@case
def a_hundred_writes(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        for number in range(100):
            etcd.quietly("Put", etcd.putting("a", str(number)))
        watch.events(100)


@case
def a_hundred_writes_of_the_past(etcd: Teller) -> None:
    first = etcd.put("a", "first").header.revision
    for number in range(100):
        etcd.quietly("Put", etcd.putting("a", str(number)))
    with etcd.watching("a", start_revision=first) as watch:
        watch.events(101)


@case
def from_before_a_compaction(etcd: Teller) -> None:
    first = etcd.put("a", "1").header.revision
    second = etcd.put("a", "2").header.revision
    etcd.ask("Compact", revision=second)
    with etcd.watching("a", start_revision=first) as watch:
        watch.events(2)


@case
def from_a_compaction_on(etcd: Teller) -> None:
    etcd.put("a", "1")
    second = etcd.put("a", "2").header.revision
    etcd.ask("Compact", revision=second)
    with etcd.watching("a", start_revision=second) as watch:
        watch.events(1)


@case
def the_end_of_the_requests(etcd: Teller) -> None:
    with etcd.watching("a") as watch:
        watch.finish()
        etcd.put("a", "1")
        watch.events(1)
