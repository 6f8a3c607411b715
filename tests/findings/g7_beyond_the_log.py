"""G7: a position far beyond the log is kept, and its consumer waits for ever."""

import struct
from pathlib import Path

from tests.findings.lines import kafka, told
from tests.findings.tree import Seen, cluster, until

AGAIN = (14, 15, 16)
"""The coordinator is not there yet."""
TOPIC = b"quorate.metadata.events"


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def commit(topic: bytes, offset: int) -> bytes:
    """OffsetCommit 2 of a group without members."""
    partition = struct.pack(">iiqh", 1, 0, offset, -1)
    group = text(b"g") + struct.pack(">i", -1) + text(b"") + struct.pack(">qi", -1, 1)
    return kafka(8, 2, group + text(topic) + partition)


def error(port: int) -> int:
    """Of a commit of 2^40."""
    answer, _ = told(port, commit(TOPIC, 1 << 40), 1.0)
    return int.from_bytes(answer[-2:], "big")


def look(tree: Path) -> Seen:
    """2^40, of a log of a few events."""
    with cluster(tree, 1) as alone:
        alone.start()
        port = alone.nodes[0].ports["kafka"]
        found = AGAIN[0]

        def told_at_last() -> bool:
            nonlocal found
            found = error(port)
            return found not in AGAIN

        until(told_at_last)
        return Seen(found == 0, f"a commit of 2^40 is answered with error {found}")
