"""What Cluster and Maintenance answer: shapes, for what they tell is each cluster's own."""

from tests.etcd.registry import case
from tests.etcd.teller import FAR, Teller


@case
def members(etcd: Teller) -> None:
    etcd.ask("MemberList")


@case
def members_as_all_know_them(etcd: Teller) -> None:
    etcd.ask("MemberList", linearizable=True)


@case
def status(etcd: Teller) -> None:
    etcd.ask("Status")


@case
def alarms(etcd: Teller) -> None:
    etcd.ask("Alarm", action="GET")
    etcd.ask("Alarm", action="GET", alarm="NOSPACE")


@case
def an_alarm_that_is_not_on(etcd: Teller) -> None:
    etcd.ask("Alarm", action="DEACTIVATE", alarm="CORRUPT")


@case
def a_sum_of_the_keys(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.ask("HashKV")


@case
def a_sum_of_the_future(etcd: Teller) -> None:
    etcd.ask("HashKV", revision=FAR)


@case
def leadership_for_nobody(etcd: Teller) -> None:
    etcd.ask("MoveLeader", targetID=4711)


@case
def every_answer_names_the_same_cluster_and_member(etcd: Teller) -> None:
    etcd.put("a", "1")
    etcd.get("a")
    etcd.delete("a")
    etcd.txn()
    etcd.grant()
    etcd.ask("LeaseLeases")
    etcd.ask("Status")
    etcd.ask("MemberList")


@case
def leadership_for_the_number_0(etcd: Teller) -> None:
    etcd.ask("MoveLeader", targetID=0)


@case
def accounts(etcd: Teller) -> None:
    for call in (
        *("AuthEnable", "AuthDisable", "Authenticate"),
        *("UserAdd", "UserGet", "UserList", "UserDelete", "UserChangePassword", "UserGrantRole", "UserRevokeRole"),
        *("RoleAdd", "RoleGet", "RoleList", "RoleDelete", "RoleGrantPermission", "RoleRevokePermission"),
    ):
        etcd.raw(f"/etcdserverpb.Auth/{call}", b"")


@case
def changes_of_membership(etcd: Teller) -> None:
    for call in "MemberAdd", "MemberRemove", "MemberUpdate", "MemberPromote":
        etcd.raw(f"/etcdserverpb.Cluster/{call}", b"")


@case
def maintenance_of_a_member(etcd: Teller) -> None:
    for call in "Defragment", "Hash":
        etcd.raw(f"/etcdserverpb.Maintenance/{call}", b"")
    etcd.raw("/etcdserverpb.Maintenance/Snapshot", b"\xff")  # No message: a snapshot would be a stream.


@case
def locks_and_elections_of_the_server(etcd: Teller) -> None:
    etcd.raw("/v3lockpb.Lock/Unlock", b"")
    for call in "Leader", "Proclaim", "Resign":
        etcd.raw(f"/v3electionpb.Election/{call}", b"")
