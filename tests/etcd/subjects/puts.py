"""What Put answers."""

from tests.etcd.registry import case
from tests.etcd.teller import Teller

MIB = 1024 * 1024


@case
def previous_of_a_new_key(etcd: Teller) -> None:
    etcd.put("a", "1", prev_kv=True)


@case
def previous(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", "2")
    etcd.put("a", "3", prev_kv=True)
    etcd.get("a")


@case
def previous_with_a_lease(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", "2", prev_kv=True)


@case
def an_empty_value(etcd: Teller) -> None:
    etcd.put("a", "")
    etcd.get("a")
    etcd.put("a", "1", prev_kv=True)


@case
def a_binary_value(etcd: Teller) -> None:
    etcd.put("a", bytes(range(256)))
    etcd.get("a")
    etcd.put("b", b"\xff\xfe\x00")
    etcd.get("b")


@case
def a_kept_value(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", ignore_value=True)
    etcd.get("a")


@case
def a_kept_value_of_no_key(etcd: Teller) -> None:
    etcd.put("a", ignore_value=True)
    etcd.get("a")


@case
def a_kept_value_and_another(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", "2", ignore_value=True)
    etcd.get("a")


@case
def a_kept_value_detaches(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", ignore_value=True, prev_kv=True)
    etcd.get("a")
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)


@case
def a_kept_value_attaches(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1")
    etcd.put("a", ignore_value=True, lease=lease)
    etcd.get("a")


@case
def a_kept_lease(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", "2", ignore_lease=True)
    etcd.get("a")


@case
def a_kept_lease_where_is_none(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.put("a", "2", ignore_lease=True)
    etcd.get("a")


@case
def a_kept_lease_of_no_key(etcd: Teller) -> None:
    etcd.put("a", "1", ignore_lease=True)


@case
def a_kept_lease_and_another(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1")
    etcd.put("a", "2", lease=lease, ignore_lease=True)
    etcd.get("a")


@case
def all_kept(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", ignore_value=True, ignore_lease=True, prev_kv=True)
    etcd.get("a")


@case
def all_kept_and_both_given(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", "2", lease=lease, ignore_value=True, ignore_lease=True)


@case
def kept_after_a_deletion(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.delete("a")
    etcd.put("a", ignore_value=True)
    etcd.put("a", "2", ignore_lease=True)


@case
def a_lease(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.get("a")


@case
def an_unknown_lease(etcd: Teller) -> None:
    etcd.put("a", "1", lease=etcd.own_lease())
    etcd.get("a")


@case
def a_negative_lease(etcd: Teller) -> None:
    etcd.put("a", "1", lease=-7)
    etcd.get("a")


@case
def an_empty_key(etcd: Teller) -> None:
    etcd.ask("Put", key=b"", value=b"1")


@case
def an_empty_key_and_an_unknown_lease(etcd: Teller) -> None:
    etcd.ask("Put", key=b"", value=b"1", lease=etcd.own_lease())


@case
def a_value_of_one_mib(etcd: Teller) -> None:
    etcd.put("a", b"x" * MIB)


@case
def the_longest_request(etcd: Teller) -> None:
    etcd.put("a", b"x" * (3 * MIB // 2 - 600))


@case
def a_request_that_is_too_long(etcd: Teller) -> None:
    etcd.put("a", b"x" * (3 * MIB // 2))
    etcd.get("a")


@case
def a_request_that_is_far_too_long(etcd: Teller) -> None:
    etcd.put("a", b"x" * (3 * MIB))
    etcd.get("a")


@case
def a_value_of_a_million_bytes(etcd: Teller) -> None:
    etcd.put("a", b"x" * 1_000_000)
    etcd.get("a")
    etcd.put("a", b"y" * 1_000_000, prev_kv=True)


@case
def five_long_values_in_one_answer(etcd: Teller) -> None:
    for key in "a", "b", "c", "d", "e":
        etcd.put(key, key.encode() * 1_000_000)
    etcd.all()


@case
def a_kept_value_that_is_not_there_under_a_lease_that_is_not_there(etcd: Teller) -> None:
    lease = etcd.own_lease()
    etcd.put("a", ignore_value=True, lease=lease)
    etcd.txn(then=[etcd.put_op("a", ignore_value=True, lease=lease)])
    etcd.txn(then=[etcd.put_op("a", "1", lease=lease)])


@case
def a_name_that_is_no_text(etcd: Teller) -> None:
    etcd.put(b"\xff" * 200_000, "1")
    etcd.put("a" * 350_000, b"1" * 400_000)
    etcd.delete("", range_end=etcd.behind)


@case
def much_of_a_name_that_is_no_text(etcd: Teller) -> None:
    etcd.put(b"\xff" * 800_000, "1")
