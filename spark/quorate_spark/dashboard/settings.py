"""The dashboard's settings. The sizes of a single question are constants of ``asking.py``."""

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quorate.bounds import bounded
from quorate.listening import ListeningLimits
from quorate_spark.limits import FLAPPING_ELECTIONS, FLAPPING_WINDOW_MS

_PORT_MAX: Final = (1 << 16) - 1


class Flapping(msgspec.Struct, frozen=True, kw_only=True):
    """When a set counts as flapping."""

    elections: int
    window_ms: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one ``quorate dashboard``. A field with a description is a flag; the others have one of their own."""

    nodes: tuple[str, ...] = ()
    """Kafka addresses of nodes, host:port."""
    registry: str = ""
    """HTTP addresses of nodes, host:port,…: asked, after those the log names, for a schema that this build lacks."""
    recorded: Path | None = None
    """A recorded log instead of nodes."""
    names: tuple[str, ...] = ()
    """Host names browsers may call it by, besides its own address."""
    projections: tuple[str, ...] = ()
    """HTTP addresses of projection workers, host:port."""
    listening: ListeningLimits = ListeningLimits()
    """Limits of the listener."""
    topic: Annotated[str, Meta(description="the event topic")] = "quorate.metadata.events"
    cluster_id: Annotated[str, Meta(description="refuse any other cluster than this")] = ""
    rack: Annotated[
        str, Meta(description="read from the node of this zone, or node-<id>", extra={"metavar": "ZONE"})
    ] = ""
    host: Annotated[str, Meta(description="where it listens")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_PORT_MAX, description="its port; 0: any")] = 9950
    serving: Annotated[str, Meta(description="the Spark application's serving store", extra={"metavar": "URL"})] = ""
    flapping_elections: Annotated[int, Meta(ge=1, le=32, description="so many in the window flap")] = FLAPPING_ELECTIONS
    flapping_window_ms: Annotated[int, Meta(description="length of that window")] = FLAPPING_WINDOW_MS
    poll_ms: Annotated[int, Meta(description="between questions for soft state while somebody watches")] = 1_000
    poll_many_ms: Annotated[
        int, Meta(description="the same of brokers when there are more than sets_many broker sets")
    ] = 5_000
    sets_many: Annotated[int, Meta(description="broker sets from which on brokers are asked for less often")] = 200
    watch_ms: Annotated[int, Meta(description="so long after a live question somebody still watches")] = 10_000
    node_timeout_ms: Annotated[int, Meta(description="for a node to answer")] = 2_000
    silence_ms: Annotated[
        int, Meta(description="without an answer to a fetch for so long, the connection is made anew")
    ] = 1_500
    connect_ms: Annotated[int, Meta(description="for making it")] = 10_000
    coalesce_ms: Annotated[int, Meta(description="facts folded within this time go to browsers together")] = 50
    clients_max: Annotated[int, Meta(description="browsers that follow live")] = 200
    client_queue_max: Annotated[
        int, Meta(description="messages that wait for a slow browser; then it reads the page again")
    ] = 64
    catch_up_max: Annotated[
        int, Meta(description="events a browser may have missed and still be sent; with more it reads again")
    ] = 2_000
    facts_max: Annotated[int, Meta(description="events in one message to browsers")] = 500
    body_ms: Annotated[int, Meta(description="for the body of a question to arrive")] = 5_000
    waiting_max: Annotated[int, Meta(description="questions that wait for an answer; one more is told 503")] = 64

    @property
    def flapping(self) -> Flapping:
        """How many elections, in which time, are too many."""
        return Flapping(elections=self.flapping_elections, window_ms=self.flapping_window_ms)

    @property
    def soft_ms(self) -> int:
        """Soft state this old is no longer of now: some rounds of questions, each with a few that nobody answers."""
        return 3 * self.poll_ms + 5 * self.node_timeout_ms

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("port", "coalesce_ms", "catch_up_max"))
