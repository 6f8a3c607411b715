"""The page's own files, as they lie in ``assets``."""

import hashlib
import zlib
from pathlib import Path
from typing import Final

import msgspec

ASSETS: Final = Path(__file__).with_name("assets")
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".webp": "image/webp",
    ".txt": "text/plain; charset=utf-8",
}
PACKED: Final = frozenset({".woff2", ".png", ".webp"})


class Asset(msgspec.Struct, frozen=True):
    """One file, ready to be sent."""

    body: bytes
    packed: bytes | None
    """The same with gzip; None where that gains nothing."""
    kind: str
    etag: str


class Site:
    """The files of a folder by their path; read when asked for, kept until they change: as many as there are files, by
    whatever names they are asked for.
    """

    def __init__(self, folder: Path = ASSETS) -> None:
        self._folder = folder.resolve()
        self._kept: dict[Path, tuple[int, Asset]] = {}

    def asset(self, path: str) -> Asset | None:
        """The file at a path within the folder; None when there is none that may be sent."""
        if "\0" in path:
            return None
        try:
            file = (self._folder / (path or "index.html")).resolve()
            if not file.is_relative_to(self._folder) or file.suffix not in TYPES or not file.is_file():
                return None
            changed = file.stat().st_mtime_ns
            kept = self._kept.get(file)
            if kept is None or kept[0] != changed:
                kept = self._kept[file] = (changed, _asset(file))
        except OSError:  # A name that is too long for a file, or a file that goes just now.
            return None
        return kept[1]


def _asset(file: Path) -> Asset:
    body = file.read_bytes()
    packed = None if file.suffix in PACKED else gzip(body, 9)
    return Asset(body, packed, TYPES[file.suffix], f'"{hashlib.sha256(body).hexdigest()[:20]}"')


def gzip(body: bytes, level: int) -> bytes:
    """A gzip member, the same for the same bytes."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()
