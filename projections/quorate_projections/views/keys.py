"""The view ``keys``: every key with its value, by name. Its value is public, as the log is."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import KeyValue
from quorate_projections.views.view import row_of, showing


class KeyRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A key (etcd ``mvccpb.KeyValue``) and when it changed."""

    key: str = ""
    """As text: bytes from ``&`` to ``}`` as they are, a lower one ``%XX``, a higher one ``~XX``."""
    value: bytes = b""
    """In JSON as base64."""
    create_revision: int = 0
    """Of the decision that created it: the offset of its last event."""
    mod_revision: int = 0
    """Of the decision that put it last."""
    version: int = 0
    """How often it was put since it was created."""
    lease: int = 0
    """0: none."""
    changed_ms: int = 0


def show(key: KeyValue, before: KeyRow, stamp: Stamp) -> KeyRow:
    """The key, and when it was put."""
    return row_of(KeyRow, key, changed_ms=stamp.time_ms)


VIEW = showing("keys", "Keys and their values, by name.", KeyRow(), {"key": ("", show)})
