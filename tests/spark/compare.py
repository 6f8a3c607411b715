"""Rows of the serving store in the form of the oracle: JSON columns read, tables by key; and what differs."""

import json
from typing import Any, get_type_hints

import msgspec

from quorate_spark.serving import TABLES, Json, Row, key_of
from quorate_spark.sinks.sql import Database, connect

BY_NAME = {table.name: table for table in TABLES}
Tables = dict[str, dict[Any, dict[str, Any]]]


def plain(row: Row) -> dict[str, Any]:
    """Its columns, with the JSON ones read."""
    found = msgspec.structs.asdict(row)
    for name, hint in get_type_hints(type(row), include_extras=True).items():
        if hint in (Json, Json | None) and isinstance(found[name], str):
            found[name] = json.loads(found[name])
    return found


def key(row: Row) -> Any:
    """As the oracle has it: bare when one column is enough."""
    known = key_of(row)
    return known[0] if len(known) == 1 else known


def stored(database: Database) -> Tables:
    """Everything a store holds; a row stored twice is impossible by its key, and told when it is not."""
    found: Tables = {}
    for table in TABLES:
        columns = list(get_type_hints(table.row))
        rows = database.read(f"SELECT {', '.join(columns)} FROM {table.name}")
        made = [_row(table.row, dict(zip(columns, row, strict=True))) for row in rows]
        found[table.name] = {key(row): plain(row) for row in made}
        assert len(found[table.name]) == len(made), f"{table.name} holds a row twice"
    return found


def content(url: str) -> Tables:
    """Everything the store at this address holds, at one moment."""
    database = connect(url, read_only=True)
    try:
        with database.snapshot():
            return stored(database)
    finally:
        database.close()


def _row(kind: type[Row], values: dict[str, Any]) -> Row:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if hint is bool:
            values[name] = bool(values[name])
    return kind(**values)


def differences(found: Tables, expected: Tables) -> list[str]:
    """One line for each row that is missing, too many or other than it must be."""
    lines = []
    for name in BY_NAME:
        for known in sorted({*found[name], *expected[name]}, key=str):
            have, want = found[name].get(known), expected[name].get(known)
            if have is None or want is None:
                lines.append(f"{name} {known}: {'missing' if have is None else 'too many'}: {have or want}")
            elif have != want:
                columns = sorted({*have, *want})
                lines += [
                    f"{name} {known} {column}: {have.get(column)!r}, not {want.get(column)!r}"
                    for column in columns
                    if have.get(column) != want.get(column)
                ]
    return lines
