"""The view ``wills``: every will of MQTT that was decided and that nobody acknowledged, by number."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import HandedWill
from quorate_projections.views.view import row_of, showing


class WillRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A will that is to be published."""

    session_epoch: int = 0
    """Its number."""
    client: str = ""
    topic: str = ""
    qos: int = 0
    retain: bool = False
    member: str = ""
    """Who is to publish it; empty: nobody can yet."""
    member_epoch: int = 0
    handed_ms: int = 0


def show(handed: HandedWill, before: WillRow, stamp: Stamp) -> WillRow:
    """The will."""
    will = handed.will
    return row_of(WillRow, handed, topic=will.topic, qos=will.qos, retain=will.retain)


VIEW = showing("wills", "Wills of MQTT that are to be published, by number.", WillRow(), {"will": ("", show)})
