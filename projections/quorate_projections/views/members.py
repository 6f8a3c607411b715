"""The view ``members``: every service that registered, by name."""

import msgspec

from quorate.events import Stamp
from quorate.model.members import condition
from quorate.model.state import Member
from quorate_projections.views.view import row_of, showing


class MemberRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A member; when it was heard is known to the leader alone."""

    name: str = ""
    state: str = ""
    """``active``, ``fenced`` or ``draining``."""
    incarnation: str = ""
    epoch: int = 0
    """The offset of its registration."""
    roles: tuple[str, ...] = ()
    addresses: dict[str, str] = {}
    labels: dict[str, str] = {}
    timeout_ms: int = 0
    draining: bool = False
    changed_ms: int = 0
    """When it was last registered, fenced, unfenced or told to leave."""


def show(member: Member, before: MemberRow, stamp: Stamp) -> MemberRow:
    """The member."""
    return row_of(MemberRow, member, state=condition(member))


VIEW = showing("members", "Services that registered, by name.", MemberRow(), {"member": ("", show)})
