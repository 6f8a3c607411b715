"""Power loss: kill -9 keeps the page cache, so what was never synced must be taken back by hand.

Theory: ``undo.c``, preloaded into a node, logs before each write how to undo it and after each sync what no longer
needs undoing. Replaying the log backwards leaves each file as its last successful sync did. Logs of several lives of
one node are read in order, for a later life's sync of a file also covers what an earlier life wrote to it.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from tests.native import compiled

SOURCE = Path(__file__).with_name("undo.c")
_U32 = struct.Struct("=I")
_U64 = struct.Struct("=Q")
_WRITE = struct.Struct("=QQI")
_CUT = struct.Struct("=QI")


def build(folder: Path) -> Path:
    """Compile the library into ``folder``."""
    library = folder / "undo.so"
    compiled(SOURCE, library, "-shared", "-fPIC", "-ldl", "-lpthread")
    return library


def environment(library: Path, logs: Path, data: Path, lie: Path | None = None) -> dict[str, str]:
    """What the next life of a node needs in its environment; while the file ``lie`` exists, its syncs do nothing."""
    logs.mkdir(parents=True, exist_ok=True)
    life = len(list(logs.glob("*.undo")))
    names = {
        "LD_PRELOAD": str(library),
        "QUORATE_UNDO_LOG": str(logs / f"{life:04}.undo"),
        "QUORATE_UNDO_MATCH": str(data),
    }
    return names | ({"QUORATE_UNDO_LIE": str(lie)} if lie else {})


@dataclass
class _Undo:
    number: int
    path: str
    offset: int
    size: int
    old: bytes


def _records(log: bytes, first: int) -> tuple[list[_Undo | tuple[int, str, int] | tuple[str, str]], int]:
    """Parse one life: undos, (number, path, synced up to) and (from, to) renames; a torn last record is dropped."""
    found: list[_Undo | tuple[int, str, int] | tuple[str, str]] = []
    at, number = 0, first
    try:
        while at < len(log):
            kind, (size,) = log[at : at + 1], _U32.unpack_from(log, at + 1)
            path, at = log[at + 5 : at + 5 + size].decode(), at + 5 + size
            if kind == b"S":
                found.append((number, path, first + _U64.unpack_from(log, at)[0]))
                at += 8
            elif kind == b"R":
                (length,) = _U32.unpack_from(log, at)
                found.append((path, log[at + 4 : at + 4 + length].decode()))
                at += 4 + length
            else:
                layout = _WRITE if kind == b"W" else _CUT
                head = layout.unpack_from(log, at)
                at += layout.size
                old = log[at : at + head[-1]]
                if len(old) < head[-1]:
                    break
                at += head[-1]
                found.append(_Undo(number, path, head[0] if kind == b"W" else 0, head[-2], old))
            number += 1
    except struct.error:
        pass
    return found, number


def lose_power(logs: Path) -> int:
    """Take back every write that was not synced; returns how many bytes of writes that undid. The node must be dead."""
    undos: list[_Undo] = []
    synced: dict[str, int] = {}
    number = 0
    for log in sorted(logs.glob("*.undo")):
        found, number = _records(log.read_bytes(), number)
        for record in found:
            if isinstance(record, _Undo):
                undos.append(record)
            elif len(record) == 3:
                synced[record[1]] = max(synced.get(record[1], 0), record[2])
            else:
                source, target = record
                for undo in undos:
                    if undo.path == source:
                        undo.path = target
                synced[target] = synced.pop(source, 0)
    taken = 0
    for undo in reversed(undos):
        if undo.number < synced.get(undo.path, 0) or not Path(undo.path).exists():
            continue
        with Path(undo.path).open("r+b") as file:
            size_now = file.seek(0, os.SEEK_END)
            file.seek(undo.offset)
            file.write(undo.old)
            file.truncate(undo.size)
        taken += max(len(undo.old), size_now - undo.size)
    for log in logs.glob("*.undo"):
        log.unlink()
    return taken
