"""How well this node keeps time, and the election timeout that follows from it.

Rules: no clock is read here, whoever measures passes the time. Three things are measured: how late the node's own turns
come (its loop, its share of a CPU), how late the leader's heartbeats come (the leader's loop, the network, and our own
again), and how long a sync takes. The largest of the last half to whole window counts. What is later than the timeout
without lag (own turns) or the largest of all (heartbeats) is no measure of a pace: that node was stopped. It does not
count such a time as silence (``Election.slept``), and its followers have measured it, or replaced it.

Theory: elections are safe with any timeout (Raft §5.6 asks only that it be well above the time a broadcast takes, so
that leaders last). With no lag a leader silent for a few heartbeats hangs, and is replaced soon; with lag its silence
says less, and the timeout grows by a multiple of it up to the one an operator has set as the largest.
"""

from quorate.consensus.settings import EngineSettings

TURN_SHARE = 0.5
"""What a late turn of this node's own counts of a late heartbeat: it is a hint of what the leader suffers, if that runs
on the same machine; heartbeats say it."""


class _Recent:
    """The largest value of the last half to whole window."""

    def __init__(self, window_s: float, now: float) -> None:
        self._half_s = window_s / 2
        self._turn_at = now + self._half_s
        self._before = self._since = 0.0

    def note(self, value: float, now: float) -> None:
        if now >= self._turn_at:
            long_ago = now >= self._turn_at + self._half_s
            self._before, self._since = 0.0 if long_ago else self._since, 0.0
            self._turn_at = now + self._half_s
        self._since = max(self._since, value)

    @property
    def largest(self) -> float:
        return max(self._before, self._since)


class Pace:
    """Seconds throughout. Called at least once a heartbeat's time, so that what is old is forgotten."""

    def __init__(self, settings: EngineSettings, now: float) -> None:
        self._settings = settings
        self._quiet_s = min(settings.election_timeout_quiet_s, settings.election_timeout_min_s)
        self._lag = _Recent(settings.pace_window_s, now)
        self._sync = _Recent(settings.pace_window_s, now)

    def note_turn(self, late_s: float, now: float) -> None:
        """A turn of this node's own came so late; 0 in time."""
        self._lag.note(TURN_SHARE * late_s if late_s <= self._quiet_s else 0.0, now)

    def note_heartbeat(self, late_s: float, now: float) -> None:
        """The leader was heard so late, and it is the same leader still."""
        self._lag.note(late_s if late_s <= self._settings.election_timeout_max_s else 0.0, now)

    def note_sync(self, age_s: float, now: float) -> None:
        """The oldest operation that is not durable has waited so long for the disk."""
        self._sync.note(age_s, now)

    @property
    def sync_s(self) -> float:
        """The longest that a sync took lately, as far as turns saw it."""
        return self._sync.largest

    @property
    def timeout_min_s(self) -> float:
        """The smallest election timeout in force: also how long a leader is protected after it was heard."""
        settings = self._settings
        return min(self._quiet_s + settings.pace_lag_factor * self._lag.largest, settings.election_timeout_min_s)

    @property
    def timeout_max_s(self) -> float:
        """The largest in force, in the settings' proportion to the smallest."""
        settings = self._settings
        return self.timeout_min_s * settings.election_timeout_max_s / settings.election_timeout_min_s
