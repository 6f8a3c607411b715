"""One change of one file of a stopped node, drawn by chance: a flipped bit, a cut, a deletion."""

import shutil
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

Way = Literal["bit flip", "truncation", "deletion"]
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


def campaign(data: Path, flips: int, others: int, seed: int) -> list[Damage]:
    """So many bit flips, and so many truncations and deletions, half of each."""
    random = Random(seed)
    ways: list[Way] = ["bit flip" for _ in range(flips)]
    ways += ["truncation" if number % 2 else "deletion" for number in range(others)]
    return [draw(data, way, random) for way in ways]
