"""The followed log as one thing: what was read, the states it adds up to, and the tables made from it.

Rules: ``take`` on one thread; everything else may be asked on another, and is asked "as of N". The first event must
be the birth of a cluster: the right one, if one was named.
"""

from collections.abc import Sequence

from quorate.errors import InvariantBrokenError, UsageError
from quorate.events import ClusterCreated
from quorate_spark.dashboard.history import History
from quorate_spark.dashboard.index import Index
from quorate_spark.dashboard.model import State
from quorate_spark.dashboard.spool import Fact, Spool


class WrongClusterError(UsageError):
    """The log is of another cluster than the one that is shown."""


class FoldedLog:
    """The events, the states, the tables. ``cluster_id``: refuse any other cluster; empty: the first is the one."""

    def __init__(self, cluster_id: str = "") -> None:
        self._wanted = cluster_id
        self.spool = Spool()
        self.history = History(self.spool)
        self.index = Index()

    @property
    def tip(self) -> State:
        """The newest state."""
        return self.history.tip

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before the first event."""
        return self.tip.model.cluster.cluster_id if self.tip.model.cluster else ""

    def take(self, facts: Sequence[Fact]) -> None:
        """The next events. Raises InvariantBrokenError, WrongClusterError; then some of them may have been taken."""
        for fact in facts:
            self._check(fact)
        self.spool.extend(list(facts))
        for fact in facts:
            before = self.history.tip
            self.history.append(fact)
            self.index.add(fact, before, self.history.tip)

    def _check(self, fact: Fact) -> None:
        born = fact.event if isinstance(fact.event, ClusterCreated) else None
        if (fact.stamp.offset == 0) != (born is not None):
            raise InvariantBrokenError(f"event {fact.stamp.offset} is {type(fact.event).__name__}: no log of ours")
        if born is not None and self._wanted not in ("", born.cluster_id):
            raise WrongClusterError(f"the log is of cluster {born.cluster_id}, not {self._wanted}")

    def close(self) -> None:
        """Forget everything."""
        self.spool.close()
