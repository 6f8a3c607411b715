"""Build the native leaf beside its source: ``python -m quorate.leaf.build``.

Rules: it needs a C compiler (``CC``, ``cc``, ``gcc``, ``clang``, or the ``ziglang`` of the locked test set) and the
headers of Python; what it made is tried in a process of its own before it is put in its place. Nothing needs it:
whatever is missing or fails is told in one line, with exit status 0, and the Python functions go on doing the work.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

from quorate.leaf import SOURCE

TARGET = SOURCE.with_name(f"_native{sysconfig.get_config_var('EXT_SUFFIX')}")
FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
DEADLINE_S = 300
TRY = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("quorate.leaf._native", sys.argv[1])
library = module_from_spec(spec)
spec.loader.exec_module(library)
sys.exit((library.SOURCE, *library.checksums(b"123456789")) != (int(sys.argv[2]), 0xCBF43926, 0xE3069283))
"""


def compilers() -> Iterator[tuple[str, ...]]:
    """Commands that may compile C, the best first."""
    if named := os.environ.get("CC"):
        yield tuple(shlex.split(named))
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            yield (path,)
    if find_spec("ziglang"):
        yield sys.executable, "-m", "ziglang", "cc"


def built(compiler: tuple[str, ...], include: Path, target: Path, source: Path) -> str:
    """Compile and try; what went wrong, or nothing."""
    checksum = crc32(source.read_bytes())
    words = (*compiler, *FLAGS, f"-I{include}", f"-DLEAF_SOURCE={checksum}u", "-o", str(target), str(source))
    caches = {
        name: os.environ.get(name, str(target.parent)) for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
    }
    for command in (words, (sys.executable, "-c", TRY, str(target), str(checksum))):
        try:
            done = subprocess.run(
                command, env=os.environ | caches, capture_output=True, text=True, timeout=DEADLINE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
    return ""


def build(target: Path = TARGET, source: Path = SOURCE) -> str:
    """Compile ``source`` and put it at ``target``; what became of it, in one line."""
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").exists():
        return f"pure, for there is no {include / 'Python.h'}"
    troubles: list[str] = []
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".leaf-") as folder:
            for compiler in compilers():
                trouble = built(compiler, include, Path(folder, target.name), source)
                if not trouble:
                    Path(folder, target.name).replace(target)
                    return f"native, by {shlex.join(compiler)}"
                troubles.append(f"{shlex.join(compiler)}: {trouble}")
    except OSError as error:
        troubles.append(str(error))
    return f"pure, for {'; '.join(troubles) or 'there is no C compiler'}"


if __name__ == "__main__":
    print(f"leaf: {build()}")
