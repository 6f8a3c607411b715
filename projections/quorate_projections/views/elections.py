"""The view ``elections``: every election of every broker set with its reasons, by offset.

A row has the trigger, every candidate with its verdict and the rule where it fell, the rule that decided, and, once the
brokers answered, when each was told and acknowledged.
"""

from typing import assert_never

import msgspec

from quorate import events
from quorate.errors import InvariantBrokenError
from quorate.events import Acknowledgement, Candidate, ElectionFailed, MasterElected, RoleChangeAcknowledged, Stamp
from quorate_projections.views.view import Rows, View, offset_key

Mine = MasterElected | ElectionFailed | RoleChangeAcknowledged


class ElectionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One election; times are epoch milliseconds, 0 = did not happen (yet)."""

    offset: int = -1
    time_ms: int = 0
    term: int = 0
    broker_set: str = ""
    cluster: str = ""
    elected: bool = False
    """False: nobody may become master."""
    trigger: str = ""
    evidence: str = ""
    old_master: int | None = None
    master: int | None = None
    master_address: str = ""
    master_epoch: int = 0
    old_sync_state_set: tuple[int, ...] = ()
    sync_state_set: tuple[int, ...] = ()
    sync_state_set_epoch: int = 0
    candidates: tuple[Candidate, ...] = ()
    decided_by: str = ""
    explanation: str = ""
    unclean: bool = False
    last_heartbeat_ms: int = 0
    detected_ms: int = 0
    proposed_ms: int = 0
    committed_ms: int = 0
    acknowledged_offset: int = -1
    """Event that recorded the answers; -1: not yet."""
    acks: tuple[Acknowledgement, ...] = ()


def fold(rows: Rows[ElectionRow], stamp: Stamp, event: Mine) -> None:
    """An election happens, or is acknowledged. Raises InvariantBrokenError for the answer to one that never was."""
    match event:
        case MasterElected():
            rows.put(offset_key(stamp.offset), _won(stamp, event))
        case ElectionFailed():
            rows.put(offset_key(stamp.offset), _failed(stamp, event))
        case RoleChangeAcknowledged():
            key = offset_key(event.election_offset)
            row = rows.get(key)
            if row.offset != event.election_offset:
                raise InvariantBrokenError(f"an answer to the election at {event.election_offset}, which was none")
            answered = msgspec.structs.replace(
                row, committed_ms=event.committed_ms, acknowledged_offset=stamp.offset, acks=event.acks
            )
            rows.put(key, answered)
        case _:
            assert_never(event)


def _won(stamp: Stamp, event: MasterElected) -> ElectionRow:
    return ElectionRow(
        offset=stamp.offset,
        time_ms=stamp.time_ms,
        term=stamp.term,
        broker_set=event.broker_set,
        cluster=event.cluster,
        elected=True,
        trigger=event.trigger,
        evidence=event.evidence,
        old_master=event.old_master,
        master=event.master,
        master_address=event.master_address,
        master_epoch=event.master_epoch,
        old_sync_state_set=event.old_sync_state_set,
        sync_state_set=event.sync_state_set,
        sync_state_set_epoch=event.sync_state_set_epoch,
        candidates=event.candidates,
        decided_by=event.decided_by,
        explanation=event.explanation,
        unclean=event.unclean,
        last_heartbeat_ms=event.last_heartbeat_ms,
        detected_ms=event.detected_ms,
        proposed_ms=event.proposed_ms,
    )


def _failed(stamp: Stamp, event: ElectionFailed) -> ElectionRow:
    return ElectionRow(
        offset=stamp.offset,
        time_ms=stamp.time_ms,
        term=stamp.term,
        broker_set=event.broker_set,
        cluster=event.cluster,
        trigger=event.trigger,
        evidence=event.evidence,
        old_master=event.old_master,
        master_epoch=event.master_epoch,
        candidates=event.candidates,
        explanation=event.explanation,
        last_heartbeat_ms=event.last_heartbeat_ms,
        detected_ms=event.detected_ms,
        proposed_ms=event.proposed_ms,
    )


VIEW = View(
    name="elections",
    what="Every election with its trigger, candidates, verdicts and deciding rule, by offset (20 digits).",
    initial=ElectionRow(),
    fold=fold,
    mine=frozenset({MasterElected, ElectionFailed, RoleChangeAcknowledged}),
    not_mine=frozenset(
        {
            events.BrokerAddressChanged,
            events.BrokerDataCleaned,
            events.BrokerFenced,
            events.BrokerIdApplied,
            events.BrokerRegistered,
            events.BrokerUnfenced,
            events.ClusterCreated,
            events.ConfigChanged,
            events.ControllerLeaderElected,
            events.FeatureLevelChanged,
            events.NodeStarted,
            events.VoterRebuilt,
            events.SyncStateSetAltered,
            events.TopicCreated,
            events.TopicDeleted,
            events.TopicUpdated,
        }
    ),
)
