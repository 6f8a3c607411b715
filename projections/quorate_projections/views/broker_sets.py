"""The view ``broker_sets``: every broker set with its replicas, as the controller knows them, by name.

What remoting 1004 (who is the master?) and 1006 (who is in sync?) ask is in one row. Liveness is not: heartbeats are no
events; ``fenced`` is what the controller concluded.
"""

import msgspec

from quorate.events import Stamp
from quorate.model.state import BrokerSet
from quorate_projections.views.view import row_of, showing


class ReplicaRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker of a set."""

    broker_id: int
    address: str
    registered: bool = False
    """False: it has taken its id and not yet said where it serves."""
    fenced: bool = False
    in_sync: bool = False
    capabilities: dict[str, str] = {}
    topics: tuple[str, ...] = ()
    registration_epoch: int = 0


class LastElection(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The last election of the set; the view ``elections`` has it whole."""

    offset: int
    time_ms: int
    trigger: str
    decided_by: str
    """Empty: nobody could be elected."""
    explanation: str
    acknowledged: bool = False


class BrokerSetRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker set."""

    broker_set: str = ""
    cluster: str = ""
    master: int | None = None
    master_address: str | None = None
    master_epoch: int = 0
    """0: never elected."""
    sync_state_set: tuple[int, ...] = ()
    sync_state_set_epoch: int = 0
    next_broker_id: int = 1
    replicas: tuple[ReplicaRow, ...] = ()
    """By broker id."""
    known: bool = True
    """False: only the ids are known (Java's half-known set)."""
    election: LastElection | None = None
    changed_offset: int = -1
    changed_ms: int = 0


def show(broker_set: BrokerSet, before: BrokerSetRow, stamp: Stamp) -> BrokerSetRow:
    """The set, and when it changed."""
    return BrokerSetRow(
        broker_set=broker_set.name,
        cluster=broker_set.cluster,
        master=broker_set.master,
        master_address=broker_set.address(broker_set.master),
        master_epoch=broker_set.master_epoch,
        sync_state_set=broker_set.sync_state_set,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
        next_broker_id=broker_set.next_broker_id,
        replicas=tuple(
            row_of(ReplicaRow, replica, in_sync=replica.broker_id in broker_set.sync_state_set)
            for replica in broker_set.replicas
        ),
        known=broker_set.sync_known,
        election=None if broker_set.election is None else row_of(LastElection, broker_set.election),
        changed_offset=stamp.offset,
        changed_ms=stamp.time_ms,
    )


VIEW = showing(
    "broker_sets",
    "Broker sets: master, sync state set, epochs, replicas, by name. What 1004 and 1006 ask.",
    BrokerSetRow(),
    {"broker-set": ("", show)},
)
