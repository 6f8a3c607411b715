"""A record of the event topic, as any Kafka client hands it over: where it stands, its stamp, its event.

Rules: the event's offset is the one in the header ``offset``, never Kafka's. On a node both are the same; in a real
Kafka that the log is mirrored to, Kafka's offsets have holes (transaction markers) and serve for seeking only.
"""

from collections.abc import Callable, Sequence

from quorate.errors import PeerError
from quorate.events import DecodeError, Event, Stamp, decode

Headers = Sequence[tuple[str, bytes]]
"""In a Kafka that others write to as well a value may be None."""


class RecordError(PeerError):
    """A record that is no event of ours: a header is missing, null or no number, or the value cannot be read."""


def event_offset(headers: Headers) -> int:
    """The event's own offset. Raises RecordError."""
    try:
        name, text = headers[0]
        if name != "offset":
            text = dict(headers)["offset"]
        return int(text)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"a record without an event offset: {error!r}") from error


def read_stamp(headers: Headers) -> Stamp:
    """Who, when, why. Raises RecordError."""
    try:
        values = dict(headers)
        return Stamp(
            offset=int(values["offset"]),
            term=int(values["term"]),
            time_ms=int(values["time_ms"]),
            principal=str(values["principal"], "utf-8"),
            cause=str(values["cause"], "utf-8"),
            request_id=str(values["request_id"], "utf-8"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"a record without a whole stamp: {error!r}") from error


def read_event(value: bytes | None, decode: Callable[[bytes], Event] = decode) -> Event:
    """The event, by this or that decoder. Raises RecordError, also for a kind that is newer than this software."""
    try:
        return decode(value or b"")
    except DecodeError as error:
        raise RecordError(f"a record that cannot be read: {error}") from error
