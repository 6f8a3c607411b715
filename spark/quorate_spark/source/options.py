"""The options of ``format("quorate")``: where the log is, and how much of it to read.

Rules: one frozen value, parsed once; Spark's option names are the fields in camel case, in any letter case; an unknown
name is an error with a suggestion; what begins with ``kafka.`` goes to the Kafka client as it is (TLS, SASL).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Literal

import msgspec

from quorate.asking import addresses
from quorate.errors import UsageError

CLIENT = "kafka."
DIGITS_MAX = 18
"""Of an offset or a time; more do not fit where Kafka holds them."""


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The log to read and the part of it that is wanted."""

    nodes: str
    """Kafka addresses of some nodes (or of the mirror's brokers), ``host:port``, comma-separated."""
    registry: str = ""
    """HTTP addresses of some nodes, ``host:port``, comma-separated: asked for a schema that this build does not know.
    Empty = an event of such a schema fails the query.
    """
    topic: str = "quorate.metadata.events"
    """Name of the event topic."""
    mirror: bool = False
    """Is it the copy in a real Kafka? Offsets there have holes; the event offset is in the record's header."""
    cluster: str = ""
    """Id of the cluster whose log is wanted; any other one is refused. Empty = the first one met."""
    rack: str = ""
    """Read from the node of this zone, or ``node-<id>``; empty = from the leader."""
    starting_offset: str = ""
    """First event offset, ``earliest`` (default) or ``latest``; a checkpoint knows better."""
    starting_time: str = ""
    """Instead: begin with the first event of this time or later; ISO 8601 (UTC unless it says so) or epoch ms."""
    ending_offset: str = ""
    """Batch only: end before this event offset; default ``latest``."""
    ending_time: str = ""
    """Batch only, instead: end before the first event of this time or later."""
    max_events_per_trigger: int = 50_000
    """The largest micro-batch."""
    events_per_task: int = 25_000
    """A larger range is read by several tasks at once."""
    poll_interval_ms: int = 200
    """While nothing happens the log is asked for its end at most once in this time, whatever the trigger."""
    identity_interval_ms: int = 10_000
    """The log is asked which one it is at least this often while there are batches."""
    timeout_ms: int = 60_000
    """How long nodes may be out of reach, or a read without progress, before the query fails."""
    client: dict[str, str] = {}
    """Further properties of the Kafka client, without the ``kafka.``."""

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be."""
        if not self.nodes:
            raise UsageError('option "nodes" is needed: Kafka addresses of some nodes, host:port')
        if self.registry:
            addresses(self.registry, 'option "registry"')
        for name in ("max_events_per_trigger", "events_per_task", "timeout_ms"):
            if getattr(self, name) < 1:
                raise UsageError(f"option {_CAMEL[name]!r} must be at least 1")
        for name in ("poll_interval_ms", "identity_interval_ms"):
            if getattr(self, name) < 0:
                raise UsageError(f"option {_CAMEL[name]!r} must not be negative")
        for end, names in (("starting", ("earliest", "latest")), ("ending", ("latest",))):
            offset, time = getattr(self, f"{end}_offset"), getattr(self, f"{end}_time")
            if offset and time:
                raise UsageError(f"{end}Offset and {end}Time exclude each other")
            if offset and offset not in names and not (offset.isdecimal() and len(offset) <= DIGITS_MAX):
                raise UsageError(f"{end}Offset is {' or '.join(names)} or a number, not {offset[:40]!r}")
            if time:
                epoch_ms(time)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """From Spark's options. Raises UsageError naming the option that is wrong."""
        values: dict[str, str | dict[str, str]] = {}
        client: dict[str, str] = {}
        for name, value in options.items():
            if name.lower().startswith(CLIENT):
                client[name[len(CLIENT) :].lower()] = value
            elif (option := _BY_LOWER.get(name.lower())) is not None:
                values[option] = value
            else:
                near = get_close_matches(name.lower(), _BY_LOWER, 1)
                hint = f"; did you mean {_BY_LOWER[near[0]]!r}?" if near else ""
                raise UsageError(f"unknown option {name!r}{hint}")
        try:
            return msgspec.convert({"nodes": "", **values, "client": client}, cls, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"option: {error}") from error

    def texts(self) -> dict[str, str]:
        """Spark's options: what ``parse`` reads back."""
        plain: dict[str, str | int | bool | dict[str, str]] = msgspec.to_builtins(self)
        client = plain.pop("client")
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in plain.items()}
        return texts | {CLIENT + name: value for name, value in (client.items() if isinstance(client, dict) else ())}

    def boundary(self, end: Literal["starting", "ending"]) -> int | Literal["earliest", "latest"] | None:
        """The offset asked for, ``earliest``, ``latest``; None when a time is asked for."""
        text: str = getattr(self, f"{end}_offset")
        if text.isdecimal():
            return int(text)
        if getattr(self, f"{end}_time"):
            return None
        if end == "ending" or text == "latest":
            return "latest"
        return "earliest"


_CAMEL = dict(zip(SourceOptions.__struct_fields__, SourceOptions.__struct_encode_fields__, strict=True))
_BY_LOWER = {name.lower(): name for field, name in _CAMEL.items() if field != "client"}


def epoch_ms(time: str) -> int:
    """Epoch milliseconds of ISO 8601 text (UTC unless it says otherwise) or of a number. Raises UsageError.

    Before the epoch is the epoch: no event is older, and Kafka takes a negative time for the end of the log.
    """
    if time.isdecimal() and len(time) <= DIGITS_MAX:
        return int(time)
    try:
        moment = datetime.fromisoformat(time)
    except ValueError as error:
        raise UsageError(f"not a time: {time[:40]!r} (ISO 8601, or epoch milliseconds)") from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return max(0, round(moment.timestamp() * 1000))
