"""What is asked about subjects of schemas: which versions there are, and how the next one is checked.

Rules: pure. The level in force is the subject's own (scope ``subject/<name>``, ``compatibility``), else that of all
(scope ``cluster``, ``schemas.compatibility``), else ``UNSAID``.
"""

from typing import Final

from quorate.model.brokers import values
from quorate.model.state import State, Subject, SubjectVersion

LEVELS: Final = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")
UNSAID: Final = "BACKWARD"
"""The level where nobody set one, as Confluent's."""
COMPATIBILITY: Final = "compatibility"
"""In a ``subject/<name>`` scope: how its next schema is checked."""
SCHEMAS_COMPATIBILITY: Final = "schemas.compatibility"
"""In the scope ``cluster``: the same, of every subject that has none of its own."""


def is_level(text: str) -> bool:
    """Is it the name of a compatibility level?"""
    return text in LEVELS


def level_in_force(state: State, subject: str) -> str:
    """The compatibility level of a subject; of an empty name: of all that have none of their own."""
    level = own_level(state, subject) or values(state, "cluster").get(SCHEMAS_COMPATIBILITY, "")
    return level if is_level(level) else UNSAID


def own_level(state: State, subject: str) -> str:
    """The level that was set for this subject; empty: none."""
    return values(state, f"subject/{subject}").get(COMPATIBILITY, "")


def living_versions(subject: Subject | None) -> tuple[SubjectVersion, ...]:
    """Those that are not deleted."""
    return () if subject is None else tuple(one for one in subject.versions if not one.deleted)
