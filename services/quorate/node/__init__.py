"""A running node: its settings, its composition, its log. ``async with Node(settings)`` embeds one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.node.node import Node as Node

__all__ = ["Node"]


def __getattr__(name: str) -> Any:
    """Import the node when it is asked for: whoever wants its settings or its composition needs no listeners."""
    if name == "Node":
        from quorate.node.node import Node as Found  # noqa: PLC0415 - see above

        return Found
    raise AttributeError(name)
