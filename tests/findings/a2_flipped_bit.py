"""A2: one flipped bit in a table of the store, and the node serves another state without a word."""

import random
import shutil
from pathlib import Path

from tests.findings.tree import Cluster, Seen, cluster, put_back, until

TOPICS, FLIPS = 300, 8


def flip(three: Cluster, number: int) -> tuple[bool, str]:
    """Hurt one of the two largest tables (rows, events) of a stopped node 3 and start it beside the others: is it
    silent, and what happened?
    """
    node, other = three.nodes[2], three.nodes[0]
    tables = sorted((node.data / "store").glob("*.sst"), key=lambda file: file.stat().st_size)
    table = tables[-2:][number % 2]
    content = bytearray(table.read_bytes())
    at = random.Random(number).randrange(len(content) // 2)
    content[at] ^= 1
    table.write_bytes(content)
    node.start()
    until(lambda: not node.runs or (node.ready and node.offset == other.offset), 15.0)
    until(lambda: not node.runs or node.topics() == other.topics(), 3.0)
    has = len(node.topics())
    if node.runs and node.ready and has != TOPICS:
        return True, f"bit 0 of byte {at}: ready, with {has} of {TOPICS} topics, and not a word"
    return False, "equal" if node.runs else "stopped"


def look(tree: Path) -> Seen:
    """Flip after flip, each on the sound copy, until one is silent."""
    with cluster(tree) as three:
        three.start()
        leader, *_ = three.roles()
        assert all(leader.put(f"topic-{number}") for number in range(TOPICS))
        three.stop()
        three.start()  # The rows of the log go into a table.
        assert until(three.equal)
        node = three.nodes[2]
        node.stop()
        copy = node.folder / "copy"
        shutil.copytree(node.data, copy)
        told = []
        for number in range(FLIPS):
            silent, what = flip(three, number)
            if silent:
                return Seen(True, what)
            told.append(what)
            node.stop()
            put_back(copy, node.data)
        return Seen(False, f"{FLIPS} flipped bits: {told.count('equal')} times equal, {told.count('stopped')} stopped")
