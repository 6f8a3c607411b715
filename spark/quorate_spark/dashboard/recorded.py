"""A recorded log: the lines of ``quorate log dump -o json``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from quorate.errors import UsageError, reason_of
from quorate.events import Event, encode, stamp_of
from quorate_spark.dashboard.spool import INT64_MAX, Fact

Number = Annotated[int, Meta(ge=0, le=INT64_MAX)]


class _Line(msgspec.Struct, frozen=True):
    offset: int
    term: Number
    time_ms: Number
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
