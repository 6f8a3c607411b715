"""What was applied is checked against what is committed: a state that follows another history never serves.

Rules: a difference is *proof*, never a suspicion. The term of the last applied entry is the machine's; the journal says
which term the entry at that index has, and only what is known to be committed there counts: a store may be ahead of a
stale tail after a kill, rightly. The node stops before it drops an entry that contradicts a leader: what it holds may
be the only copy of acknowledged writes.

Theory: by the Log Matching Property (Raft §5.3) two logs that agree on index and term of one entry agree on all before
it, so one comparison of the last applied entry speaks for the whole state.
"""

from quorate.consensus.ports import Index, Term
from quorate.consensus.raft.guard import TWO_HISTORIES, LogView
from quorate.errors import InvariantBrokenError


def check_applied(applied: Index, applied_term: Term, commit: Index, log: LogView) -> None:
    """Is the last applied entry the one that is committed there? ``commit``: as known in this life, so that the log up
    to it is the cluster's. Raises InvariantBrokenError.
    """
    if commit < applied:
        return
    term = log.term_at(applied)
    if term is not None and term != applied_term:
        raise InvariantBrokenError(
            f"applied entry {applied} is of term {applied_term}, "
            f"but the entry committed there is of term {term}: {TWO_HISTORIES}"
        )


def known_committed(applied: Index, applied_term: Term, commit: Index, leader_commit: Index, log: LogView) -> Index:
    """Up to where our log is known to be committed while a message of a leader is looked at. What we applied was, if
    the log holds it; it counts against the leader only as far as the leader itself calls its own log committed.
    """
    if applied > commit and log.term_at(applied) == applied_term:
        return max(commit, min(applied, leader_commit))
    return commit


def check_offered(index: Index, index_term: Term, applied: Index, applied_term: Term, log: LogView) -> None:
    """Does a snapshot at ``index``, which is committed, continue what was applied here? Only called with ``index`` at
    or below ``applied``. Raises InvariantBrokenError.
    """
    here = applied_term if index == applied else None
    if here is None and log.term_at(applied) == applied_term:  # Else the tail may be stale: it says nothing.
        here = log.term_at(index)
    if here is not None and here != index_term:
        raise InvariantBrokenError(
            f"applied entry {index} is of term {here}, "
            f"but the leader's snapshot there is of term {index_term}: {TWO_HISTORIES}"
        )
