"""Subjects of the schema registry, a page at a time by name: which schema is the newest, and how the next is checked.

Rules: those of other services; the log's own come with a build and are no facts. Deleted versions are left out, and so
is a subject that has no other.
"""

from itertools import islice
from typing import Final

import msgspec

from quorate.model.subjects import level_in_force, living_versions, own_level
from quorate_spark.dashboard.panels.view import View

LIMIT_MAX: Final = 500


class SubjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """One subject."""

    subject: str
    version: int
    """The newest."""
    id: int
    """Of its schema."""
    versions: int
    """How many there are."""
    compatibility: str
    """By which level the next one is checked."""
    own: bool
    """That level was set for this subject; else it is that of all."""
    offset: int
    """The last event about its versions."""
    t: int
    by: str


class Subjects(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/subjects."""

    subjects: list[SubjectRow]
    total: int
    next: str | None
    """``from`` of the next page."""


def subjects(view: View, start: str, limit: int) -> Subjects:
    """A page of them."""
    names = sorted(name for name, subject in view.state.model.subjects.items() if living_versions(subject))
    page = list(islice((name for name in names if name >= start), limit + 1))
    return Subjects(
        subjects=[_row(view, name) for name in page[:limit]],
        total=len(names),
        next=page[limit] if len(page) > limit else None,
    )


def _row(view: View, name: str) -> SubjectRow:
    state, spool = view.state.model, view.log.spool
    living, last = living_versions(state.subjects[name]), next(spool.of_key(f"subject/{name}", view.offset))
    return SubjectRow(
        subject=name,
        version=living[-1].version,
        id=living[-1].schema_id,
        versions=len(living),
        compatibility=level_in_force(state, name),
        own=bool(own_level(state, name)),
        offset=last,
        t=spool.times[last],
        by=spool.principal_names.texts[spool.principals[last]],
    )
