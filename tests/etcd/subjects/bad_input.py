"""Requests that are none."""

from tests.etcd.client import request
from tests.etcd.registry import case
from tests.etcd.teller import Teller


@case
def an_unknown_service(etcd: Teller) -> None:
    etcd.raw("/etcdserverpb.Nothing/Range", b"")


@case
def an_unknown_method(etcd: Teller) -> None:
    etcd.raw("/etcdserverpb.KV/Nothing", b"")


@case
def bytes_that_are_no_message(etcd: Teller) -> None:
    for method in "KV/Range", "KV/Put", "KV/DeleteRange", "KV/Txn", "KV/Compact", "Lease/LeaseGrant":
        etcd.raw(f"/etcdserverpb.{method}", b"\xff\xff\xff")


@case
def a_message_that_breaks_off(etcd: Teller) -> None:
    etcd.raw("/etcdserverpb.KV/Put", b"\x0a\x7f" + b"k" * 10)


@case
def a_field_of_another_type(etcd: Teller) -> None:
    etcd.raw("/etcdserverpb.KV/Range", b"\x08\x01")


@case
def one_field_of_another_type(etcd: Teller) -> None:
    etcd.put("a", "1")
    for method, fields, number in (
        ("KV/Put", etcd.putting("b", "2"), 3),
        ("KV/Put", etcd.putting("b"), 2),
        ("KV/DeleteRange", etcd.spanned("a", {}), 2),
        ("KV/Txn", {"success": [etcd.put_op("b", "2")]}, 3),
        ("Lease/LeaseGrant", {"ID": etcd.own_lease()}, 1),
    ):
        rest = request(method.partition("/")[2], fields).SerializeToString()
        etcd.raw(f"/etcdserverpb.{method}", rest + _bits_32(number))
    etcd.all()


@case
def a_field_of_another_type_within(etcd: Teller) -> None:
    put = request("Put", etcd.putting("a", "1")).SerializeToString() + _bits_32(3)
    operation = b"\x12" + bytes([len(put)]) + put
    etcd.raw("/etcdserverpb.KV/Txn", b"\x12" + bytes([len(operation)]) + operation)
    etcd.all()


def _bits_32(number: int) -> bytes:
    return bytes([number << 3 | 5]) + b"abcd"


@case
def an_unknown_field(etcd: Teller) -> None:
    etcd.raw("/etcdserverpb.KV/Range", b"\xa2\x06\x01x")


@case
def nothing_at_all(etcd: Teller) -> None:
    for method in "Range", "Put", "DeleteRange", "LeaseRevoke", "LeaseTimeToLive":
        etcd.ask(method)


@case
def an_empty_key_and_an_end(etcd: Teller) -> None:
    etcd.ask("Range", key=b"", range_end=b"\0")


@case
def an_empty_key_and_the_future(etcd: Teller) -> None:
    etcd.ask("Range", key=b"", revision=2**62)


@case
def a_comparison_of_nothing(etcd: Teller) -> None:
    etcd.txn([{}])
