"""A recorded log: the lines of ``quorate log dump -o json``."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from quorate.errors import UsageError, reason_of
from quorate.events import Event, encode, stamp_of
from quorate_spark.dashboard.spool import Fact


class _Line(msgspec.Struct, frozen=True):
    offset: int
    term: int
    time_ms: int
    event: Event
    principal: str = ""
    cause: str = ""
    request_id: str = ""


def recorded(path: Path) -> Iterator[Fact]:
    """The events of a file. Raises UsageError, naming the line."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    record = decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise UsageError(f"{path}, line {number}: {error}") from error
                yield Fact(stamp_of(record), record.event, encode(record.event))
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}") from error
