"""The worker's HTTP listener: Faust's own, behind our rules of who may stay and who may ask (``quorate.guarded_web``).

Nothing else of Faust's web is changed; what is used of its inside is gated by tests.
"""

from typing import Any, Final

from faust.web.drivers.aiohttp import Web

from quorate.descriptors import SPARE, STORE_SPARE
from quorate.guarded_web import GuardedRunner
from quorate.listening import ListeningLimits, fitted
from quorate.origins import allowed_names
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import OPEN_FILES_MAX

BESIDE: Final = SPARE + 2 * (OPEN_FILES_MAX + STORE_SPARE)
"""Descriptors of all else: a rebuild's rows are open beside those that are served."""


def limits(settings: ProjectionSettings) -> ListeningLimits:
    """The listener's, as the descriptors allow. Raises UsageError when they allow none."""
    asked = ListeningLimits(connections_max=settings.connections_max, head_timeout_s=settings.head_timeout_s)
    return fitted(asked, BESIDE)


class GuardedWeb(Web):
    """Faust's web driver on a listener of ours."""

    def __init__(self, app: Any, settings: ProjectionSettings) -> None:
        super().__init__(app)
        self._settings = settings
        allowed = allowed_names([settings.host, *filter(None, settings.names.split(","))], setting="names")
        self._runner: GuardedRunner = GuardedRunner(self.web_app, allowed)

    async def start_server(self) -> None:
        """Listen. Raises UsageError, OSError."""
        await self._runner.listen(self._settings.host, self._settings.port, limits(self._settings))
