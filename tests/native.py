"""C for tests: what must sit beneath Python (a preloaded library) or must not be the limit (a load generator).

Rules: compiled by the compiler of the locked sets (Zig's ``cc``), so that no machine has to bring one. What it keeps
between two runs lies in ``.run/zig``.
"""

import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".run" / "zig"


def compiled(source: Path, target: Path, *flags: str) -> None:
    """Compile one file, optimised. Raises CalledProcessError; the compiler's words go to stderr."""
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-o", str(target), str(source), *flags]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(CACHE), "ZIG_LOCAL_CACHE_DIR": str(CACHE)}
    subprocess.run(command, check=True, env=os.environ | caches)
