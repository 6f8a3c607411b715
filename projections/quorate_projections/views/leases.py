"""The view ``leases``: every lease with its time, by number."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Lease
from quorate_projections.views.view import row_of, showing


class LeaseRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A lease; how long it lives on is known to the leader alone."""

    lease_id: int = 0
    ttl_s: int = 0
    granted_ms: int = 0
    remaining_s: int = 0
    """What was left when a leader last wrote it down; 0: all of it."""


def show(lease: Lease, before: LeaseRow, stamp: Stamp) -> LeaseRow:
    """The lease."""
    return row_of(LeaseRow, lease)


VIEW = showing("leases", "Leases and their times, by number.", LeaseRow(), {"lease": ("", show)})
