"""The messages' author: ``pb/*.proto`` → ``pb/*_pb2.py``, their types, and the services' stubs.

Rules: the output depends on the ``.proto`` files and on the locked ``grpcio-tools`` alone; only the tools of the house
run this, never a node.

Run: ``python -m quorate.gateway.grpc.generate [--check]``; ``--check`` writes nothing and exits 1 when the committed
files are not what would be written.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

from quorate.errors import UsageError

HERE = Path(__file__).with_name("pb")
SERVICES = Path(__file__).parents[3]
MADE = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def written(folder: Path) -> dict[str, bytes]:
    """What protoc makes of the sources, by file name; ``folder`` is where it writes. Raises UsageError."""
    sources = [str(path) for path in sorted(HERE.glob("*.proto"))]
    outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{SERVICES}", *outputs, *sources]):
        raise UsageError("protoc refuses the sources")
    return contents(folder / HERE.relative_to(SERVICES))


def contents(folder: Path) -> dict[str, bytes]:
    """The generated files of a folder; a stub of no service is none."""
    found = {path.name: path.read_bytes() for pattern in MADE for path in sorted(folder.glob(pattern))}
    return {name: content for name, content in found.items() if not _serves_nothing(name, content)}


def _serves_nothing(name: str, content: bytes) -> bool:
    return name.endswith("_grpc.py") and b"class " not in content


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something would change")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        new = written(Path(folder))
    old = contents(HERE)
    wrong = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    for name in wrong:
        print(f"{name}: not what the sources say")
        if not options.check and name in new:
            (HERE / name).write_bytes(new[name])
        elif not options.check:
            (HERE / name).unlink()
    return int(bool(wrong and options.check))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
