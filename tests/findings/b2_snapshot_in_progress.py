"""B2: while a snapshot arrives, nobody is elected until its timeout.

A snapshot of a small state is over in a moment, so this is played in the checkout's own simulator.
"""

import subprocess
from pathlib import Path

from tests.findings.tree import Seen

TIMEOUT_S, LATE_S = 10.0, 1.5
SCRIPT = """
import logging
from msgspec.structs import replace
from tests.sim import nodes, simulation
from tests.sim.scripted import Stage, StageError

logging.disable()
draw = nodes.Limits.draw

def slow(random):
    limits = draw(random)
    engine = limits.core.engine
    snapshots = replace(engine.snapshots, check_period_s=0.05, retain_entries=5, trim_slack_entries=5,
                        chunk_bytes=300, window_chunks=1, timeout_s=10.0)
    engine = replace(engine, election_timeout_max_s=0.3, append_entries=3, snapshots=snapshots)
    return replace(limits, core=replace(limits.core, engine=engine))

simulation.Limits.draw = staticmethod(slow)

def play(seed):
    stage = Stage(seed)
    all_ = stage.cluster.voters
    led = stage.leader(all_)
    stage.wait(stage.settled, "equal logs")
    behind, other = [node for node in all_ if node != led]
    stage.only((led, other))
    for number in range(60):
        def put(node, done, number=number):
            node.put(f"k{number % 7}", "v" * 200, f"t{number}", "", done)
        stage.cluster.ask(led, put, lambda result: None)
        stage.world.run_until(stage.world.now + 0.02)
    last = stage.process(behind).node.journal.last_index
    stage.wait(lambda: stage.process(led).node.journal.base_index > last, "a trimmed journal", 5.0)
    stage.only((led, other), (led, behind), (other, behind))
    stage.wait(lambda: stage.process(behind).node.engine.installing, "a snapshot", 5.0)
    stage.only((other, behind))
    began = stage.world.now
    while stage.world.now < began + 20 and not any(p.node_id != led for p in stage.cluster.leaders()):
        stage.world.run_until(stage.world.now + 0.01)
    return stage.world.now - began

found = []
for seed in range(1, 40):
    try:
        found.append(play(seed))
    except StageError:
        continue
    if len(found) == 3:
        break
print("took", max(found))
"""


def look(tree: Path) -> Seen:
    """The leader falls silent, its connections open, while a follower takes its snapshot: three seeds, the slowest."""
    command = [str(tree / ".venv/bin/python"), "-c", SCRIPT]
    told = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    took = float(told.rpartition("took ")[2])
    return Seen(took > LATE_S, f"a leader after {took:.2f} virtual seconds; the snapshot's timeout is {TIMEOUT_S:.0f}")
