"""What a disk holds, read from its bytes as they become durable, frame by frame.

Rules: the bytes alone count; nothing is asked of the process that wrote them. The layout of frames is production's
(``journal_frames``), the replay is this module's own, so that what a journal believes does not count.
"""

from collections.abc import Callable

from quorate.consensus.journal.frames import (
    APPEND,
    BASE,
    FRAMES_AT,
    RESET,
    TRUNCATE,
    VOTE,
    Frame,
    decode_frame,
    decode_header,
    decode_vote,
    seed_of,
    segment_name,
)
from quorate.consensus.ports import Index, NodeId, Term
from tests.sim.cluster import Host


class Image:
    """Term, vote and entries as of the last durable operation: ``invariants.Durable``."""

    def __init__(self) -> None:
        self.term = Term(0)
        self.voted_for: NodeId | None = None
        self.base_index = Index(0)
        self.last_index = Index(0)
        self._terms: dict[int, Term] = {}

    def term_at(self, index: Index) -> Term | None:
        """Term of the entry at ``index``, the base included."""
        return self._terms.get(index)

    def begin(self, base: Index, base_term: Term) -> None:
        """Nothing but a base."""
        self.base_index = self.last_index = base
        self._terms = {base: base_term}

    def execute(self, frame: Frame) -> None:
        """Repeat one operation."""
        _OPERATIONS[frame.kind](self, Index(frame.index), Term(frame.term))

    def _append(self, index: Index, term: Term) -> None:
        self._terms[index] = term
        self.last_index = index

    def _truncate(self, index: Index, _term: Term) -> None:
        for gone in range(index, self.last_index + 1):
            self._terms.pop(gone, None)
        self.last_index = Index(index - 1)

    def _vote(self, number: Index, term: Term) -> None:
        self.term, self.voted_for = term, decode_vote(number)

    def _base(self, index: Index, term: Term) -> None:
        for gone in range(self.base_index, index):
            self._terms.pop(gone, None)
        self._terms[index] = term
        self.base_index = index


_OPERATIONS: dict[int, Callable[[Image, Index, Term], None]] = {
    APPEND: Image._append,
    TRUNCATE: Image._truncate,
    VOTE: Image._vote,
    RESET: Image.begin,
    BASE: Image._base,
}


class DiskImageReader:
    """Implements ``invariants.Reader``: reads on where it stopped, or from the start after a crash."""

    def __init__(self) -> None:
        self._images: dict[NodeId, Image] = {}
        self._at: dict[NodeId, tuple[int, int, int]] = {}

    def reset(self, host: Host) -> Image:
        """Read all of it."""
        self._images.pop(host.node_id, None)
        return self.refresh(host)

    def refresh(self, host: Host) -> Image:
        """Read what was synced since."""
        node, files = host.node_id, host.disk.image
        image = self._images.get(node)
        if image is None:
            image = self._images[node] = Image()
            self._at[node] = (0, 0, 0)
        segment, offset, seq = self._at[node]
        while True:
            content = files.get(segment_name(segment))
            if content is not None:
                offset, seq = self._replay(image, content, offset, seq, seed_of(segment))
            following = self._next_segment(files, segment)
            if following is None:
                break
            segment, offset = following, FRAMES_AT
            if seq == 0:
                seq = self._enter(image, files[segment_name(segment)])
        self._at[node] = (segment, offset, seq)
        return image

    @staticmethod
    def _replay(image: Image, content: bytearray, offset: int, seq: int, seed: int) -> tuple[int, int]:
        """Execute what is next in this segment; (offset, operation) behind it."""
        with memoryview(content) as view:
            while (frame := decode_frame(view, offset, seed)) is not None and frame.intact and frame.seq == seq + 1:
                image.execute(frame)
                offset, seq = frame.end, frame.seq
        return offset, seq

    @staticmethod
    def _next_segment(files: dict[str, bytearray], segment: int) -> int | None:
        """The oldest begun segment after this one."""
        later = [name for name in files if name.endswith(".journal") and name > segment_name(segment)]
        for name in sorted(later):
            if decode_header(bytes(files[name][:256])) is not None:
                return int(name.partition(".")[0], 16)
        return None

    @staticmethod
    def _enter(image: Image, content: bytearray) -> int:
        """Take over what the first segment that is left says about those before it."""
        header = decode_header(bytes(content[:256]))
        assert header is not None
        image.begin(header.last.index, header.last.term)
        image.base_index = min(header.base.index, header.last.index)
        image.term, image.voted_for = header.term, header.voted_for
        return header.start_seq - 1
