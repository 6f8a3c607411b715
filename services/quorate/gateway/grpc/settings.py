"""Limits and periods of the gRPC listener."""

import msgspec

from quorate.bounds import bounded


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds unless the name says otherwise."""

    connections_max: int = 1000
    """For one more the idlest that has not had an answer is closed (``quorate.admission``)."""
    connections_reserved: int = 50
    """Of these, how many proven connections leave to others (at most half): probes are among them."""
    proven_per_address_max: int = 500
    """Connections of one address that count as proven."""
    handshake_timeout_s: float = 5.0
    """A connection that has not said the first words of HTTP/2 within this is closed."""
    request_timeout_s: float = 10.0
    """A request that has begun, or a frame, is whole within this."""
    write_timeout_s: float = 30.0
    """A client that takes nothing of an answer for this long is not sent the rest."""
    sweep_period_s: float = 1.0
    """How often deadlines are looked at."""
    calls_max: int = 4000
    """Calls under way on all connections, streams too; one more is refused (RESOURCE_EXHAUSTED). The last quarter is
    for connections that have few.
    """
    streams_per_connection_max: int = 1000
    """Calls of one connection at a time; more wait at the client."""
    resets_per_s: float = 200.0
    """Calls of one connection that may be broken off in a second, once as many were as it may have at a time."""
    request_bytes_max: int = 1024 * 1024
    """A larger request is refused (etcd's ``--max-request-bytes`` is 1.5 MiB)."""
    received_bytes_max: int = 128 * 1024 * 1024
    """Of requests that are coming or being answered, of all connections; of one of them a quarter of it."""
    answer_bytes_max: int = 64 * 1024 * 1024
    """Keys of one Range answer; whoever asks for more is told to set a limit."""
    answer_timeout_s: float = 2.5
    """A read or a write is answered within this, or when its caller's own deadline passes."""
    past_timeout_s: float = 10.0
    """A read of a revision that is no longer in memory: it is replayed."""
    waiting_max: int = 1000
    """Reads that may wait for an offset at the same time."""
    keys_per_turn: int = 500
    """Keys of a large answer that are converted before other work gets its turn."""
    keepalive_time_s: float = 60.0
    """A connection without traffic for this long is asked whether its client lives."""
    keepalive_timeout_s: float = 20.0
    """And closed if it has not answered within this."""
    client_ping_min_s: float = 5.0
    """Clients that ask more often than this are disconnected (etcd ``--grpc-keepalive-min-time``)."""
    idle_timeout_s: float = 600.0
    """A connection without a call for this long is closed."""
    stop_grace_s: float = 0.2
    """How long calls under way may take when the node stops."""
    watches_max: int = 20_000
    """Watches of all streams."""
    watches_per_stream_max: int = 10_000
    """Watches of one stream."""
    watches_bytes_max: int = 64 * 1024 * 1024
    """Of the ranges of all watches: the key and the end of each."""
    watch_buffer_bytes: int = 256 * 1024
    """Answers that wait for a slow client; beyond it the rest is read again when these are taken."""
    watch_answer_bytes: int = 64 * 1024
    """A watcher that catches up gets whole revisions until an answer is this large."""
    watch_turn: int = 500
    """Events that watchers are told before other work gets its turn; one watcher's of one change are not parted."""
    watch_read_bytes: int = 16 * 1024
    """Of the log, at a time, for a watcher that starts before what is in memory: each event is decoded and folded."""
    replays_max: int = 2
    """Watchers that read the log at the same time; others wait."""
    progress_period_s: float = 600.0
    """A watcher that wants to be told of progress is told this often when nothing happens (as etcd)."""
    no_leader_grace_s: float = 3.0
    """A stream of a client that requires a leader (``hasleader``, as ``clientv3``'s locks and elections do) ends when
    there is none for this long; no call of such a client begins where none is known.
    """
    health_period_s: float = 1.0
    """How often a watched health is looked at."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("stop_grace_s",))
