"""Checks that current and past schemas can read each other's events.

Rules: backward (a new reader, an old event) and forward (an old reader, a new event), against *every* version in the
registry, not only the newest; events are kept for ever. Names and keys never change, and no event is taken away.
Stricter than Avro where Avro would let the meaning move: no promotion of types, no change of a default.

Run: ``python -m quorate.events.compat [--schemas DIR]``; exit 0 compatible, 1 not (each break on a line), 2 unreadable.
Source: Avro 1.12 specification, "Schema Resolution".
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from quorate.errors import UsageError
from quorate.events import registry, schema
from quorate.events.schema import Array, FieldType, Record


def breaks(events: dict[str, Record], entries: Sequence[registry.Entry]) -> list[str]:
    """Every incompatibility, as a sentence; empty when there is none."""
    problems: list[str] = []
    for entry in entries:
        event = events.get(entry.name)
        if event is None:
            problems.append(f"{entry.name} was taken away; its events are in the log")
            continue
        since = f"since version {entry.version} (id {entry.id})"
        if event.key != entry.schema.key:
            problems.append(f"{event.name}: the key changed {since}")
        problems.extend(f"{problem} {since}" for problem in _record_breaks(entry.schema, event, event.name))
    return list(dict.fromkeys(problems))


def _record_breaks(old: Record, new: Record, where: str) -> Iterator[str]:
    if old.name != new.name:
        yield f"{where}: the record {old.name} is called {new.name}"
    for field in new.fields:
        before = old.field(field.name)
        if before is None:
            if field.default is None:
                yield f"{where}.{field.name}: a new field without a default"
            continue
        if before.default is not None and field.default != before.default:
            yield f"{where}.{field.name}: the default changed"
        yield from _type_breaks(before.type, field.type, f"{where}.{field.name}")
    for field in old.fields:
        if field.default is None and new.field(field.name) is None:
            yield f"{where}.{field.name}: a field without a default was taken away"


def _type_breaks(old: FieldType, new: FieldType, where: str) -> Iterator[str]:
    if isinstance(old, Array) and isinstance(new, Array):
        yield from _type_breaks(old.items, new.items, where)
    elif isinstance(old, Record) and isinstance(new, Record):
        yield from _record_breaks(old, new, where)
    elif old != new:
        yield f"{where}: the type changed"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Check that every version of every event can be read by every other.")
    parser.add_argument("--schemas", type=Path, default=schema.SCHEMAS_DIR, help="the folder of .avsc files")
    folder: Path = parser.parse_args(arguments).schemas
    try:
        problems = breaks(schema.load(folder), registry.load(folder))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
