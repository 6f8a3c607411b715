"""Facts for tests of what is told."""

from quorate.cli.facts import Fact
from quorate.events import BrokerIdApplied, Candidate, ControllerLeaderElected, Event, MasterElected, Stamp

T0 = 1_700_000_000_000


def fact(offset: int, time_ms: int, event: Event) -> Fact:
    return Fact(Stamp(offset=offset, term=1, time_ms=T0 + time_ms), event)


def applied(broker_id: int, broker_set: str = "broker-a", address: str = "") -> BrokerIdApplied:
    where = address or f"h:{broker_id}"
    return BrokerIdApplied(
        cluster="c", broker_set=broker_set, broker_id=broker_id, address=where, register_check_code=""
    )


def candidate(broker_id: int, out_by: str = "", *, alive: bool = True) -> Candidate:
    return Candidate(
        broker_id=broker_id,
        alive=alive,
        in_sync=True,
        epoch=1,
        max_offset=100,
        confirm_offset=100,
        priority=2**31 - 1,
        verdict="out" if out_by else "elected",
        out_by=out_by,
    )


def elected(master: int, epoch: int, old: int | None = None, broker_set: str = "broker-a") -> MasterElected:
    return MasterElected(
        cluster="c",
        broker_set=broker_set,
        trigger="master lost",
        evidence="connection closed",
        old_master=old,
        master=master,
        master_address=f"h:{master}",
        master_epoch=epoch,
        sync_state_set=(master,),
        sync_state_set_epoch=epoch,
        old_sync_state_set=(1, 2),
        candidates=(candidate(1, "not alive", alive=False), candidate(2)),
        decided_by="lower max offset",
        explanation=f"Broker {master} is master of {broker_set}.",
        unclean=False,
        last_heartbeat_ms=0,
        detected_ms=0,
        proposed_ms=0,
    )


def leads(node_id: int, cause: str = "silent") -> ControllerLeaderElected:
    return ControllerLeaderElected(node_id=node_id, cause=cause, previous_leader=1, silent_for_ms=900)
