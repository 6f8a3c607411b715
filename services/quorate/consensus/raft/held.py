"""What vouches for something that is not on disk yet waits here."""

from collections import deque

import msgspec

from quorate.consensus.ports import NodeId, Term


class _HeldFrame(msgspec.Struct, frozen=True, gc=False):
    need: int
    term: Term
    peer: NodeId
    frame: bytes
    is_ack: bool


class HeldFrames:
    """Acks, votes and vote requests, each waiting until every journal operation queued before it is durable.

    A frame is complete when it is put here: stamped with the term and sequence of *then*. One of an older term is
    dropped at release. Consecutive acks to one peer that wait for the same operation are one ack.
    """

    def __init__(self) -> None:
        self._frames: deque[_HeldFrame] = deque()

    def clear(self) -> None:
        """What waits shall not leave: the node has learned that it must not vouch for anything."""
        self._frames.clear()

    def __len__(self) -> int:
        return len(self._frames)

    def hold(self, need: int, term: Term, peer: NodeId, frame: bytes, *, progress: bool = False) -> None:
        """``need``: the journal's ``seq`` now. ``progress``: a plain success ack, superseded by the next one."""
        frames = self._frames
        if progress and frames:
            last = frames[-1]
            if last.is_ack and last.peer == peer and last.need == need and last.term == term:
                frames.pop()
        frames.append(_HeldFrame(need, term, peer, frame, progress))

    def release(self, durable_seq: int, term: Term) -> list[tuple[NodeId, bytes]]:
        """Take out, in order, what may leave."""
        frames = self._frames
        out: list[tuple[NodeId, bytes]] = []
        while frames and frames[0].need <= durable_seq:
            held = frames.popleft()
            # An ack or vote of an older term helps nobody: its receiver has moved on, or will once it hears of ours.
            if held.term == term:
                out.append((held.peer, held.frame))
        return out
