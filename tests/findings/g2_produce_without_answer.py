"""G2: Produce with acks 0 reports success: the node neither answers nor hangs up."""

import struct
from pathlib import Path

from tests.findings.lines import kafka, told
from tests.findings.tree import Seen, cluster

PRODUCE = kafka(0, 3, struct.pack(">hhii", -1, 0, 1000, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">iii", 1, 0, 0))
"""No transaction, acks 0, one partition of topic t, no bytes."""


def look(tree: Path) -> Seen:
    """The end of the connection is all that such a client can be told."""
    with cluster(tree, 1) as alone:
        alone.start()
        _, ended = told(alone.nodes[0].ports["kafka"], PRODUCE)
        return Seen(not ended, f"the connection {'ended' if ended else 'stays open, as if all were well'}")
