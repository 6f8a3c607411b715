"""What the parts of a node hear of their controller: when it may decide, what was committed, who went silent.

Rules: a part overrides what it wants to hear; each is told in the order in which the composition named them, one after
the other, in the turn in which it happened. Nobody is told of what was before he was named.
"""

from collections.abc import Sequence

from quorate.controller.live import LiveEntry
from quorate.controller.messages import BrokersClosed, SumsMessage
from quorate.events import Event


class Listener:
    """Hears nothing, unless it says otherwise."""

    def opened(self, term: int) -> None:
        """This node has become the deciding leader."""

    def lost(self) -> None:
        """It may no longer decide."""

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """What was decided here is applied: offset and event, all of a slice together. Also after ``lost``."""

    def suspected(self, suspects: list[LiveEntry]) -> None:
        """The channel of these brokers just closed here."""

    def closed_elsewhere(self, peer: int, note: BrokersClosed) -> None:
        """Another controller saw its channel to these brokers close."""

    def revived(self, entry: LiveEntry) -> None:
        """A broker is heard that was not, or was dead."""

    def sums_told(self, peer: int, message: SumsMessage) -> None:
        """What another controller's state adds up to."""


class Listeners(Listener):
    """Several as one, in order."""

    def __init__(self) -> None:
        self._all: tuple[Listener, ...] = ()

    def add(self, *listeners: Listener) -> None:
        """Tell these too, after the others."""
        self._all += listeners

    def opened(self, term: int) -> None:
        """Tell each that this node decides."""
        for listener in self._all:
            listener.opened(term)

    def lost(self) -> None:
        """Tell each that it decides no more."""
        for listener in self._all:
            listener.lost()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Tell each what is applied."""
        for listener in self._all:
            listener.committed(events)

    def suspected(self, suspects: list[LiveEntry]) -> None:
        """Tell each who is suspected."""
        for listener in self._all:
            listener.suspected(suspects)

    def closed_elsewhere(self, peer: int, note: BrokersClosed) -> None:
        """Tell each what another controller saw."""
        for listener in self._all:
            listener.closed_elsewhere(peer, note)

    def revived(self, entry: LiveEntry) -> None:
        """Tell each who is heard again."""
        for listener in self._all:
            listener.revived(entry)

    def sums_told(self, peer: int, message: SumsMessage) -> None:
        """Tell each another controller's sums."""
        for listener in self._all:
            listener.sums_told(peer, message)
