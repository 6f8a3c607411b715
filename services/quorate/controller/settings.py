"""Limits and periods of the controller."""

from typing import Literal

import msgspec

from quorate.bounds import bounded
from quorate.errors import UsageError

COMMAND_BYTES_MAX = 1 << 20
"""Builds that know feature level 1 alone apply no longer entry."""
WRONG_STOPS_WITHIN_S = 2.0
"""A node whose state is found to be wrong has stopped after so long."""


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds unless the name says otherwise."""

    in_flight_max: int = 4096
    """Entries proposed and not yet applied; one more is answered Busy."""
    parked_max: int = 4096
    """Commands and reads waiting for a leader to be known; one more is answered Busy."""
    forwarded_max: int = 4096
    """Commands sent to the leader and not yet answered; one more is answered Busy."""
    answer_timeout_s: float = 2.5
    """Every request is answered within this (Java clients give up, and close the channel, after 3 s)."""
    command_bytes_max: int = COMMAND_BYTES_MAX
    """Events of one command, encoded. What came with feature level 2 (keys, leases, members, sessions, …) may write
    nearly 4 MiB: a name stands in a record twice, and the end of a lease names all of its keys."""
    heartbeat_timeout_s: float = 10.0
    """How long a broker may be silent when its heartbeats do not say (Java ``heartbeatTimeoutMillis``)."""
    heartbeat_timeout_max_s: float = 120.0
    """A broker may not ask for more patience than this."""
    live_entries_max: int = 200_000
    """Brokers in the live table; a heartbeat of one more is counted and ignored."""
    live_scan_period_s: float = 1.0
    """How often overdue heartbeats are looked for."""
    inactive_master_scan_period_s: float = 5.0
    """How often sets without a living master are looked for (Java ``scanInactiveMasterInterval``)."""
    scan_round: int = 32
    """Broker sets, and the dead of the live table, that each scan looks at in turn besides those something happened
    to."""
    unfence_after_s: float = 1.0
    """How long a fenced broker must have been heard again before it counts (hysteresis)."""
    close_confirm_window_s: float = 5.0
    """How far apart two controllers may see a broker's channels close and still confirm each other."""
    close_dial_retry_s: float = 1.0
    """How soon an unconfirmed close is dialled again."""
    mass_loss_share: float = 0.5
    """When more than this share of the heard brokers is lost within a second, the leader first re-proves its quorum."""
    mass_loss_min: int = 4
    """… but not for fewer brokers than this."""
    failover_pause_s: float = 0.002
    """Pause between two failovers, and between two suspects dialled. At the default, 500 failovers take about one
    second and other requests stay fast."""
    fencing_pause_s: float = 0.01
    """Pause between two fencings of brokers that are in the log but were never heard: nobody waits for these."""
    role_push_backoff_s: float = 0.25
    """First wait before a role change that was not acknowledged is pushed again; doubles."""
    role_push_backoff_max_s: float = 30.0
    """Longest wait between two pushes."""
    role_push_record_after_s: float = 5.0
    """A delivery is recorded at the latest this long after the election, with those still missing marked so."""
    role_push_gather_s: float = 0.02
    """Deliveries of this long are recorded in one decision."""
    role_push_gather_max: int = 64
    """… but not more of them than this."""
    push_topics: Literal["missing", "all", "off"] = "missing"
    """Which topics made here masters are told of besides those just made or changed: those they lack; or also those
    they have otherwise (what was changed at the broker itself is lost then); or none are told of any."""
    topic_push_rest_s: float = 0.002
    """Pause between two questions to masters about topics."""
    deadline_sweep_s: float = 0.05
    """How often deadlines are looked at; what would be overdue at the next look is ended at this one."""
    group_window_s: float = 0.05
    """Between two entries with what consumer groups keep: all of it that comes meanwhile is one entry."""
    group_changes_max: int = 1000
    """Rows one such entry changes."""
    group_entry_bytes_max: int = 64 * 1024
    """Bytes of one such entry, and of one row."""
    group_waiting_max: int = 10_000
    """Changes waiting for their entry to be applied; one more is answered busy."""
    free_space_floor_bytes: int = 128 << 20
    """While a voter's disk has less free, what grows the log is refused by name; 0: never."""
    state_bytes_max: int = 256 << 20
    """Bytes of all rows of the state: nodes keep them in memory, and send them to each other. When there are more, what
    grows is refused by name."""
    free_space_period_s: float = 1.0
    """How often each node looks how much is free."""
    clock_note_s: float = 1.0
    """How often nodes tell each other what their clocks say."""
    clock_apart_max_s: float = 60.0
    """How far a node's clock may be ahead of a majority's, and may jump at once, before it is not believed alone."""
    clock_alone_s: float = 3.0
    """A leader whose clock has been alone in the future for so long hands over; by then everybody was heard again."""
    group_rows_max: int = 20_000
    """Rows kept for consumer groups (at most two a group); a new one beyond is refused. The log's holds
    (metadata/limits.py)."""
    lease_sweep_s: float = 0.25
    """How late the end of a lease may be noticed."""
    lease_checkpoint_s: float = 60.0
    """What is left of a lease is written down when its holder was not heard for half of this; where leaders follow each
    other faster, at once. So much longer a lease may live, however often the leader changes (etcd: 5 minutes); among
    nodes that start anew each time, longer (docs/faults.md)."""
    lease_grace_s: float = 1.0
    """What a new leader adds to every lease, for its holder to find it."""
    member_sweep_s: float = 0.25
    """How late the silence of a member may be noticed."""
    segment_pause_s: float = 0.002
    """The rest after each batch of elections of segments' leaders, and after each deletion that goes on."""
    session_sweep_s: float = 0.25
    """How late the end of a session of MQTT, or its will, may be noticed."""
    key_history_max: int = 10_000
    """Entries that changed keys, of which the keys are at hand: reads of older revisions, and watches from them, read
    the log."""
    key_history_bytes_max: int = 32 << 20
    """And bytes of them."""

    compare_period_s: float = 0.1
    """How often the leader tells what its state adds up to, if anything was applied; others compare."""
    compare_again_s: float = 0.5
    """... and how often if nothing was, and how often a follower confirms that it agrees."""
    verdict_after_s: float = 0.75
    """How long nodes that differ look at themselves before a majority says who is wrong."""
    compare_retry_s: float = 30.0
    """A difference that nobody could settle is looked into again after this."""
    wrong_hand_over_s: float = 0.3
    """How long a leader whose state is wrong waits for its successor before it stops."""
    replay_events_max: int = 200_000
    """Events folded anew, at most, to settle who is wrong; more would hold up what the node is for."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(
            self,
            zero=(
                "scan_round",
                "unfence_after_s",
                "mass_loss_share",
                "mass_loss_min",
                "failover_pause_s",
                "fencing_pause_s",
                "role_push_record_after_s",
                "role_push_gather_s",
                "group_window_s",
                "free_space_floor_bytes",
                "lease_grace_s",
                "key_history_max",
                "key_history_bytes_max",
            ),
        )
        if self.command_bytes_max > COMMAND_BYTES_MAX:
            raise UsageError(f"command_bytes_max must be from 1 to {COMMAND_BYTES_MAX}: older nodes apply no more")
        if self.deadline_sweep_s >= self.answer_timeout_s:
            raise UsageError("deadline_sweep_s must be below answer_timeout_s")
        compared_s = self.compare_again_s + 2 * self.compare_period_s
        if compared_s + self.verdict_after_s + self.wrong_hand_over_s > WRONG_STOPS_WITHIN_S:
            raise UsageError("compare_*_s, verdict_after_s and wrong_hand_over_s: a wrong node stops within 2 s")
        if 2 * self.group_entry_bytes_max > self.command_bytes_max:
            raise UsageError("group_entry_bytes_max must be at most half of command_bytes_max")
