"""``quorate projections serve`` with a bad delivery: between Faust and the table events get lost or come twice.

Environment: ``LOSE`` and ``DOUBLE``, probabilities per delivery; ``LOSE_FIRST``, how many in a row at the start.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterable
from typing import Any

from quorate_projections import command, table

LOSE, DOUBLE = float(os.environ.get("LOSE", "0")), float(os.environ.get("DOUBLE", "0"))
lose_first = int(os.environ.get("LOSE_FIRST", "0"))
chance = random.Random(os.getpid())
real = table.EventTable.apply_changelog_batch


def bad(self: table.EventTable, batch: Iterable[Any]) -> None:
    """Deliver, or do not, or twice; never the truth about it."""
    global lose_first
    batch = list(batch)
    if lose_first > 0 and batch:
        lose_first -= 1
        return
    if chance.random() < LOSE:
        return
    real(self, batch + batch if chance.random() < DOUBLE else batch)


table.EventTable.apply_changelog_batch = bad  # type: ignore[method-assign]  # the fault comes in between
parser = argparse.ArgumentParser()
command.arguments(parser)
sys.exit(command.run(parser.parse_args(["serve", *sys.argv[1:]])))
