"""What time it is, as a majority of the voters has it: a leader alone in the future writes nothing of it into the log.

Rules: every node tells every other what its clock says, once a period and when a link opens. A node's own clock is
believed as long as it is at most ``clock_apart_max_s`` ahead of a majority's (its own is one of them); else the time is
the majority's, so that a jump is never stamped before a majority has made it too. If all jump together, a suspended
host for instance, the new time is believed with the next notes. A leader that stays alone in the future hands over to
one that is not, and says so until its clock is back; it goes on leading meanwhile, by the majority's time. A node that
has not heard enough others yet believes itself.

Theory. A note ages by this node's monotonic clock, so a late or lost one makes a peer look neither ahead nor behind by
more than the time on the way. "At least a quorum says it is this late" is true of the quorum-th latest clock: of the
latest one alone it is not, whichever that is, and of the others one can always lead undisturbed.
"""

from collections.abc import Callable

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.ports import NodeId, RaftEngine
from quorate.controller import messages
from quorate.controller.ports import PeerLink
from quorate.controller.settings import ControllerSettings

NOTES_KEPT = 10
"""A clock that was not heard of for so many periods says nothing any more."""
HANDOVER_AGAIN = 10
"""A handover that did not end the leadership is tried again after so many times ``clock_alone_s``."""


class _Note(msgspec.Struct, frozen=True, gc=False):
    base_ms: float
    """The peer's clock, less our monotonic one."""
    at: float


class ClusterClock:
    """Compares this clock with a majority's. ``said`` is called when that changes for the better or worse: with what an
    operator should hear, and how far ahead this clock is.
    """

    def __init__(
        self,
        engine: RaftEngine,
        peers: PeerLink,
        scheduler: Scheduler,
        settings: ControllerSettings,
        said: Callable[[str, int], None],
    ) -> None:
        self._peers = peers
        self._scheduler = scheduler
        self._settings = settings
        self._apart_ms = settings.clock_apart_max_s * 1000
        self._engine = engine
        self._stopped = False
        self._needed = len(engine.voters) // 2
        """Clocks of others that make a majority with ours."""
        self._notes: dict[int, _Note] = {}
        self._latest: float | None = None
        """The latest clock that a majority has or is beyond, less our monotonic one; None: not known."""
        self._earliest: float | None = None
        """And the earliest that a majority has or has not reached."""
        self._looked: tuple[float, int] | None = None
        self._alone_since: float | None = None
        self._handover_at = 0.0
        self._verdict = self._seen = ""
        self.jumps = 0
        """Jumps of this node's clock beyond ``clock_apart_max_s``, either way."""
        self._said = said

    def start(self) -> None:
        """Begin to tell and to look."""
        self._scheduler.call_later(self._settings.clock_note_s, self._turn)

    # -- what time it is

    def now_ms(self) -> int:
        """For a stamp: this node's clock, but never far beyond a majority's."""
        scheduler = self._scheduler
        wall = scheduler.time_ms()
        if self._latest is None:
            return wall
        latest = self._latest + scheduler.monotonic() * 1000
        return wall if wall <= latest + self._apart_ms else int(latest)

    def ids_ms(self) -> int:
        """For judging what callers say the time is: nor far behind a majority's."""
        now = self.now_ms()
        if self._earliest is None:
            return now
        earliest = self._earliest + self._scheduler.monotonic() * 1000
        return now if now >= earliest - self._apart_ms else int(earliest)

    @property
    def ahead_ms(self) -> int:
        """How far this node's clock is ahead of a majority's; below 0: behind it; 0: within one, or none is known."""
        now, wall = self._scheduler.monotonic() * 1000, self._scheduler.time_ms()
        if self._latest is not None and wall > self._latest + now:
            return int(wall - self._latest - now)
        if self._earliest is not None and wall < self._earliest + now:
            return int(wall - self._earliest - now)
        return 0

    # -- notes

    def heard(self, peer: int, time_ms: int) -> None:
        """What a peer's clock says."""
        now = self._scheduler.monotonic()
        self._notes[peer] = _Note(time_ms - now * 1000, now)
        self._weigh(now)

    def tell(self, peer: int) -> None:
        """A link opened, or a period is over."""
        self._peers.send(peer, messages.KIND, messages.encode(messages.ClockIs(self._scheduler.time_ms())))

    def _weigh(self, now: float) -> None:
        oldest = now - NOTES_KEPT * self._settings.clock_note_s
        bases = sorted(note.base_ms for note in self._notes.values() if note.at >= oldest)
        needed = self._needed
        if needed and len(bases) >= needed:
            self._latest, self._earliest = bases[-needed], bases[needed - 1]
        else:
            self._latest = self._earliest = None

    # -- once a period

    def _turn(self) -> None:
        engine, scheduler = self._engine, self._scheduler
        if self._stopped:
            return
        scheduler.call_later(self._settings.clock_note_s, self._turn)
        for voter in engine.voters:
            if voter != engine.node_id:
                self.tell(voter)
        now, wall = scheduler.monotonic(), scheduler.time_ms()
        self._weigh(now)
        self._look_for_a_jump(now, wall)
        self._judge(engine, now)

    def stop(self) -> None:
        """Tell nobody any more."""
        self._stopped = True

    def _look_for_a_jump(self, now: float, wall: int) -> None:
        before, self._looked = self._looked, (now, wall)
        if before is None:
            return
        jump = wall - before[1] - int((now - before[0]) * 1000)
        if abs(jump) > self._apart_ms:
            self.jumps += 1
            self._say(f"the clock jumped {'ahead' if jump > 0 else 'back'} by {abs(jump) / 1000:.1f} s")

    def _judge(self, engine: RaftEngine, now: float) -> None:
        ahead = self.ahead_ms
        verdict = ""
        if ahead > self._apart_ms:
            verdict = "the clock is ahead of a majority's: events are stamped with the majority's time"
        elif ahead < -self._apart_ms:
            verdict = "the clock is behind a majority's"
        if verdict == self._seen != self._verdict:  # Twice in a row: others that jumped too are heard by then.
            self._say(verdict or "the clock is with a majority's again")
            self._verdict = verdict
        self._seen = verdict
        if ahead <= self._apart_ms:
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
            self._handover_at = now + self._settings.clock_alone_s
        if engine.decidable_term() and now >= self._handover_at:
            self._handover_at = now + HANDOVER_AGAIN * self._settings.clock_alone_s
            self._hand_over(engine)

    def _hand_over(self, engine: RaftEngine) -> None:
        """To one whose clock is not ahead, the earliest last: it may be behind."""
        latest = self._latest
        if latest is None:
            return
        fit = [(note.base_ms, peer) for peer, note in self._notes.items() if note.base_ms <= latest + self._apart_ms]
        for _, peer in sorted(fit, reverse=True):
            if engine.transfer_leadership(NodeId(peer)):
                self._say(f"alone in the future: the leadership is handed over to node {peer}")
                return

    def _say(self, text: str) -> None:
        self._said(text, self.ahead_ms)
