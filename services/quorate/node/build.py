"""What a node runs on: which Python, compiled how, and with or without the native leaf."""

import platform
import sysconfig

from quorate.leaf import BUILD

_OPTIMISED = ("--enable-optimizations", "--with-wheel-pkg-dir=/usr/share/python-wheels")
"""Said to configure: profile-guided. The second is Debian's way to say it: its rules run ``make profile-opt``."""


def interpreter() -> str:
    """``CPython 3.11.7, not optimised``: without profile-guided optimisation a node takes a fifth more of its core."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    optimised = any(option in arguments for option in _OPTIMISED)
    name = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{name}, {'' if optimised else 'not '}optimised"


def leaf() -> str:
    """``native``, or ``pure`` and why."""
    return BUILD
