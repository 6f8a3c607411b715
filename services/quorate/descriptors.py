"""What a program may have open at the same time fits below what the system allows.

Rules: the limit is raised as far as it may be. What no setting can spare comes first; what is left is shared in the
measure of the settings, never below the least of each. When not even that is there the program does not start. So no
flood of connections can take the descriptor of a file that must be opened.
"""

import resource
from collections.abc import Mapping
from typing import Final, TypeVar

from quorate.errors import UsageError

K = TypeVar("K")

SPARE: Final = 64
"""Standard streams, the loop's own, listeners, locks, logs, child processes; connections about to be closed."""
STORE_SPARE: Final = 24
"""Files that RocksDB opens beside its tables: logs, manifests, output of compactions."""


def raised(need: int) -> int:
    """Raise this process's limit to ``need``, or as far as it may be; answers what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return need
    if soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def shared(asked: Mapping[K, int], least: Mapping[K, int], room: int, limit: int) -> dict[K, int]:
    """How many of the ``room`` each may have, at most what it asked for. Raises UsageError when there are too few."""
    least = {name: min(number, least[name]) for name, number in asked.items()}
    if room >= sum(asked.values()):
        return dict(asked)
    spare = room - sum(least.values())
    if spare < 0:
        raise UsageError(
            f"this process may open {limit} files and needs at least {limit - spare}: raise it (ulimit -n 65536)"
        )
    over = sum(asked.values()) - sum(least.values())
    return {name: least[name] + (number - least[name]) * spare // over for name, number in asked.items()}
