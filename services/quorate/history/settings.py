"""Limits and periods of time travel."""

import msgspec

from quorate.bounds import bounded
from quorate.errors import UsageError


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds unless the name says otherwise."""

    checkpoint_events: int = 10_000
    """A checkpoint of the state is kept so often; less often where the last has more than a quarter as many rows."""
    checkpoint_rest_s: float = 0.002
    """Between two turns of half a millisecond in which one is written: a large one must not take the node's time."""
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
        bounded(self, zero=("worker_nice", "worker_states"))
        if self.answer_timeout_s > self.replay_timeout_s:
            raise UsageError("answer_timeout_s must be at most replay_timeout_s")
        if self.worker_nice > 19:
            raise UsageError("worker_nice must be at most 19")
