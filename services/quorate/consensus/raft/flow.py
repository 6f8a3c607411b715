"""What a leader remembers of one follower in its term (docs/consensus.md, BUG 2 and BUG 6).

Rules: values and counting only; ``Replication`` sends, and asks here what an answer may still mean.
"""

from collections import deque

from quorate.consensus.ports import Index

_SURE_MAX = 64
"""AppendEntries per follower whose answers can prove a loss; an older one's answer proves nothing."""


class PeerFlow:
    """What the leader remembers about the link to one follower in its term: sequence numbers and the window in flight.

    Every AppendEntries has a number, every ack repeats it. A reset answer is believed once per flight: after one,
    answers to anything sent before it are stale (BUG 6). After a follower announced that it lost its journal, none
    of its earlier acks is believed at all.
    """

    def __init__(self) -> None:
        self.last_seq = 0
        self.reset_floor = 0
        self.ack_floor = 0
        self.commit_sent = 0
        self.resend = False
        self.needs_state = False
        """It lost its store but not its log: it gets a snapshot beside the entries."""
        self.bytes_in_flight = 0
        self.lost = False
        """It lost what it had acknowledged: nothing it says counts before it has asked as one that rejoins."""
        self._flight: deque[tuple[int, int]] = deque()
        self._sure: deque[tuple[int, Index]] = deque(maxlen=_SURE_MAX)

    def sent(self, seq: int, last_index: int, size: int, previous: Index | None = None) -> None:
        """An AppendEntries left; ``size`` bytes of entries up to ``last_index``. ``previous``: it goes on from this
        entry, which the follower had acknowledged before.
        """
        self.last_seq = seq
        if previous is not None:
            self._sure.append((seq, previous))
        if size:
            self._flight.append((last_index, size))
            self.bytes_in_flight += size

    def confirmed(self, index: int) -> None:
        """The follower has everything up to ``index``."""
        flight = self._flight
        while flight and flight[0][0] <= index:
            self.bytes_in_flight -= flight.popleft()[1]

    def proves_loss(self, seq: int, next_index: int) -> bool:
        """A reset answer to this: the follower does not hold what it acknowledged before it was sent (Raft §5.3). One
        that has trimmed the entry since asks for what comes after it.
        """
        return any(number == seq and next_index <= previous for number, previous in self._sure)

    def take_reset(self, seq: int) -> bool:
        """May this reset answer be believed? If so, nothing counts as in flight any more."""
        # The follower answered something sent before the last rewind. Believing it would rewind again, for every
        # message that was still in flight, and send the same window over and over.
        if seq <= self.reset_floor:
            return False
        self.reset_floor = self.last_seq
        self.resend = True
        self._flight.clear()
        self.bytes_in_flight = 0
        return True


class Nearing:
    """A follower that took a snapshot and reads what came after it: does it come nearer to the end of the log?

    Only that bounds what is kept for it: one that is slower than the log grows gets another snapshot.
    """

    def __init__(self, index: Index, now: float) -> None:
        self.index = index
        """It has everything up to here."""
        self._fewest: int | None = None
        """Entries that it lacked when it was nearest."""
        self._since = now

    def goes_on(self, match: Index, last: Index, now: float, patience_s: float) -> bool:
        """False: it is there, or was no nearer for so long."""
        self.index = max(self.index, match)
        lacks = last - self.index
        if self._fewest is None or lacks < self._fewest:
            self._fewest, self._since = lacks, now
        return lacks > 0 and now - self._since < patience_s
