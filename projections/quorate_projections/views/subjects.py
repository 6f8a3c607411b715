"""The view ``subjects``: every subject of the schema registry with its versions, by name."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Subject
from quorate_projections.views.view import row_of, showing


class VersionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One version."""

    version: int
    schema_id: int
    deleted: bool = False


class SubjectRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A subject, and when it changed."""

    subject: str = ""
    versions: tuple[VersionRow, ...] = ()
    """In order."""
    changed_ms: int = 0


def show(subject: Subject, before: SubjectRow, stamp: Stamp) -> SubjectRow:
    """The subject, and when a version came or went."""
    return row_of(SubjectRow, subject, changed_ms=stamp.time_ms)


VIEW = showing("subjects", "Subjects of schemas and their versions, by name.", SubjectRow(), {"subject": ("", show)})
