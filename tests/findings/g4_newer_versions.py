"""G4: a client that has only the newer versions of Kafka's requests cannot connect."""

import struct
from pathlib import Path

from tests.findings.lines import kafka, told
from tests.findings.tree import Seen, cluster

NEEDED = {1: 12, 3: 9, 10: 4}
"""Fetch, Metadata, FindCoordinator: where the clients that were met begin."""


def look(tree: Path) -> Seen:
    """ApiVersions, whose answer lists what is served."""
    with cluster(tree, 1) as alone:
        alone.start()
        answer, _ = told(alone.nodes[0].ports["kafka"], kafka(18, 0))
        (count,) = struct.unpack_from(">i", answer, 10)
        served = {
            api: most for api, _, most in (struct.unpack_from(">hhh", answer, 14 + 6 * at) for at in range(count))
        }
        found = {api: served.get(api) for api in NEEDED}
        return Seen(
            any((found[api] or 0) < least for api, least in NEEDED.items()), f"newest of each: {found}, of {NEEDED}"
        )
