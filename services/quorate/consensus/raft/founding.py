"""A cluster is founded by all of its voters, or not at all.

Rules: a log is *founded* once it holds the event that creates the cluster, applied or not. A candidate whose log is not
needs the votes of every configured voter, and a founded voter gives it none. A directory without a founded log votes
for a candidate that has one only if that log lists this very directory among the founders; else it may have forgotten
what an earlier directory of its node voted, and comes in like a node that lost its journal (consensus/raft/rejoin.py).

Theory. Each vote carries the voter's incarnation, and the event lists those whose votes elected the founding leader: so
who is listed held no fact before the founding and has forgotten none since. Two foundings would need two votes of each
voter, one of them given by a directory that held the first founding, or that was wiped since: the first does not vote,
the second is not listed in the first. A founding that reached a minority only is in nobody's way: its holders win with
the votes of those it lists; wiped away, it was never committed, or every copy of it is gone. While one copy of it is
left, nobody founds anew.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.storage.directory import Directory
from quorate.errors import UsageError

UNFOUNDED: Final = bytes(16)
"""Said by a candidate whose log is not founded."""
UNNAMED: Final = b"\xff" * 16
"""Said by one whose log does not name a directory for the voter: it was founded by an earlier version."""
NOT_LISTED: Final = "this directory took no part in the founding of the cluster"
_SCAN_BYTES, _SCAN_ENTRIES = 64 * 1024, 512


class FoundingFacts(Protocol):
    """What the state machine knows."""

    def founders(self) -> Mapping[int, str] | None:
        """Incarnation by node id, as the cluster's creation lists them; None before it is applied."""

    def founders_in(self, entry: bytes) -> Mapping[int, str]:
        """The same, out of the first entry that is not empty."""


class Founding:
    """Whether this log is founded, by whom, and who votes for whom. Sans-I/O."""

    def __init__(self, directory: Directory, voters: Iterable[NodeId], journal: Journal, facts: FoundingFacts) -> None:
        self._directory = directory
        self._voters = frozenset(voters)
        self._journal = journal
        self._facts = facts
        self.me = directory_bytes(directory.incarnation)
        self._votes: dict[NodeId, bytes] = {}
        self._settled = directory.voter.admitted
        self._read: list[Term] = []
        """Terms of the log's first entries, as far as they were looked at; the last one may be the founding."""
        self._said: Mapping[int, str] | None = None
        self.founders()  # Reads the disk: what a start finds has left memory. What comes later is still there.

    def founders(self) -> Mapping[int, str] | None:
        """Who founded this log; None while it is not founded."""
        applied = self._facts.founders()
        if applied is not None:
            return applied
        journal, read = self._journal, self._read
        if journal.first_index > 2:
            return {}  # What was trimmed was applied once, and the store has lost it.
        while read and journal.term_at(Index(1 + len(read))) != read[-1]:  # Others are there now (log matching).
            read.pop()
            self._said = None
        while self._said is None and 1 + len(read) < journal.last_index:
            for _, term, entry in journal.entries(2 + len(read), _SCAN_BYTES, _SCAN_ENTRIES):
                read.append(term)
                if entry:
                    self._said = self._facts.founders_in(entry)
                    break
        return self._said

    @property
    def founded(self) -> bool:
        """Is this log founded?"""
        return self.founders() is not None

    def lists(self, peer: NodeId) -> bytes:
        """What a request for the peer's vote says of it."""
        founders = self.founders()
        if founders is None:
            return UNFOUNDED
        incarnation = founders.get(peer, "")
        return directory_bytes(incarnation) if incarnation else UNNAMED

    def would_vote(self, listed: bytes) -> bool:
        """May this directory vote for a candidate that says this of it?"""
        if listed == UNFOUNDED:
            return not self.founded
        return self._settled or listed == self.me or self.founded

    @property
    def uncertain(self) -> bool:
        """Not known yet to be one of the founders, nor to have come in later: what it says counts for little."""
        return not self._settled

    def settle(self) -> None:
        """It was not listed, and has come in."""
        self._settled = True

    def judge(self) -> bool | None:
        """Is this directory one of the founders, or has it come in since? None while the log is not founded."""
        if not self._settled:
            founders = self.founders()
            if founders is None:
                return None
            self._settled = founders.get(self._directory.node_id) == self._directory.incarnation
        return self._settled

    # ── a candidacy ──

    def stand(self) -> None:
        """Count anew."""
        self._votes = {self._directory.node_id: self.me}

    def voted(self, voter: NodeId, incarnation: bytes) -> bool:
        """Count one; are all there?"""
        self._votes[voter] = incarnation
        return len(self._votes) == len(self._voters)

    @property
    def votes(self) -> dict[NodeId, str]:
        """Incarnations of those who voted in this candidacy."""
        return {voter: directory_text(incarnation) for voter, incarnation in self._votes.items()}


def directory_bytes(incarnation: str) -> bytes:
    """A directory's id as 16 bytes. Raises UsageError if it is no uuid."""
    try:
        data = bytes.fromhex(incarnation.replace("-", ""))
    except ValueError:
        data = b""
    if len(data) != 16:
        raise UsageError(f"{incarnation!r} is no id of a directory")
    return data


def directory_text(data: bytes) -> str:
    """The same as text, as a uuid is written."""
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
