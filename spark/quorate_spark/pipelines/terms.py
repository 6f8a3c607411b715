"""The reigns of the controllers: who led in which term, from when to when, and why it came to lead.

Rules: terms rise; a log in which they do not is no log of a Raft group, and stops the query.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.errors import check
from quorate.events import ControllerLeaderElected
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold
from quorate_spark.serving import Term


class LeaderTerm(msgspec.Struct, frozen=True):
    """The one that lasts."""

    now: Term | None = None


def step(reign: LeaderTerm, fact: Fact) -> tuple[LeaderTerm, Iterable[Term]]:
    """A new leader ends the reign of the one before. Raises InvariantBrokenError when its term is not a later one."""
    event, stamp, before = fact.event, fact.stamp, reign.now
    if not isinstance(event, ControllerLeaderElected):
        return reign, ()
    begun = Term(
        event_offset=stamp.offset,
        term=stamp.term,
        node_id=event.node_id,
        cause=event.cause,
        previous_leader=event.previous_leader,
        silent_for_ms=event.silent_for_ms,
        from_offset=stamp.offset,
        from_ms=stamp.time_ms,
        to_offset=None,
        to_ms=None,
    )
    if before is None:
        return LeaderTerm(begun), (begun,)
    check(stamp.term > before.term, f"event {stamp.offset} elects a leader of term {stamp.term} after {before.term}")
    ended = msgspec.structs.replace(before, event_offset=stamp.offset, to_offset=stamp.offset, to_ms=stamp.time_ms)
    return LeaderTerm(begun), (ended, begun)


TERMS: Final = Fold("terms", "1", frozenset({ControllerLeaderElected}), LeaderTerm(), step)
