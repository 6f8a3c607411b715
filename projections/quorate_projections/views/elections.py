"""The view ``elections``: every election of every broker set with its reasons, by offset.

A row has the trigger, every candidate with its verdict and the rule where it fell, the rule that decided, and, once the
brokers answered, when each was told and acknowledged.
"""

from typing import assert_never

import msgspec

from quorate.errors import InvariantBrokenError
from quorate.events import Acknowledgement, Candidate, ElectionFailed, MasterElected, RoleChangeAcknowledged, Stamp
from quorate_projections.views.view import Change, Rows, View, offset_key, row_of

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


def fold(rows: Rows[ElectionRow], change: Change[Mine]) -> None:
    """An election happens, or is acknowledged. Raises InvariantBrokenError for the answer to one that never was."""
    stamp, event = change.stamp, change.event
    match event:
        case MasterElected() | ElectionFailed():
            rows.put(offset_key(stamp.offset), _row(stamp, event))
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


def _row(stamp: Stamp, event: MasterElected | ElectionFailed) -> ElectionRow:
    """The event's fields, under their own names."""
    return row_of(
        ElectionRow,
        event,
        offset=stamp.offset,
        time_ms=stamp.time_ms,
        term=stamp.term,
        elected=isinstance(event, MasterElected),
    )


VIEW = View(
    name="elections",
    what="Every election with its trigger, candidates, verdicts and deciding rule, by offset (20 digits).",
    initial=ElectionRow(),
    fold=fold,
    mine=frozenset({MasterElected, ElectionFailed, RoleChangeAcknowledged}),
)
