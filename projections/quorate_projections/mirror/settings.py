"""The settings of a mirror."""

from typing import Annotated

import msgspec
from msgspec import Meta

from quorate.bounds import bounded

EVENTS_TOPIC = "quorate.metadata.events"


class MirrorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and periods. Each field is a flag of ``quorate mirror``."""

    names: Annotated[str, Meta(description="names /ready and /metrics are asked by, besides the address: HOST,…")] = ""
    connections_max: Annotated[int, Meta(description="to --port; of one more the idlest unproven goes")] = 100
    head_timeout_s: Annotated[float, Meta(description="from a request's first byte to the end of its headers")] = 5.0
    topic: Annotated[str, Meta(description="name of the topic in the target")] = EVENTS_TOPIC
    replication_factor: Annotated[int, Meta(description="of the topic when it is made here; 3 on a real cluster")] = 1
    min_insync_replicas: Annotated[int, Meta(description="of the topic when it is made here; 2 on a real cluster")] = 1
    message_bytes_max: Annotated[int, Meta(description="largest record; an entry of a node has at most half of it")] = (
        8 * 1024 * 1024
    )
    batch_events_max: Annotated[int, Meta(description="events in one transaction")] = 500
    read_wait_s: Annotated[float, Meta(description="longest wait of a transaction for more events")] = 0.1
    transaction_timeout_s: Annotated[
        float, Meta(description="after this the target aborts what a dead mirror left open")
    ] = 15.0
    deadline_s: Annotated[float, Meta(description="for every single request to the target or the source")] = 15.0
    leader_check_s: Annotated[float, Meta(description="how often the node is asked whether it leads")] = 0.2
    back_off_s: Annotated[float, Meta(description="pause after a failure")] = 1.0

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)
