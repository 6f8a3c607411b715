"""Old batches of the event log, read from the store beside the loop, for readers who can wait.

Rules: the loop asks; the reader's thread reads and checks; the loop tells who asked, and until it has told all of them
what was read is at hand. Nothing is kept after that. One read goes on at a time, and each has a bound, so memory has
one; who asks for what is being read waits with the others. A read that fails brings nothing: who asked then reads by
itself, on the loop, and is told what is wrong there.
"""

from collections.abc import Callable
from contextlib import suppress

from quorate.consensus.ports import DiskWorker
from quorate.errors import StorageError

Place = tuple[int, int, int]
"""First offset, most bytes, and where the log ends: what one read gives."""


class ColdReads:
    """``read``: whole batches for a place, from any thread. Raises StorageError."""

    def __init__(self, worker: DiskWorker, read: Callable[[int, int, int], list[bytes]]) -> None:
        self._worker = worker
        self._read = read
        self._waiting: dict[Place, list[Callable[[], None]]] = {}
        """Who is told of what; the oldest first, which is the one being read."""
        self._at_hand: tuple[int, list[bytes]] | None = None

    def find(self, offset: int) -> list[bytes] | None:
        """What was read from there on, while those who asked are told."""
        return self._at_hand[1] if self._at_hand is not None and self._at_hand[0] == offset else None

    def ask(self, place: Place, done: Callable[[], None]) -> None:
        """Read it, and call ``done`` when it is at hand, or cannot be."""
        waiting = self._waiting.setdefault(place, [])
        waiting.append(done)
        if len(waiting) == len(self._waiting) == 1:
            self._begin()

    def _begin(self) -> None:
        place, found = next(iter(self._waiting)), list[list[bytes]]()

        def read() -> None:
            with suppress(StorageError):  # Who asked meets it on the loop, where it is told.
                found.append(self._read(*place))

        self._worker.submit(read, lambda: self._ended(place, found))

    def _ended(self, place: Place, found: list[list[bytes]]) -> None:
        told = self._waiting.pop(place)
        if self._waiting:
            self._begin()
        self._at_hand = (place[0], found[0]) if found else None
        for done in told:
            done()
        self._at_hand = None
