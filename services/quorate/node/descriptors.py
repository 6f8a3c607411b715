"""The descriptors of a node, budgeted at its start by the rule of every program of ours (``quorate.descriptors``).

Rules: what the disk and the voters need comes first; what is left is shared among connections, dials and the store's
open tables. When less is left than the settings say the node serves fewer at a time, and says so.
"""

from typing import Final, TypeVar

import msgspec

from quorate.descriptors import SPARE, STORE_SPARE, shared
from quorate.node.settings import NodeSettings

S = TypeVar("S", bound=msgspec.Struct)

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
    segments = 2 * snapshots.retain_bytes // journal.segment_bytes + 4  # It is trimmed when it has twice as much.
    links = 4 * len(settings.cluster.voters)  # Each way, and each once more while one replaces another.
    return SPARE + STORE_SPARE + segments + links + 2 * settings.history.workers


def wanted(settings: NodeSettings) -> int:
    """The sum of what the settings ask for."""
    return fixed(settings) + sum(_get(settings, path) for path in LEAST)


def fitted(settings: NodeSettings, limit: int) -> tuple[NodeSettings, dict[str, int]]:
    """The settings as they fit below the limit, and which of them are smaller now. Raises UsageError when none does."""
    asked = {path: _get(settings, path) for path in LEAST}
    had = shared(asked, LEAST, limit - fixed(settings), limit)
    smaller = {path: number for path, number in had.items() if number < asked[path]}
    for path, number in smaller.items():
        settings = _put(settings, path, number)
    return settings, {".".join(path): number for path, number in smaller.items()}


def _get(tree: msgspec.Struct, path: tuple[str, ...]) -> int:
    for name in path[:-1]:
        tree = getattr(tree, name)
    number: int = getattr(tree, path[-1])
    return number


def _put(tree: S, path: tuple[str, ...], number: int) -> S:
    name, *rest = path
    value = _put(getattr(tree, name), tuple(rest), number) if rest else number
    return msgspec.structs.replace(tree, **{name: value})
