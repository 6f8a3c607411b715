"""One change of the files of a stopped node, drawn by chance: a flipped bit, a cut, a deletion."""

import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from quorate.consensus.journal.frames import FRAMES_AT, SEAL_AT, SEAL_BYTES, decode_frame, decode_header, seed_of
from quorate.consensus.storage.store import RocksStore, read_applied

Way = Literal["bit flip", "truncation", "deletion", "cut at an edge"]
"""*cut at an edge*: of a record of the journal; what follows was never written, as far as anybody can see."""
KINDS = {
    "journal segment": "journal/*.journal",
    "store table": "store/*.sst",
    "store log": "store/*.log",
    "store manifest": "store/MANIFEST-*",
    "store CURRENT": "store/CURRENT",
    "store options": "store/OPTIONS-*",
    "store config": "store/rocksdict-config.json",
    "store identity": "store/IDENTITY",
    "store's own diary": "store/LOG",
    "voter.json": "voter.json",
}
"""Kind of file → where they lie in a data directory."""
HEAVY = {"journal segment": 4, "store table": 4, "store log": 3, "store manifest": 2, "voter.json": 2}
"""How often a kind is drawn, where it is not once."""


class Damage(msgspec.Struct, frozen=True):
    """What to do to which file."""

    kind: str
    file: str
    """Relative to the data directory."""
    way: Way
    at: int
    """Byte of the flip, or bytes that are left."""
    bit: int = 0

    def __str__(self) -> str:
        """One line of a report."""
        where = (
            "" if self.way == "deletion" else f" at {self.at}" + (f" bit {self.bit}" if self.way == "bit flip" else "")
        )
        return f"{self.way} of {self.file}{where}"

    def do(self, data: Path) -> None:
        """Change the file in place: its inode stays."""
        path = data / self.file
        if self.way == "deletion":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            return
        if self.way == "cut at an edge":
            content = bytearray(path.read_bytes())
            content[self.at :] = bytes(len(content) - self.at)
            content[SEAL_AT : SEAL_AT + SEAL_BYTES] = bytes(SEAL_BYTES)
            path.write_bytes(content)
            for later in path.parent.glob("*.journal"):
                if later.name > path.name:
                    later.unlink()
            return
        with path.open("r+b") as file:
            if self.way == "truncation":
                file.truncate(self.at)
            else:
                at = min(self.at, path.stat().st_size - 1)
                file.seek(at)
                (byte,) = file.read(1)
                file.seek(at)
                file.write(bytes([byte ^ 1 << self.bit]))


def kind_of(file: str) -> str:
    """The kind of a file of a data directory; empty for none of ours."""
    return next((kind for kind, pattern in KINDS.items() if Path(file).match(pattern)), "")


def draw(data: Path, way: Way, random: Random) -> Damage:
    """Some damage to one of the files there that hold anything. Journal segments are born full of zeros: half of the
    changes aim at what is written.
    """
    if way == "cut at an edge":
        return random.choice(edges(data))
    found: dict[str, list[Path]] = {}
    for kind, pattern in KINDS.items():
        files = sorted(path for path in data.glob(pattern) if path.stat().st_size)
        if files:
            found[kind] = files
    kind = random.choices(list(found), [HEAVY.get(kind, 1) for kind in found])[0]
    path = random.choice(found[kind])
    content = path.read_bytes()
    end = len(content.rstrip(b"\0")) if random.random() < 0.5 else len(content)
    at = random.randrange(max(end, 1))
    return Damage(kind, str(path.relative_to(data)), way, 0 if way == "deletion" else at, random.randrange(8))


def edges(data: Path) -> list[Damage]:
    """Every cut of the journal at a record's edge that takes what the store knows was durable."""
    with tempfile.TemporaryDirectory(prefix="quorate-faults-") as folder:
        shutil.copytree(data / "store", Path(folder) / "store")  # Opening it changes it.
        store = RocksStore(str(Path(folder) / "store"))
        applied = read_applied(store)
        store.close()
    assert applied is not None
    assert applied.durable_seq
    found: list[Damage] = []
    for path in sorted(data.glob(KINDS["journal segment"])):
        content = path.read_bytes()
        header = decode_header(content)
        if header is not None:
            at, seq = FRAMES_AT, header.start_seq - 1
            while seq < applied.durable_seq:
                found.append(Damage("journal segment", str(path.relative_to(data)), "cut at an edge", at))
                frame = decode_frame(content, at, seed_of(header.segment))
                if frame is None or frame.seq != seq + 1:
                    break
                at, seq = frame.end, frame.seq
    return found


def ways_of(flips: int, others: int) -> list[Way]:
    """So many bit flips, and so many cuts and deletions, half of each; half of the cuts are at a record's edge."""
    cuts: list[Way] = ["deletion", "truncation", "deletion", "cut at an edge"]
    ways: list[Way] = ["bit flip" for _ in range(flips)]
    return [*ways, *(cuts[number % 4] for number in range(others))]


def campaign(data: Path, flips: int, others: int, seed: int) -> list[Damage]:
    """So much damage."""
    random = Random(seed)
    return [draw(data, way, random) for way in ways_of(flips, others)]
