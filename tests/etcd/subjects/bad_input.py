"""Requests that are none."""

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
