"""Limits that all nodes must share: the leader records its own where the log says nothing, and the log's hold.

Rules: nothing here decides what holds (metadata/limits.py does, from the state alone); a node whose own settings are
others says so, and goes on with the log's.
"""

from collections.abc import Mapping

from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Caller, Outcome
from quorate.metadata.commands import ChangeConfig
from quorate.metadata.limits import SCOPE, overruled, unrecorded


class SettingsAgreement(Listener):
    """Has the leader record the limits that all nodes must share. One per node."""

    def __init__(self, controller: Controller, own: Mapping[str, float]) -> None:
        self._controller = controller
        self._own = own

    def overruled(self) -> tuple[str, ...]:
        """Which of this node's settings the log overrules, a sentence each; before the cluster is founded, none."""
        state = self._controller.state
        return () if state.cluster is None else tuple(overruled(state, self._own))

    def opened(self, term: int) -> None:
        """Leading: record what no leader has recorded. Who leads next tries again, if this comes to nothing."""
        missing = unrecorded(self._controller.state, self._own)
        if missing:
            caller = Caller(f"node/{self._controller.node_id}", "")
            command = ChangeConfig(scope=SCOPE, changes=dict(missing))
            self._controller.submit(command, caller, _ended, cause="limits", forward=False)


def _ended(outcome: Outcome) -> None:
    """Whatever it was: the log says what holds."""
