"""Who may stay when a listener is full: one rule for every listener, the page's and the views' too.

Rules: a connection is *proven* once a request of it was answered; never by a heartbeat, which is free. One address has
so many proven connections and no more, and all proven ones together leave a reserve. When every place is taken, the
connection that has gone longest without an answer goes, of those that are not proven, whatever bytes it dribbled: so
whoever comes and asks at once (a probe, a new client, a broker that returns) is served, however many sit there in
silence. No sockets and no clock in here: all that counts is the order in which connections came and were answered.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

G = TypeVar("G")


def _never(_: object) -> bool:
    return False


class Admission(Generic[G]):
    """The places of one listener.

    ``busy``: is a request of it under way? It is passed over while another can go. ``known``: does the cluster know it
    (a registered broker)? Then it is proven, whatever its address. Both are asked only when the listener is full.
    """

    def __init__(
        self,
        *,
        places: int,
        reserved: int,
        per_address: int,
        busy: Callable[[G], bool] = _never,
        known: Callable[[G], bool] = _never,
    ) -> None:
        self._places = places
        self._proven_max = places - min(reserved, places // 2)
        self._per_address = per_address
        self._busy = busy
        self._known = known
        self._unproven: OrderedDict[G, str] = OrderedDict()
        """Guest → its address; the one that has gone longest without an answer comes first."""
        self._proven: dict[G, str] = {}
        """Guest → its address, empty for one that does not count against ``per_address``."""
        self._of_address: dict[str, int] = {}
        self.evicted = 0
        """Connections closed to make room, those turned away at once among them."""

    def __len__(self) -> int:
        """Guests inside."""
        return len(self._unproven) + len(self._proven)

    def __contains__(self, guest: G) -> bool:
        """Is it inside?"""
        return guest in self._unproven or guest in self._proven

    def guests(self) -> list[G]:
        """All inside."""
        return [*self._unproven, *self._proven]

    def enter(self, guest: G, address: str) -> G | None:
        """One more; answers who must be closed for it: nobody, another, or itself. Who is named is no longer inside."""
        self._unproven[guest] = address
        if len(self) <= self._places:
            return None
        self.evicted += 1
        leaving = self._idlest(guest)
        del self._unproven[leaving]
        return leaving

    def _idlest(self, newest: G) -> G:
        """The first that is neither known nor busy; then the first that is busy; then the newest."""
        known = []
        leaving = busy = None
        for guest in self._unproven:  # The newest is the last of them.
            if guest is newest:
                break
            if self._known(guest):
                known.append(guest)
            elif not self._busy(guest):
                leaving = guest
                break
            elif busy is None:
                busy = guest
        for guest in known:
            del self._unproven[guest]
            self._proven[guest] = ""
        return leaving if leaving is not None else busy if busy is not None else newest

    def answered(self, guest: G) -> bool:
        """A request of it was answered; answers whether it is proven, so that nothing more need be said of it."""
        address = self._unproven.get(guest)
        if address is None:
            return True
        already = self._of_address.get(address, 0)
        if already >= self._per_address or len(self._proven) >= self._proven_max:
            self._unproven.move_to_end(guest)
            return False
        del self._unproven[guest]
        self._proven[guest] = address
        self._of_address[address] = already + 1
        return True

    def leave(self, guest: G) -> bool:
        """It is gone; answers whether it was inside."""
        if self._unproven.pop(guest, None) is not None:
            return True
        address = self._proven.pop(guest, None)
        if address:
            left = self._of_address[address] - 1
            if left:
                self._of_address[address] = left
            else:
                del self._of_address[address]
        return address is not None
