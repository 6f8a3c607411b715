"""Exit 0 if this Python can be set up with, and was compiled with profile-guided optimisation (``.ci/python`` asks).

The same marks as in ``quorate.node.build``, which a Python without our packages cannot import.
"""

import sys
import sysconfig
from importlib.util import find_spec

MARKS = ("--enable-optimizations", "--with-wheel-pkg-dir=/usr/share/python-wheels")

if __name__ == "__main__":
    said = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    able = (3, 11) <= sys.version_info[:2] <= (3, 13) and find_spec("venv") and find_spec("ensurepip")
    sys.exit(0 if able and any(mark in said for mark in MARKS) else 1)
