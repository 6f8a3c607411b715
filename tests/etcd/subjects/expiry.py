"""Leases that expire: the shortest time that etcd grants is two seconds."""

from tests.etcd.registry import case
from tests.etcd.teller import Teller


@case
def its_keys_go(etcd: Teller) -> None:
    lease = etcd.grant(2)
    for key in "a", "b":
        etcd.put(key, "1", lease=lease)
    etcd.put("c", "1")
    etcd.gone("a")
    etcd.all()
    etcd.ask("LeaseTimeToLive", ID=lease)
    etcd.ask("LeaseRevoke", ID=lease)


@case
def a_watch_tells_it(etcd: Teller) -> None:
    lease = etcd.grant(2)
    etcd.put("a", "1", lease=lease)
    etcd.put("b", "1", lease=lease)
    with etcd.watching("", range_end=etcd.behind, prev_kv=True) as watch:
        watch.events(2)
    etcd.all()


@case
def a_key_that_was_detached_stays(etcd: Teller) -> None:
    lease = etcd.grant(2)
    etcd.put("a", "1", lease=lease)
    etcd.put("b", "1", lease=lease)
    etcd.put("b", "2")
    etcd.gone("a")
    etcd.all()


@case
def a_put_with_one_that_expired(etcd: Teller) -> None:
    lease = etcd.grant(2)
    etcd.put("a", "1", lease=lease)
    etcd.gone("a")
    etcd.put("b", "1", lease=lease)
    with etcd.keeping_alive() as stream:
        stream.beat(lease)
    etcd.grant(60, lease)
