"""What is said of lives when two voters connect: a directory that went back to an older copy is told so.

Rules: each start of a voter is a life (consensus/storage/directory.py). A voter says its life to whom it dials; who is
dialed answers with the life it met last of that voter's directory. A life that is not in the voter's own list was
lived by another copy: the voter may not vote, durably, before it goes on (``judge``). Who is dialed keeps the life it
met, durably, before it hears a word on that link (``meet``).

Theory. So whoever has heard a life speak tells it to every other copy of the directory before that one is heard. Of two
copies that run at once each peer hears one at a time: a link of one ends the other's, which is told of the life met
since when it dials again, and forgets. A copy comes back only by asking every other voter after it was last told
(``Rejoin`` begins anew each time), and asking takes the links over; so when one may vote, the other can say nothing to
anybody without being told. (docs/adr/0049.)
"""

from collections.abc import Callable
from typing import Final

from quorate.consensus.ports import DiskWorker, NodeId
from quorate.consensus.raft.founding import directory_bytes, directory_text
from quorate.consensus.storage.directory import Directory
from quorate.consensus.transport.codec import NO_LIFE

LIVED_ELSEWHERE: Final = (
    "node {peer} has met this voter in a life that this directory has not lived ({life}): it is an older copy, or "
    "another copy of it runs, and what was voted and acknowledged then is not known here"
)

Done = Callable[[], None]


class Lives:
    """One voter's side of it. Sans-I/O; on the loop. ``forget``: see RaftEngine."""

    def __init__(self, directory: Directory, worker: DiskWorker | None, forget: Callable[[str, Done], None]) -> None:
        self._directory = directory
        self._worker = worker
        self._forget = forget

    @property
    def life(self) -> bytes:
        """This one's id, 16 bytes."""
        return directory_bytes(self._directory.life) if self._directory.life else NO_LIFE

    def met(self, peer: NodeId, incarnation: bytes) -> bytes:
        """The life met last of a directory of the peer; ``NO_LIFE`` if none was."""
        peer_life = self._directory.met(peer)
        if peer_life is None or directory_bytes(peer_life.incarnation) != incarnation:
            return NO_LIFE
        return directory_bytes(peer_life.life)

    def judge(self, peer: NodeId, our_life: bytes, done: Done) -> None:
        """The peer says which life of ours it met last. ``done`` is called when it may hear this one."""
        life = directory_text(our_life)
        if our_life == NO_LIFE or self._directory.knows(life):
            done()
        else:
            self._forget(LIVED_ELSEWHERE.format(peer=peer, life=life), done)

    def meet(self, peer: NodeId, incarnation: bytes, life: bytes, previous_life: bytes, done: Done) -> bool:
        """A proven life of the peer, who was told of ``previous_life``. ``done``, once it is durable, opens the link.

        False: another one was met in between, of which this one must be told first.
        """
        last_life = self.met(peer, incarnation)
        if last_life not in (previous_life, life):
            return False
        if last_life == life and self._directory.met_durably(peer):
            done()
        else:
            self._directory.meet(peer, directory_text(incarnation), directory_text(life), self._worker, done)
        return True
