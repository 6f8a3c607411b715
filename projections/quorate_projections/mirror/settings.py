"""The settings of a mirror."""

import msgspec

from quorate.bounds import bounded

EVENTS_TOPIC = "quorate.metadata.events"


class MirrorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and periods; seconds unless the name says otherwise."""

    topic: str = EVENTS_TOPIC
    """Name of the topic in the target."""
    replication_factor: int = 1
    """Of the target topic when the mirror creates it; 3 on a real cluster."""
    min_insync_replicas: int = 1
    """The same; 2 on a real cluster."""
    message_bytes_max: int = 2 * 1024 * 1024
    """Largest record; an entry of a node has at most half of it."""
    batch_events_max: int = 500
    """Events in one transaction."""
    read_wait_s: float = 0.1
    """How long a read waits for more events; so long does a quiet event wait for its transaction at most."""
    transaction_timeout_s: float = 15.0
    """After this the target aborts what a dead mirror left open."""
    deadline_s: float = 15.0
    """For every single request to the target or the source."""
    leader_check_s: float = 0.2
    """How often the node is asked whether it leads."""
    back_off_s: float = 1.0
    """Pause after a failure."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)
