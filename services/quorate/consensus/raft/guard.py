"""What stands between pysyncobj and the world: the rules that make its Raft safe, as functions of values.

Rules: nothing here sends, sleeps, reads a clock or knows pysyncobj; ``consensus.raft.pysyncobj_engine`` asks and acts.
Each part names the defect it shuts off; docs/consensus.md has the table (defect, guard, test) and the numbering.

Theory. pysyncobj decides elections, counts matches and accepts entries correctly *if* it is never shown a message that
would make it truncate what matches (BUG 3), trust an acknowledgement of another term (BUG 2), take a commit index
beyond what was verified (BUG 1), or bounce between two reset answers for ever (BUG 6). And it knows nothing of
disks: durability is added around it, by holding back whatever vouches for something until that something is on disk.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from quorate.consensus.ports import Index, Term
from quorate.consensus.transport.codec import AppendEntries
from quorate.errors import InvariantBrokenError

TWO_HISTORIES = (
    "the voters hold two histories, as after a restore from a copy or after damage; keep this data directory, for it "
    "may hold acknowledged writes that the others lost; once that is settled, bring this node back with `quorate "
    "member rebuild`, which lets it take the leader's state"
)
"""What an operator is told when what this node applied is not what is committed."""


class LogView(Protocol):
    """The part of a journal that the rules look at."""

    @property
    def last_index(self) -> Index:
        """Of the in-memory image."""

    def term_at(self, index: Index) -> Term | None:
        """Term of the entry there; None outside the log (its base is inside)."""


# ── followers: what an AppendEntries may do ──


class Show(msgspec.Struct, frozen=True, gc=False):
    """Let pysyncobj see this message instead of the one received."""

    prev_index: Index
    prev_term: Term
    entries: tuple[tuple[Index, Term, bytes], ...]
    commit: Index


class Present(msgspec.Struct, frozen=True, gc=False):
    """Everything in it is in our log already: acknowledge, touch nothing."""

    next_index: Index
    commit: Index


def shape_append(message: AppendEntries, log: LogView, commit: Index) -> Show | Present:
    """What to make of an AppendEntries of a term not below ours (Raft §5.3, with the guards of BUG 1, 3 and 6).

    ``commit`` is our own commit index. Entries we have are cut off its front, so that nothing matching is ever
    truncated (BUG 3); its commit index is capped at its own last entry, the only part of our log it verifies (BUG
    1); on a term conflict pysyncobj is shown the first entry of the conflicting term, so that one answer steps over
    all of it (BUG 6). Raises InvariantBrokenError if it contradicts a committed entry.
    """
    prev = message.prev_index
    here = log.term_at(prev)
    entries = message.entries
    verified = Index(prev + len(entries))
    upto = min(message.commit, verified)
    if here is None:
        # Our log ends before prev, or begins after it: the consistency check of Raft §5.3 fails and pysyncobj says so.
        return Show(prev, message.prev_term, entries, upto)
    if here != message.prev_term:
        # A committed entry is in every later leader's log (Leader Completeness, Raft §5.4.3): a conflict here means
        # that one of the two logs is not this cluster's, and truncating would lose what was acknowledged.
        if prev <= commit:
            raise InvariantBrokenError(
                f"leader of term {message.term} contradicts committed entry {prev}: {TWO_HISTORIES}"
            )
        while prev - 1 > commit and log.term_at(Index(prev - 1)) == here:
            prev = Index(prev - 1)
        return Show(prev, message.prev_term, entries, upto)
    # Same index and term: same entry, and the same before it (Log Matching, Raft §5.3). A delayed message that ends
    # before our log does must not cut the rest, which may be acknowledged: only a conflict truncates.
    have = 0
    for index, term, _ in entries:
        if log.term_at(index) != term:
            break
        have += 1
    matched = Index(prev + have)
    if have == len(entries):
        return Present(Index(verified + 1), upto)
    if matched < log.last_index and matched < commit:
        raise InvariantBrokenError(
            f"leader of term {message.term} contradicts committed entry {matched + 1}: {TWO_HISTORIES}"
        )
    matched_term = log.term_at(matched)
    return Show(matched, message.prev_term if matched_term is None else matched_term, entries[have:], upto)


# ── leaders: what is committed ──


def commit_ceiling(durable_index: int, matches: Iterable[int], quorum: int) -> Index:
    """Highest index that a majority holds durably: the leader's own copy counts only when it is on its disk."""
    # A ceiling, not the commit index: an entry of an older term commits only below one of the leader's own (Raft
    # §5.4.2), which ``Core.count`` checks. A leader may send entries before its own write is durable (Raft thesis
    # §10.2.1), because here its copy counts only once it is.
    return Index(sorted([durable_index, *matches], reverse=True)[quorum - 1])
