"""When a node takes a turn, and what happens to it when one goes wrong.

Rules: a turn is asked for by frames, proposals, finished syncs and the timer, and taken once for all of them. Whatever
raises inside, but a peer's fault, leaves a state that cannot be explained: the node stops (fail-stop).
"""

from collections.abc import Callable

from quorate.clock import Scheduler
from quorate.errors import PeerError


class Turns:
    """Owns whether the node runs, and whether a turn is asked for or under way."""

    def __init__(self, scheduler: Scheduler, turn: Callable[[], None], fatal: Callable[[Exception], None]) -> None:
        self._scheduler = scheduler
        self._turn = turn
        self._fatal = fatal
        self.running = False
        self.asked = False
        self.under_way = False

    def ask(self) -> None:
        """Many asks, one turn."""
        if not self.asked and self.running:
            self.asked = True
            self._scheduler.call_soon(self._asked_for)

    def _asked_for(self) -> None:
        if self.asked:  # Else a finished sync took it.
            self._scheduler.take_turn(self.take)

    def take(self) -> None:
        """Nothing in a turn is a peer's fault, also not what cannot be decoded: it is committed."""
        self.asked = False
        if self.running:
            self.under_way = True
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - fail-stop, whatever it was
                self._fatal(error)
            self.under_way = False

    def step(self, action: Callable[..., None], *arguments: object) -> None:
        """Something outside of a turn. Raises PeerError."""
        try:
            action(*arguments)
        except PeerError:
            raise
        except Exception as error:  # noqa: BLE001 - fail-stop, whatever it was
            self._fatal(error)
