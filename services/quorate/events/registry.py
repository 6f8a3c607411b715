"""The committed list of every schema version that ever was, and the id each has on the wire.

Rules: ids start at 1, follow the order of the list, and are never given anew; an entry, once committed, never changes,
for events written under it are kept for ever. Only ``quorate.events.generate`` appends.
"""

import json
from pathlib import Path

import msgspec

from quorate.errors import UsageError
from quorate.events.schema import Json, Record, fingerprint, parse, to_json


class Entry(msgspec.Struct, frozen=True):
    """One version of one event's schema, without its docs."""

    id: int
    name: str
    version: int
    """1 for the event's first schema, then counting."""
    fingerprint: str
    schema: Record


def path_in(folder: Path) -> Path:
    """Where the registry is in a folder of schemas."""
    return folder / "registry.json"


def load(folder: Path) -> tuple[Entry, ...]:
    """The entries in id order; none when there is no file. Raises UsageError when the file was tampered with."""
    path = path_in(folder)
    if not path.exists():
        return ()
    try:
        raw = msgspec.json.decode(path.read_bytes(), type=_File)
    except msgspec.DecodeError as error:
        raise UsageError(f"registry.json: {error}") from error
    entries: list[Entry] = []
    for expected_id, item in enumerate(raw.schemas, start=1):
        record = parse(_plain(item.schema), documented=False)
        version = 1 + sum(entry.name == item.name for entry in entries)
        if (item.id, item.version, item.fingerprint) != (expected_id, version, fingerprint(record)):
            raise UsageError(f"registry.json: the entry of id {item.id} was changed, moved or removed")
        if item.name != record.name:
            raise UsageError(f"registry.json: id {item.id} is called {item.name} and defines {record.name}")
        entries.append(Entry(expected_id, item.name, version, item.fingerprint, record))
    return tuple(entries)


def append(entries: tuple[Entry, ...], events: dict[str, Record]) -> tuple[Entry, ...]:
    """The entries and one more for each event whose newest entry is not its schema, in name order."""
    grown = list(entries)
    for name, record in sorted(events.items()):
        versions = [entry for entry in grown if entry.name == name]
        if not versions or versions[-1].fingerprint != fingerprint(record):
            grown.append(Entry(len(grown) + 1, name, len(versions) + 1, fingerprint(record), record))
    return tuple(grown)


def text(entries: tuple[Entry, ...]) -> str:
    """The file's content: one entry per line, so that a merge shows what was added."""
    lines = [
        json.dumps(
            {
                "id": entry.id,
                "name": entry.name,
                "version": entry.version,
                "fingerprint": entry.fingerprint,
                "schema": to_json(entry.schema, documented=False),
            },
            ensure_ascii=False,
        )
        for entry in entries
    ]
    return '{"schemas": [\n' + ",\n".join(lines) + "\n]}\n"


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    name: str
    version: int
    fingerprint: str
    schema: msgspec.Raw


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schemas: tuple[_Item, ...]


def _plain(raw: msgspec.Raw) -> Json:
    plain: Json = json.loads(bytes(raw))
    return plain
