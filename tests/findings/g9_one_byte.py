"""G9: a consumer that asks for one byte at a time gets one batch at a time, and starves."""

import struct
from pathlib import Path

from tests.findings.lines import kafka, told
from tests.findings.tree import Seen, cluster

TOPIC = b"quorate.metadata.events"
TOPICS = 50


def fetch(bytes_max: int) -> bytes:
    """Fetch v4 of everything, with at most so many bytes."""
    place = struct.pack(">iqi", 0, 0, bytes_max)
    topic = struct.pack(">ih", 1, len(TOPIC)) + TOPIC + struct.pack(">i", 1) + place
    return kafka(1, 4, struct.pack(">iiiib", -1, 100, 1, bytes_max, 0) + topic)


def look(tree: Path) -> Seen:
    """The same with one byte and with a megabyte."""
    with cluster(tree, 1) as alone:
        alone.start()
        (node,) = alone.nodes
        assert all(node.put(f"t{number}") for number in range(TOPICS))
        little, much = (len(told(node.ports["kafka"], fetch(size))[0]) for size in (1, 1 << 20))
        return Seen(little * 4 < much, f"asked for a byte it gives {little}, of {much} that there are")
