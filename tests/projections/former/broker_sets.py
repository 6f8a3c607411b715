"""The view ``broker_sets`` as it was folded before it was a question to the model."""

from typing import assert_never

import msgspec

from quorate.errors import InvariantBrokenError
from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerLifeBegan,
    BrokerRegistered,
    BrokerUnfenced,
    ElectionFailed,
    MasterElected,
    RoleChangeAcknowledged,
    Stamp,
    SyncStateSetAltered,
)
from quorate_projections.views.broker_sets import BrokerSetRow, LastElection, ReplicaRow
from quorate_projections.views.view import Rows

Mine = (
    BrokerAddressChanged
    | BrokerDataCleaned
    | BrokerFenced
    | BrokerIdApplied
    | BrokerLifeBegan
    | BrokerRegistered
    | BrokerUnfenced
    | ElectionFailed
    | MasterElected
    | RoleChangeAcknowledged
    | SyncStateSetAltered
)
_replace = msgspec.structs.replace


def fold(rows: Rows[BrokerSetRow], stamp: Stamp, event: Mine) -> None:
    """Change one set. Raises InvariantBrokenError for an event about a set or a broker that is not there."""
    if isinstance(event, BrokerIdApplied):
        row: BrokerSetRow | None = _applied(rows.get(event.broker_set), event)
    else:
        row = _changed(_present(rows, event.broker_set), stamp, event)
    if row is None:
        rows.drop(event.broker_set)
        return
    replicas = tuple(_in_sync(replica, replica.broker_id in row.sync_state_set) for replica in row.replicas)
    address = next((replica.address for replica in replicas if replica.broker_id == row.master), None)
    row = _replace(
        row, replicas=replicas, master_address=address, changed_offset=stamp.offset, changed_ms=stamp.time_ms
    )
    rows.put(event.broker_set, row)


def _changed(row: BrokerSetRow, stamp: Stamp, event: "_Later") -> BrokerSetRow | None:
    match event:
        case SyncStateSetAltered():
            return _replace(row, sync_state_set=event.new, sync_state_set_epoch=event.sync_state_set_epoch)
        case MasterElected():
            return _replace(
                row,
                master=event.master,
                master_epoch=event.master_epoch,
                sync_state_set=event.sync_state_set,
                sync_state_set_epoch=event.sync_state_set_epoch,
                election=_election(event, stamp, event.decided_by),
            )
        case ElectionFailed():
            return _replace(row, master=None, master_epoch=event.master_epoch, election=_election(event, stamp, ""))
        case RoleChangeAcknowledged():
            if row.election is None:
                raise InvariantBrokenError(f"an acknowledged role change of {row.broker_set!r}, which had no election")
            return _replace(row, election=_replace(row.election, acknowledged=True))
        case BrokerFenced() | BrokerUnfenced():
            return _with(row, _replace(_replica(row, event.broker_id), fenced=isinstance(event, BrokerFenced)))
        case BrokerLifeBegan():
            return _with(row, _replace(_replica(row, event.broker_id), registration_epoch=stamp.offset))
        case BrokerRegistered() | BrokerAddressChanged():
            return _with(row, _announced(_replica(row, event.broker_id), event))
        case BrokerDataCleaned():
            return _cleaned(row, event)
        case _:
            assert_never(event)


_Later = (
    BrokerAddressChanged
    | BrokerDataCleaned
    | BrokerFenced
    | BrokerLifeBegan
    | BrokerRegistered
    | BrokerUnfenced
    | ElectionFailed
    | MasterElected
    | RoleChangeAcknowledged
    | SyncStateSetAltered
)
"""What happens to a set that is there."""


def _present(rows: Rows[BrokerSetRow], name: str) -> BrokerSetRow:
    row = rows.get(name)
    if row.changed_offset < 0:
        raise InvariantBrokenError(f"an event about the broker set {name!r}, which is not there")
    return row


def _applied(row: BrokerSetRow, event: BrokerIdApplied) -> BrokerSetRow:
    """A new id, and the counter one further, whatever the id (Java ``BrokerReplicaInfo.addBroker``)."""
    if row.changed_offset < 0 or not row.known:
        row = BrokerSetRow(broker_set=event.broker_set, cluster=event.cluster)
    replica = ReplicaRow(broker_id=event.broker_id, address=event.address)
    return _replace(_with(row, replica), next_broker_id=row.next_broker_id + 1)


def _announced(replica: ReplicaRow, event: BrokerRegistered | BrokerAddressChanged) -> ReplicaRow:
    address = event.address if isinstance(event, BrokerRegistered) else event.new_address
    return _replace(replica, address=address, registered=True, capabilities=event.capabilities, topics=event.topics)


def _cleaned(row: BrokerSetRow, event: BrokerDataCleaned) -> BrokerSetRow | None:
    """The set goes, or some ids; with ``whole_set`` *and* ids only the other ids stay known."""
    left = tuple(replica for replica in row.replicas if replica.broker_id not in event.broker_ids)
    if not event.broker_ids or not left:
        return None
    if event.whole_set:
        return BrokerSetRow(
            broker_set=row.broker_set,
            cluster=row.cluster,
            next_broker_id=row.next_broker_id,
            replicas=left,
            known=False,
        )
    in_sync = tuple(broker_id for broker_id in row.sync_state_set if broker_id not in event.broker_ids)
    return _replace(row, replicas=left, sync_state_set=in_sync)


def _election(event: MasterElected | ElectionFailed, stamp: Stamp, decided_by: str) -> LastElection:
    return LastElection(
        offset=stamp.offset,
        time_ms=stamp.time_ms,
        trigger=event.trigger,
        decided_by=decided_by,
        explanation=event.explanation,
    )


def _replica(row: BrokerSetRow, broker_id: int) -> ReplicaRow:
    for replica in row.replicas:
        if replica.broker_id == broker_id:
            return replica
    raise InvariantBrokenError(f"an event about broker {broker_id} of {row.broker_set!r}, which is not there")


def _with(row: BrokerSetRow, changed: ReplicaRow) -> BrokerSetRow:
    others = [replica for replica in row.replicas if replica.broker_id != changed.broker_id]
    return _replace(row, replicas=tuple(sorted([*others, changed], key=lambda replica: replica.broker_id)))


def _in_sync(replica: ReplicaRow, in_sync: bool) -> ReplicaRow:
    return replica if replica.in_sync == in_sync else _replace(replica, in_sync=in_sync)
