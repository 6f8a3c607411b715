"""Limits and periods of consensus; the composition nests them into a node's settings.

Rules: every wait, queue and size of this room is here, in the unit its name ends with. Nothing reads the environment.
"""

from typing import Final

import msgspec

from quorate.bounds import bounded
from quorate.consensus.ports import MAX_ENTRY_BYTES
from quorate.errors import UsageError


class SnapshotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When the journal is trimmed and how a snapshot travels."""

    check_period_s: float = 1.0
    """How often a node asks itself whether its journal may be trimmed."""
    retain_entries: int = 20_000
    """Entries kept below the applied index, so that a voter which was away for a moment needs no snapshot."""
    trim_slack_entries: int = 20_000
    """Trim only when so many entries more than ``retain_entries`` are there: a trim costs one sync of the store."""
    retain_bytes: int = 64 * 1024 * 1024
    """When the entries take more than this, proportionally fewer are retained; they go before they take twice as much
    (and what comes within a ``check_period_s``), unless a snapshot on its way needs them, or who has just taken one."""
    chunk_bytes: int = 128 * 1024
    """Payload of one chunk; a single row or batch larger than this travels alone."""
    window_chunks: int = 4
    """Chunks in flight to one peer; once they carry ``window_chunks * chunk_bytes`` no more, but one always."""
    resend_s: float = 0.5
    """No acknowledgement for so long, for each ``chunk_bytes`` in flight: send the unacknowledged chunks again. Twice
    as long after the first repetition and again after the second, up to ``timeout_s``. After a new connection they are
    sent again at once."""
    timeout_s: float = 10.0
    """No progress for so long: the sender gives up (and starts afresh), the receiver discards what it staged."""
    staged_bytes_max: int = 4 * 1024 * 1024 * 1024
    """Keys and values a receiver stages in its store before it switches. A leader with a larger state cannot be
    followed: the node stops and names this setting. At least twice ``controller.state_bytes_max``."""
    switch_rows: int = 256
    """Rows that one turn of the loop moves while a node switches to a snapshot, or clears away of one it dropped."""
    switch_slice_s: float = 0.002
    """... or for how long, whichever comes first."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("retain_entries", "trim_slack_entries"))
        if self.resend_s >= self.timeout_s:
            raise UsageError("resend_s must be below timeout_s")

    @property
    def window_bytes(self) -> int:
        """What may be in flight to one peer before one more chunk is."""
        return self.window_chunks * self.chunk_bytes


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Timing and limits of the Raft engine."""

    election_timeout_quiet_s: float = 0.25
    """The smallest election timeout while neither this node's loop nor the leader's heartbeats lag
    (consensus/raft/pace.py); above ``election_timeout_min_s`` it is that. The largest stands to it as
    ``election_timeout_max_s`` does to ``election_timeout_min_s``."""
    election_timeout_min_s: float = 0.5
    """The smallest once they lag so much that it grows no further."""
    election_timeout_max_s: float = 1.0
    """The largest then. Also how long a leader goes on without a majority of answers, whatever lags: were it shorter
    than a follower's timeout, leaders would step down whom nobody doubts."""
    pace_lag_factor: float = 4.0
    """The smallest election timeout grows by this multiple of the largest lag of the last ``pace_window_s``."""
    pace_window_s: float = 30.0
    """A lag counts for half of this at least, and for all of it at most."""
    heartbeat_s: float = 0.05
    tick_s: float = 0.01
    """Period of the timer while something is under way; everything else is driven by frames, proposals and finished
    syncs. At rest a node wakes for what is due: its heartbeats, an election."""
    close_jitter_s: float = 0.02
    """After the leader's connection closed the survivors ask for pre-votes one after the other, so far apart."""
    max_entry_bytes: int = MAX_ENTRY_BYTES
    commit_news_s: float = 0.002
    """How long a new commit index waits for entries to travel with before it is sent to the followers alone."""
    append_bytes: int = 256 * 1024
    """Entry bytes in one AppendEntries (one entry always fits)."""
    append_entries: int = 512
    """Entries in one AppendEntries."""
    window_bytes: int = 8 * 1024 * 1024
    """Entry bytes in flight to one peer before its acknowledgement."""
    apply_slice_entries: int = 256
    apply_slice_s: float = 0.0005
    """A slice of applies ends at whichever comes first; the rest follows in the next turn."""
    reads_max: int = 8192
    """Linearizable reads waiting at once; one more is answered ``None``."""
    read_timeout_s: float = 0.5
    disk_stall_step_down_s: float = 2.0
    """Oldest unsynced operation older than this: stop leading."""
    disk_stall_fatal_s: float = 20.0
    """... and older than this: stop the node."""
    rejoin_ask_s: float = 0.1
    """How often a node that lost its journal repeats its questions."""
    snapshots: SnapshotSettings = SnapshotSettings()

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("close_jitter_s", "commit_news_s", "pace_lag_factor"))
        if self.election_timeout_quiet_s < 3 * self.heartbeat_s:
            raise UsageError("election_timeout_quiet_s must be at least three times heartbeat_s")
        if self.election_timeout_min_s > self.election_timeout_max_s:
            raise UsageError("election_timeout_min_s must be at most election_timeout_max_s")
        if not self.tick_s <= self.heartbeat_s <= self.election_timeout_min_s / 3:
            raise UsageError("heartbeat_s must be at least tick_s and at most a third of election_timeout_min_s")
        if self.read_timeout_s > self.election_timeout_max_s:
            raise UsageError("read_timeout_s must be at most election_timeout_max_s")


KERNEL_MS_MAX: Final = (1 << 31) - 1


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the links between voters."""

    hello_timeout_s: float = 2.0
    hello_bytes_max: int = 1024
    frame_bytes_max: int = 8 * 1024 * 1024
    packet_bytes: int = 64 * 1024
    """Frames of one turn travel in one packet, under one tag, up to so many bytes; a longer frame travels alone."""
    packet_timeout_s: float = 5.0
    """A packet whose rest does not arrive for so long ends the connection."""
    buffer_bytes_max: int = 64 * 1024 * 1024
    """Bytes waiting to be written to one peer; above it the connection is dropped rather than let grow."""
    unproven_max: int = 64
    """Accepted connections that have not proven the cluster key yet; when one more comes, the oldest goes."""
    unanswered_s: float = 3.0
    """What was sent and nobody's kernel has acknowledged for so long ends the connection, and it is dialed anew: left
    alone, TCP would try again after ever longer pauses, up to two minutes after the network has healed."""
    refusal_log_period_s: float = 60.0
    """Refused connections of one peer for one reason are told at once, and then once in so long, with their count."""
    reconnect_min_s: float = 0.02
    reconnect_max_s: float = 1.0

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)
        if self.reconnect_min_s > self.reconnect_max_s:
            raise UsageError("reconnect_min_s must be at most reconnect_max_s")
        if self.unanswered_s > KERNEL_MS_MAX / 1000:
            raise UsageError(f"unanswered_s must be at most {KERNEL_MS_MAX // 1000}")
        if self.packet_bytes > self.frame_bytes_max:
            raise UsageError("packet_bytes must be at most frame_bytes_max")
