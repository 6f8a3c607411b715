"""Access and quota: two hooks that every gateway asks before a command or query leaves it.

Rules: an operation is the name of a command or query (``RegisterBroker``), a resource ``kind/name``
(``broker-set/b-1``) or ``cluster``; both hooks answer at once, from memory. A refused request has changed nothing.
"""

from typing import Protocol


class Access(Protocol):
    """Permission."""

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        """May this principal do this to that?"""


class Quota(Protocol):
    """Rate."""

    def admit(self, principal: str, operation: str) -> bool:
        """Is there room for one more now? Counts it when there is."""


class OpenAccess:
    """Everybody may do everything; the default, as in every Java controller to date."""

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        """Yes."""
        return True


class NoQuota:
    """There is always room."""

    def admit(self, principal: str, operation: str) -> bool:
        """Yes."""
        return True
