"""The coordinator of consumer groups of one node, put together as ``gateway.kafka.server`` does.

Rules: production's ``Groups`` and ``GroupOffsets`` over the node's own ``GroupWriter``; no socket, no bytes of Kafka.
"""

from collections.abc import Callable
from random import Random

from quorate.clock import Scheduler
from quorate.controller import GroupWriter
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.offsets import GroupOffsets
from quorate.gateway.kafka.settings import KafkaSettings


class Desk:
    """The coordinator of one node."""

    def __init__(self, writer: GroupWriter, scheduler: Scheduler, chance: Random, leads: Callable[[], int]) -> None:
        settings = KafkaSettings(
            group_session_timeout_min_ms=100,
            group_initial_delay_s=0.02,
            group_rows_per_sweep=5,
        )
        self.groups = Groups(settings, scheduler, chance, writer)
        self.offsets = GroupOffsets(settings, scheduler, self.groups, writer)
        self._leads = leads
        self._term = 0
        self._scheduler = scheduler
        self._sweep()

    def coordinates(self) -> bool:
        """As ``KafkaServer._coordinates``: members of an earlier term are sent away, its own are had again."""
        term = self._leads()
        if term != self._term:
            self._term = term
            if term:
                self.groups.restore()
            else:
                self.groups.clear()
        return term != 0

    def _sweep(self) -> None:
        if self.coordinates():
            self.groups.sweep()
            self.offsets.sweep()
        self._scheduler.call_later(0.2, self._sweep)
