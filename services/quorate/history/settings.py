"""Limits and periods of time travel."""

import msgspec

from quorate.errors import UsageError


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds unless the name says otherwise."""

    checkpoint_events: int = 10_000
    """A checkpoint of the state is kept so often; less often where the state has more than a quarter as many rows."""
    questions_max: int = 32
    """Questions about the past that may wait; one more is answered 429."""
    workers: int = 1
    """Processes that replay, started when first asked; each works on one offset at a time."""
    worker_idle_s: float = 60.0
    """A process with nothing to do for so long ends."""
    worker_nice: int = 10
    """How far the processes stand back behind the node itself (nice)."""
    worker_states: int = 4
    """States a process keeps, so that a step further along the log replays little."""
    states_max: int = 4
    """States of the past kept ready in the node."""
    answer_timeout_s: float = 10.0
    """How long a question about the past may take."""
    replay_timeout_s: float = 120.0
    """A process that takes longer for one offset is ended; what it had replayed by then is kept as checkpoints."""
    frame_bytes_max: int = 8 * 1024 * 1024
    """Longest message between the node and its processes."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        if min(self.checkpoint_events, self.questions_max, self.workers, self.states_max) < 1:
            raise UsageError("checkpoint_events, questions_max, workers and states_max must be at least 1")
        if not 0 < self.answer_timeout_s <= self.replay_timeout_s or self.worker_idle_s <= 0:
            raise UsageError("answer_timeout_s must be above 0 and at most replay_timeout_s, worker_idle_s above 0")
        if self.worker_states < 0 or not 0 <= self.worker_nice <= 19:
            raise UsageError("worker_states must not be negative, worker_nice from 0 to 19")
