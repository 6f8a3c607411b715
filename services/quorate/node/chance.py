"""Where a node's chance comes from: the only dice that nobody handed down."""

import random
import secrets


def seeded() -> random.Random:
    """Chance that differs from node to node and from start to start."""
    return random.Random(secrets.randbits(64))
