"""What Lease answers, as long as none expires."""

from tests.etcd.registry import case
from tests.etcd.teller import Teller

TTL_MAX_S = 9_000_000_000


@case
def a_number_chosen_by_the_server(etcd: Teller) -> None:
    etcd.grant(60)
    etcd.ask("LeaseLeases")


@case
def a_number_of_ones_own(etcd: Teller) -> None:
    etcd.grant(60, etcd.own_lease())
    etcd.ask("LeaseLeases")


@case
def a_number_twice(etcd: Teller) -> None:
    number = etcd.own_lease()
    etcd.grant(60, number)
    etcd.grant(90, number)
    etcd.ask("LeaseTimeToLive", ID=number)


@case
def a_number_again_after_its_end(etcd: Teller) -> None:
    number = etcd.own_lease()
    etcd.grant(60, number)
    etcd.put("a", "1", lease=number)
    etcd.ask("LeaseRevoke", ID=number)
    etcd.grant(90, number)
    etcd.ask("LeaseTimeToLive", ID=number, keys=True)


@case
def a_negative_number(etcd: Teller) -> None:
    lease = etcd.grant(60, -etcd.own_lease())
    etcd.put("a", "1", lease=lease)
    etcd.get("a")
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.get("a")


@case
def no_time_at_all(etcd: Teller) -> None:
    etcd.grant(0)


@case
def less_than_no_time(etcd: Teller) -> None:
    etcd.grant(-5)


@case
def one_second(etcd: Teller) -> None:
    etcd.grant(1)


@case
def three_seconds(etcd: Teller) -> None:
    etcd.grant(3)


@case
def the_longest_time(etcd: Teller) -> None:
    etcd.grant(TTL_MAX_S)


@case
def too_long_a_time(etcd: Teller) -> None:
    etcd.grant(TTL_MAX_S + 1)
    etcd.grant(2**63 - 1)


@case
def revoked(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.ask("LeaseTimeToLive", ID=lease)
    etcd.ask("LeaseLeases")


@case
def revoked_with_its_keys(etcd: Teller) -> None:
    lease = etcd.grant()
    for key in "a", "b", "c":
        etcd.put(key, "1", lease=lease)
    etcd.put("d", "1")
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.all()


@case
def keys_of_a_revoked_one_go_in_one_revision(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    before = etcd.put("b", "1", lease=lease).header.revision
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.put("c", "1")
    etcd.all(revision=before)
    etcd.all()


@case
def an_unknown_one(etcd: Teller) -> None:
    number = etcd.own_lease()
    etcd.ask("LeaseRevoke", ID=number)
    etcd.ask("LeaseTimeToLive", ID=number)
    etcd.ask("LeaseTimeToLive", ID=number, keys=True)
    with etcd.keeping_alive() as stream:
        stream.beat(number)


@case
def the_number_0(etcd: Teller) -> None:
    etcd.ask("LeaseRevoke", ID=0)
    etcd.ask("LeaseTimeToLive", ID=0)
    with etcd.keeping_alive() as stream:
        stream.beat(0)


@case
def time_to_live(etcd: Teller) -> None:
    lease = etcd.grant(60)
    etcd.ask("LeaseTimeToLive", ID=lease)


@case
def time_to_live_with_keys(etcd: Teller) -> None:
    lease = etcd.grant(60)
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)
    for key in "b", "a", "c":
        etcd.put(key, "1", lease=lease)
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)
    etcd.ask("LeaseTimeToLive", ID=lease)


@case
def kept_alive(etcd: Teller) -> None:
    lease = etcd.grant(60)
    with etcd.keeping_alive() as stream:
        stream.beat(lease)
        stream.beat(lease)


@case
def several_kept_alive_on_one_stream(etcd: Teller) -> None:
    number = etcd.own_lease()
    first, second = etcd.grant(60, number), etcd.grant(90, number + 1)
    with etcd.keeping_alive() as stream:
        for lease in first, second, number + 2, first:
            stream.beat(lease)


@case
def kept_alive_after_its_end(etcd: Teller) -> None:
    lease = etcd.grant(60)
    with etcd.keeping_alive() as stream:
        stream.beat(lease)
        etcd.ask("LeaseRevoke", ID=lease)
        stream.beat(lease)


@case
def a_list(etcd: Teller) -> None:
    number = etcd.own_lease()
    for at in range(3):
        etcd.grant(60 + at, number + at)
    etcd.ask("LeaseLeases")
    etcd.ask("LeaseRevoke", ID=number + 1)
    etcd.ask("LeaseLeases")


@case
def a_key_moves_to_another(etcd: Teller) -> None:
    number = etcd.own_lease()
    first, second = etcd.grant(60, number), etcd.grant(60, number + 1)
    etcd.put("a", "1", lease=first)
    etcd.put("a", "2", lease=second)
    etcd.ask("LeaseTimeToLive", ID=first, keys=True)
    etcd.ask("LeaseTimeToLive", ID=second, keys=True)
    etcd.ask("LeaseRevoke", ID=first)
    etcd.get("a")
    etcd.ask("LeaseRevoke", ID=second)
    etcd.get("a")


@case
def a_put_without_one_detaches(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", "2")
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.get("a")


@case
def a_put_with_the_same_one_stays(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.put("a", "2", lease=lease)
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.get("a")


@case
def a_deleted_key_is_detached(etcd: Teller) -> None:
    lease = etcd.grant()
    etcd.put("a", "1", lease=lease)
    etcd.delete("a")
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)
    etcd.put("a", "2")
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.get("a")


@case
def revoking_one_without_keys_is_no_revision(etcd: Teller) -> None:
    etcd.put("a", "1")
    lease = etcd.grant()
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.put("b", "1")
    etcd.all()


@case
def binary_keys(etcd: Teller) -> None:
    lease = etcd.grant()
    for key in b"\xff", b"\x00", b"\xc3\x28":
        etcd.put(key, "1", lease=lease)
    etcd.ask("LeaseTimeToLive", ID=lease, keys=True)
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.all()


@case
def more_bytes_of_names_than_a_lease_holds(etcd: Teller) -> None:
    lease = etcd.grant()
    for number in range(3):
        etcd.put(f"{number}" + "k" * 400_000, lease=lease)
    etcd.put("3" + "k" * 400_000, lease=lease)
    etcd.ask("LeaseRevoke", ID=lease)
    etcd.all(count_only=True)
