"""The dashboard's settings. The sizes of a single question are constants of ``asking.py``."""

from pathlib import Path

import msgspec

from quorate.bounds import bounded
from quorate.listening import ListeningLimits
from quorate_spark.dashboard.panels.view import Flapping


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one ``quorate dashboard``."""

    nodes: tuple[str, ...] = ()
    """Kafka addresses of nodes, host:port."""
    recorded: Path | None = None
    """A recorded log instead of nodes."""
    topic: str = "quorate.metadata.events"
    cluster_id: str = ""
    """Refuse any other; empty: the first one seen."""
    rack: str = ""
    """Kafka's ``client.rack``: read from the node of this zone."""
    host: str = "127.0.0.1"
    port: int = 9950
    names: tuple[str, ...] = ()
    """Host names browsers may call it by, besides its own address."""
    serving: str = ""
    """URL of the Spark application's serving store."""
    projections: tuple[str, ...] = ()
    """HTTP addresses of projection workers, host:port."""
    flapping: Flapping = Flapping()
    poll_ms: int = 1_000
    """How often soft state is asked for while somebody watches."""
    poll_many_ms: int = 5_000
    """The same for brokers when there are more than ``sets_many`` sets: a node has better things to do."""
    sets_many: int = 200
    watch_ms: int = 10_000
    """How long after a live question somebody still counts as watching."""
    node_timeout_ms: int = 2_000
    """Time for a node to answer."""
    silence_ms: int = 1_500
    """After so long without an answer to any fetch the connection is made anew, and the log proven to be the same."""
    connect_ms: int = 10_000
    """Time for making it."""
    coalesce_ms: int = 50
    """Facts folded within this time go to browsers together."""
    clients_max: int = 200
    client_queue_max: int = 64
    """Messages that wait for a slow browser; then it is told to read again."""
    catch_up_max: int = 2_000
    """Events a browser that returns may have missed and still be sent; beyond, it reads again."""
    facts_max: int = 500
    """Events in one message to browsers."""
    listening: ListeningLimits = ListeningLimits()
    """Limits of the listener."""
    body_ms: int = 5_000
    """Time for the body of a question to arrive."""
    waiting_max: int = 64
    """Questions that wait for an answer at once; then 503."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("port", "coalesce_ms", "catch_up_max"))
