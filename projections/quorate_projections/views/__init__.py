"""The catalogue of views: one file each; a new one is a file and a line here."""

from typing import Any, Final

from quorate_projections.views import (
    audit,
    broker_availability,
    broker_sets,
    configs,
    controller_terms,
    elections,
    keys,
    leases,
    members,
    routes,
    schemas,
    segments,
    sessions,
    shards,
    subjects,
    topics,
    wills,
)
from quorate_projections.views.view import View

VIEWS: Final[tuple[View[Any, Any], ...]] = (
    broker_sets.VIEW,
    routes.VIEW,
    elections.VIEW,
    topics.VIEW,
    configs.VIEW,
    keys.VIEW,
    leases.VIEW,
    members.VIEW,
    schemas.VIEW,
    subjects.VIEW,
    shards.VIEW,
    segments.VIEW,
    sessions.VIEW,
    wills.VIEW,
    broker_availability.VIEW,
    controller_terms.VIEW,
    audit.VIEW,
)
"""In the order they are listed."""

__all__ = ["VIEWS", "View"]
