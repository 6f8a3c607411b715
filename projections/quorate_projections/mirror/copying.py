"""The copy itself: stand by, open, find the place, copy, and begin again after whatever happens.

Rules: see the package. A position is believed only when it was read from the target after opening it, or follows from
a commit that was acknowledged.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from quorate_projections.mirror.ports import (
    Event,
    FencedError,
    ForeignLogError,
    MirrorError,
    NodeReport,
    NodeView,
    Source,
    Target,
)
from quorate_projections.mirror.settings import MirrorSettings

State = Literal["standing by", "copying", "failed", "stopped"]


class Progress(msgspec.Struct, frozen=True):
    """Where the copy is."""

    state: State
    detail: str = ""
    position: int = -1
    """Event offset that comes next in the target; -1: not known yet."""
    end: int = -1
    """End of the source as last heard; -1: not known yet."""
    commits: int = 0
    fenced: int = 0
    failures: int = 0

    @property
    def lag(self) -> int:
        """Events not copied yet, as far as known."""
        return max(0, self.end - self.position) if self.position >= 0 else 0


class MirrorCopier:
    """One mirror. ``step`` does one bounded piece of work; ``run`` repeats it until told to stop.

    ``open_source(standing)`` and ``open_target(standing)`` make the two ends; ``pause(seconds)`` waits, and is true
    when the mirror shall stop; ``now()`` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        node: NodeView,
        open_source: Callable[[NodeReport], Source],
        open_target: Callable[[NodeReport], Target],
        settings: MirrorSettings,
        now: Callable[[], float],
        told: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._node = node
        self._open_source = open_source
        self._open_target = open_target
        self._settings = settings
        self._now = now
        self._told = told
        self._source: Source | None = None
        self._target: Target | None = None
        self._cluster = ""
        """Whose log is copied."""
        self._checked = float("-inf")
        self.progress = Progress("standing by")

    def run(self, pause: Callable[[float], bool]) -> None:
        """Until ``pause`` is true. Raises ForeignLogError; everything else is said, waited out and tried again."""
        wait_s = 0.0
        try:
            while not pause(wait_s):
                wait_s = self.step()
        finally:
            self._close()
            self._tell(state="stopped")

    def step(self) -> float:
        """One piece of work; how long to wait before the next, in seconds."""
        try:
            if not self._may_copy():
                return self._settings.leader_check_s
            self._copy()
        except ForeignLogError as error:
            self._fail(error)
            raise
        except FencedError as error:
            self._fail(error, fenced=self.progress.fenced + 1)
            return self._settings.back_off_s
        except MirrorError as error:
            self._fail(error)
            return self._settings.back_off_s
        return 0.0

    # -- standing by and opening

    def _may_copy(self) -> bool:
        if self._target is not None and self._now() - self._checked < self._settings.leader_check_s:
            return True
        standing = self._node.ask()
        self._checked = self._now()
        if not standing.leads:
            self._close()
            self._tell(state="standing by", detail="the node does not lead")
            return False
        if self._target is None:
            self._open(standing)
        elif standing.cluster_id != self._cluster:
            raise MirrorError(f"the node is one of cluster {standing.cluster_id} now, not of {self._cluster}")
        return True

    def _open(self, standing: NodeReport) -> None:
        self._cluster = standing.cluster_id
        self._source = self._open_source(standing)
        self._target = self._open_target(standing)
        self._find_place()
        self._tell(state="copying", detail=f"beside the leader of term {standing.term}")

    def _find_place(self) -> None:
        """Where the target ends, proved to be this very log's."""
        source, target = self._source, self._target
        if source is None or target is None:
            return
        ends = target.first_and_last()
        position = 0
        if ends is not None:
            first, last = ends
            if first.offset != 0:
                raise ForeignLogError(f"the target begins with event {first.offset}, not 0: its head is gone")
            for other in (first, last):  # The first tells another cluster's log, which may be longer than this one.
                mine = source.at(other.offset)
                if (mine.value, mine.headers) != (other.value, other.headers):
                    raise ForeignLogError(f"event {other.offset} of the target is another than the cluster's")
            position = last.offset + 1
        source.seek(position)
        self._tell(position=position, end=max(source.end(), position))

    # -- copying

    def _copy(self) -> None:
        source, target = self._source, self._target
        if source is None or target is None:
            raise MirrorError("nothing is open")
        events = source.read(self._settings.batch_events_max, self._settings.read_wait_s)
        if events and self._may_copy():  # Asked once more if reading took long: another may have come meanwhile.
            position = _follows(self.progress.position, events)
            target.write(events)
            self._tell(position=position, commits=self.progress.commits + 1, end=max(source.end(), position))
        elif not events:
            self._tell(end=max(source.end(), self.progress.position))

    # -- endings

    def _fail(self, error: MirrorError, fenced: int | None = None) -> None:
        self._close()
        self._tell(
            state="failed",
            detail=str(error),
            failures=self.progress.failures + 1,
            fenced=self.progress.fenced if fenced is None else fenced,
        )

    def _close(self) -> None:
        source, self._source = self._source, None
        target, self._target = self._target, None
        if target is not None:
            target.close()
        if source is not None:
            source.close()

    def _tell(self, **changes: object) -> None:
        before = self.progress
        self.progress = msgspec.structs.replace(before, **changes)
        if (before.state, before.detail) != (self.progress.state, self.progress.detail):
            self._told(self.progress)


def _follows(position: int, events: Sequence[Event]) -> int:
    """The position behind these events. Raises MirrorError unless they follow ``position`` without a gap."""
    for event in events:
        if event.offset != position:
            raise MirrorError(f"event {event.offset} came where {position} was due")
        position += 1
    return position
