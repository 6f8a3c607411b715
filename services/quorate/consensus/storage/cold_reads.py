"""Old batches of the event log, read from the store beside the loop, for readers who can wait.

Rules: the loop asks; the reader's thread reads and checks; the loop tells who asked, and until it has told them what
was read is at hand. Nothing is kept after that. One read goes on at a time, and each has a bound; who asks for what is
being read waits with the others, some of whom are told in one turn and the rest after another read. Who wants it no
more is not read for, and leaves. A read that fails brings nothing: who asked then reads by itself, on the loop, and is
told what is wrong there.
"""

from collections.abc import Callable
from contextlib import suppress

from quorate.consensus.ports import DiskWorker
from quorate.errors import StorageError

TOLD_MAX = 32
"""Who is told in one turn: each makes an answer of it."""
SWEEP_FROM = 1000
"""With so many waiting, those who want nothing any more are looked for; then with twice as many as are left."""

Place = tuple[int, int]
"""First offset, and most bytes: what one read gives."""
Asker = tuple[Callable[[], None], Callable[[], bool]]
"""What to call, and whether that is wanted still."""


class ColdReads:
    """``read``: whole batches for a place, from any thread. Raises StorageError."""

    def __init__(self, worker: DiskWorker, read: Callable[[int, int], list[bytes]]) -> None:
        self._worker = worker
        self._read = read
        self._waiting: dict[Place, list[Asker]] = {}
        """The oldest first."""
        self._count = 0
        self._sweep_at = SWEEP_FROM
        self._reading = False
        self._at_hand: tuple[int, list[bytes]] | None = None
        self.times: dict[int, tuple[int, int] | None] = {}
        """What ``look`` found, while who asked is told."""

    def find(self, offset: int) -> list[bytes] | None:
        """What was read from there on, while those who asked are told."""
        return self._at_hand[1] if self._at_hand is not None and self._at_hand[0] == offset else None

    def ask(self, place: Place, done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        """Read it, and call ``done`` when it is at hand, or cannot be. Not if it is not ``wanted`` then."""
        self._waiting.setdefault(place, []).append((done, wanted))
        self._count += 1
        if self._count >= self._sweep_at:
            self._sweep()
            self._sweep_at = max(SWEEP_FROM, 2 * self._count)
        self._begin()

    def look(
        self,
        search: Callable[[], dict[int, tuple[int, int] | None]],
        done: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        """Search on the thread; call ``done`` when that has ended, if it is ``wanted`` still: what was found is at hand
        in that call alone, and nothing if the search failed.
        """
        found: dict[int, tuple[int, int] | None] = {}

        def read() -> None:
            with suppress(StorageError):
                found.update(search())

        def ended() -> None:
            self.times = found
            if wanted():
                done()
            self.times = {}

        self._worker.submit(read, ended)

    def _sweep(self) -> None:
        left = {place: [asker for asker in askers if asker[1]()] for place, askers in self._waiting.items()}
        self._waiting = {place: askers for place, askers in left.items() if askers}
        self._count = sum(map(len, self._waiting.values()))

    def _begin(self) -> None:
        """Read for the oldest that somebody wants, unless a read goes on."""
        while self._waiting and not self._reading:
            place = next(iter(self._waiting))
            if any(wanted() for _, wanted in self._waiting[place]):
                self._reading = True
                self._submit(place)
            else:
                self._count -= len(self._waiting.pop(place))

    def _submit(self, place: Place) -> None:
        found: list[list[bytes]] = []

        def read() -> None:
            with suppress(StorageError):  # Who asked meets it on the loop, where it is told.
                found.append(self._read(*place))

        self._worker.submit(read, lambda: self._ended(place, found))

    def _ended(self, place: Place, found: list[list[bytes]]) -> None:
        askers = self._waiting.pop(place, [])
        if askers[TOLD_MAX:]:
            self._waiting[place] = askers[TOLD_MAX:]  # Behind those who wait for another.
        self._count -= len(askers[:TOLD_MAX])
        self._at_hand = (place[0], found[0]) if found else None
        for done, wanted in askers[:TOLD_MAX]:
            if wanted():
                done()
        self._at_hand, self._reading = None, False
        self._begin()
