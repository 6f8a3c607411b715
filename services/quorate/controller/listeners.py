"""What the parts of a node hear of it: what is applied, when it may decide, what was committed, who went silent.

Rules: a part overrides what it wants to hear; each is told in the order in which the composition named them, one after
the other, in the turn in which it happened. Nobody is told of what was before he was named. Who overrides nothing costs
nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import ClassVar

from quorate.consensus.ports import Index, LeaderCause, Term
from quorate.controller.live import LiveEntry
from quorate.controller.messages import BrokersClosed, SumsMessage
from quorate.events import Event


class Listener:
    """Hears nothing, unless it says otherwise."""

    concerns: ClassVar[frozenset[type[Event]] | None] = None
    """The kinds of events for which ``committed`` is called; None: all. Most commits concern few parts."""

    # -- of the machine, in this order

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """This node leads, with what it must know of that; or, without a cause, leads no more. (It decides later.)"""

    def disowned(self, index: Index) -> None:
        """An entry that this node decided in the term it leads came back committed, and was not executed."""

    def slice_end(self) -> None:
        """A slice of entries is applied, stored and published."""

    def installed(self, index: Index) -> None:
        """A snapshot took the place of every entry up to ``index``: what became of each of them was not seen here."""

    def applied(self, end_offset: int) -> None:
        """Events were applied, in a slice or by a snapshot: the new high watermark."""

    def kept(self, index: Index, term: Term) -> None:
        """A ``groups`` entry of the slice was executed."""

    def leader_recorded(self) -> None:
        """An entry was executed that says who leads from now on, whichever node it is."""

    def leases_touched(self, rows: Iterable[bytes]) -> None:
        """An entry was executed that changed leases; theirs are among these rows."""

    # -- of the controller

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

    def clock_said(self, text: str, ahead_ms: int) -> None:
        """What an operator should hear about this node's clock, and how far it is ahead of a majority's (below 0:
        behind).
        """

    # -- of the node

    def directories_named(self) -> None:
        """The log may name other directories of voters than before."""

    def stopping(self) -> None:
        """The node serves nothing more."""


class WhenApplied(Listener):
    """Calls ``call`` with each new high watermark."""

    def __init__(self, call: Callable[[int], None]) -> None:
        self._call = call

    def applied(self, end_offset: int) -> None:
        """Call it."""
        self._call(end_offset)


_NAMES = tuple(name for name, value in vars(Listener).items() if callable(value) and not name.startswith("_"))


_Committing = tuple[Callable[[Sequence[tuple[int, Event]]], None], frozenset[type[Event]] | None]


@cache
def _overridden(kind: type[Listener]) -> tuple[str, ...]:
    """What such a listener wants to hear."""
    return tuple(name for name in _NAMES if getattr(kind, name) is not getattr(Listener, name))


class Listeners(Listener):
    """Several as one, in order."""

    def __init__(self) -> None:
        self._all: tuple[Listener, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._who: dict[str, tuple[Callable[..., None], ...]] = dict.fromkeys(_NAMES, ())
        """Of each name what overrides it, in order."""
        self._committing: tuple[_Committing, ...] = ()

    def add(self, *listeners: Listener) -> None:
        """Tell these too, after the others."""
        self._all += listeners
        for listener in listeners:
            for name in _overridden(type(listener)):  # type: ignore[arg-type]  # mypy asks the class its hash.
                self._who[name] += (getattr(listener, name),)
                if name == "committed":
                    self._committing += ((listener.committed, listener.concerns),)

    def remove(self, listener: Listener) -> None:
        """Tell it nothing more."""
        others = [other for other in self._all if other is not listener]
        self._all = ()
        self._forget()
        self.add(*others)

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """Tell each who leads."""
        for tell in self._who["leadership"]:
            tell(term, cause)

    def disowned(self, index: Index) -> None:
        """Tell each that this node's entry was not executed."""
        for tell in self._who["disowned"]:
            tell(index)

    def slice_end(self) -> None:
        """Tell each that a slice is stored."""
        for tell in self._who["slice_end"]:
            tell()

    def installed(self, index: Index) -> None:
        """Tell each that a snapshot is the state now."""
        for tell in self._who["installed"]:
            tell(index)

    def applied(self, end_offset: int) -> None:
        """Tell each how far the log is applied."""
        for tell in self._who["applied"]:
            tell(end_offset)

    def kept(self, index: Index, term: Term) -> None:
        """Tell each which entry of groups was executed."""
        for tell in self._who["kept"]:
            tell(index, term)

    def leader_recorded(self) -> None:
        """Tell each that there is another leader."""
        for tell in self._who["leader_recorded"]:
            tell()

    def leases_touched(self, rows: Iterable[bytes]) -> None:
        """Tell each which rows changed."""
        for tell in self._who["leases_touched"]:
            tell(rows)

    def opened(self, term: int) -> None:
        """Tell each that this node decides."""
        for tell in self._who["opened"]:
            tell(term)

    def lost(self) -> None:
        """Tell each that it decides no more."""
        for tell in self._who["lost"]:
            tell()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Tell each what is applied."""
        kinds = {event.__class__ for _, event in events}
        for tell, concerns in self._committing:
            if concerns is None or not concerns.isdisjoint(kinds):
                tell(events)

    def suspected(self, suspects: list[LiveEntry]) -> None:
        """Tell each who is suspected."""
        for tell in self._who["suspected"]:
            tell(suspects)

    def closed_elsewhere(self, peer: int, note: BrokersClosed) -> None:
        """Tell each what another controller saw."""
        for tell in self._who["closed_elsewhere"]:
            tell(peer, note)

    def revived(self, entry: LiveEntry) -> None:
        """Tell each who is heard again."""
        for tell in self._who["revived"]:
            tell(entry)

    def sums_told(self, peer: int, message: SumsMessage) -> None:
        """Tell each another controller's sums."""
        for tell in self._who["sums_told"]:
            tell(peer, message)

    def clock_said(self, text: str, ahead_ms: int) -> None:
        """Tell each what the clock did."""
        for tell in self._who["clock_said"]:
            tell(text, ahead_ms)

    def directories_named(self) -> None:
        """Tell each that the log may name other directories."""
        for tell in self._who["directories_named"]:
            tell()

    def stopping(self) -> None:
        """Tell each that the node ends."""
        for tell in self._who["stopping"]:
            tell()
