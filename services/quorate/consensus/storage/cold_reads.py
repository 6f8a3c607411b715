"""Old batches of the event log, and where a time lies among them, read from the store beside the loop, for readers who
can wait.

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
Times = frozenset[int]
"""Whose first events one search finds."""
Found = dict[int, tuple[int, int] | None]
"""Offset and time of the first event since each of them."""
Asker = tuple[Callable[[], None], Callable[[], bool]]
"""What to call, and whether that is wanted still."""


class ColdReads:
    """``read``: whole batches for a place; ``searching``, called on the loop: what searches for times. Both work from
    any thread, and raise StorageError.
    """

    def __init__(
        self,
        worker: DiskWorker,
        read: Callable[[int, int], list[bytes]],
        searching: Callable[[Times], Callable[[], Found]],
    ) -> None:
        self._worker = worker
        self._read = read
        self._searching = searching
        self._waiting: dict[Place | Times, list[Asker]] = {}
        """The oldest first."""
        self._count = 0
        self._sweep_at = SWEEP_FROM
        self._reading = False
        self._at_hand: tuple[int, list[bytes]] | Found | None = None

    def find(self, offset: int) -> list[bytes] | None:
        """What was read from there on, while those who asked are told."""
        at_hand = self._at_hand
        return at_hand[1] if isinstance(at_hand, tuple) and at_hand[0] == offset else None

    @property
    def times(self) -> Found:
        """What a search found, while those who asked are told."""
        return self._at_hand if isinstance(self._at_hand, dict) else {}

    def ask(self, wish: Place | Times, done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        """Read it, and call ``done`` when it is at hand, or cannot be. Not if it is not ``wanted`` then."""
        self._waiting.setdefault(wish, []).append((done, wanted))
        self._count += 1
        if self._count >= self._sweep_at:
            self._sweep()
            self._sweep_at = max(SWEEP_FROM, 2 * self._count)
        self._begin()

    def _sweep(self) -> None:
        left = {wish: [asker for asker in askers if asker[1]()] for wish, askers in self._waiting.items()}
        self._waiting = {wish: askers for wish, askers in left.items() if askers}
        self._count = sum(map(len, self._waiting.values()))

    def _begin(self) -> None:
        """Read for the oldest that somebody wants, unless a read goes on."""
        while self._waiting and not self._reading:
            wish = next(iter(self._waiting))
            if any(wanted() for _, wanted in self._waiting[wish]):
                self._reading = True
                try:
                    self._submit(wish)
                except StorageError:  # The thread has too much to do; the next who asks begins for all.
                    self._reading = False
                    return
            else:
                self._count -= len(self._waiting.pop(wish))

    def _finding(self, wish: Place | Times) -> Callable[[], tuple[int, list[bytes]] | Found]:
        return self._searching(wish) if isinstance(wish, frozenset) else lambda: (wish[0], self._read(*wish))

    def _submit(self, wish: Place | Times) -> None:
        found: list[tuple[int, list[bytes]] | Found] = []
        find = self._finding(wish)

        def read() -> None:
            with suppress(StorageError):  # Who asked meets it on the loop, where it is told.
                found.append(find())

        self._worker.submit(read, lambda: self._ended(wish, found))

    def _ended(self, wish: Place | Times, found: list[tuple[int, list[bytes]] | Found]) -> None:
        waited = self._waiting.pop(wish, [])
        askers = [asker for asker in waited if asker[1]()]
        if askers[TOLD_MAX:]:
            self._waiting[wish] = askers[TOLD_MAX:]  # Behind those who wait for another.
        self._count -= len(waited) - len(askers[TOLD_MAX:])
        self._at_hand = found[0] if found else None
        for done, wanted in askers[:TOLD_MAX]:
            if wanted():
                done()
        self._at_hand, self._reading = None, False
        self._begin()
