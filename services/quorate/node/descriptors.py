"""File descriptors are budgeted at the start: whatever may be open at the same time fits below what the system allows.

Rules: the limit is raised as far as it may be. What the disk and the voters need comes first; what is left is shared
among connections, dials and the store's open tables, in the measure of their settings and never below ``LEAST``. When
less is left than the settings say the node serves fewer at a time, and says so; when not even the least is left it does
not start. So no flood of connections can take the descriptor of a file that a leader must open.
"""

import resource
from typing import Final, TypeVar

import msgspec

from quorate.errors import UsageError
from quorate.node.settings import NodeSettings

S = TypeVar("S", bound=msgspec.Struct)

SPARE: Final = 64
"""Standard streams, the loop's own, listeners, locks, logs, processes that replay; connections about to be closed."""
STORE_SPARE: Final = 24
"""Files that RocksDB opens beside its tables: logs, manifests, output of compactions."""
LEAST: Final[dict[tuple[str, ...], int]] = {
    ("remoting", "connections_max"): 24,
    ("kafka", "connections_max"): 16,
    ("http", "connections_max"): 16,
    ("grpc", "connections_max"): 16,
    ("remoting", "push_connections_max"): 8,
    ("remoting", "dials_max"): 8,
    ("peers", "unproven_max"): 8,
    ("storage", "store", "open_files_max"): 32,
}
"""Setting → the fewest that a node can do with."""


def fixed(settings: NodeSettings) -> int:
    """Descriptors that no setting of a number of connections can spare."""
    journal, snapshots = settings.storage.journal, settings.engine.snapshots
    segments = snapshots.retain_bytes // journal.segment_bytes + 4
    links = 4 * len(settings.cluster.voters)  # Each way, and each once more while one replaces another.
    return SPARE + STORE_SPARE + segments + links + 2 * settings.history.workers


def wanted(settings: NodeSettings) -> int:
    """The sum of what the settings ask for."""
    return fixed(settings) + sum(_get(settings, path) for path in LEAST)


def raised(need: int) -> int:
    """Raise this process's limit to ``need``, or as far as it may be; answers what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return need
    if soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def fitted(settings: NodeSettings, limit: int) -> tuple[NodeSettings, dict[str, int]]:
    """The settings as they fit below the limit, and which of them are smaller now. Raises UsageError when none does."""
    asked = {path: _get(settings, path) for path in LEAST}
    least = {path: min(number, LEAST[path]) for path, number in asked.items()}
    room = limit - fixed(settings)
    if room >= sum(asked.values()):
        return settings, {}
    spare = room - sum(least.values())
    if spare < 0:
        need = fixed(settings) + sum(least.values())
        raise UsageError(f"this process may open {limit} files and needs at least {need}: raise it (ulimit -n 65536)")
    over = sum(asked.values()) - sum(least.values())
    smaller = {path: least[path] + (asked[path] - least[path]) * spare // over for path in LEAST}
    for path, number in smaller.items():
        settings = _put(settings, path, number)
    return settings, {".".join(path): number for path, number in smaller.items() if number < asked[path]}


def _get(tree: msgspec.Struct, path: tuple[str, ...]) -> int:
    for name in path[:-1]:
        tree = getattr(tree, name)
    number: int = getattr(tree, path[-1])
    return number


def _put(tree: S, path: tuple[str, ...], number: int) -> S:
    name, *rest = path
    value = _put(getattr(tree, name), tuple(rest), number) if rest else number
    return msgspec.structs.replace(tree, **{name: value})
