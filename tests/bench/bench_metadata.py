"""What one decision and one step of the state cost, in microseconds of CPU, and that it is flat in the cluster's size.

Run it: ``python tests/bench/bench_metadata.py``. An election of three takes a few tens, everything else a few.
"""

import time
from collections.abc import Callable

import msgspec

from quorate.events import Event, NodeAddresses, Stamp, Voter
from quorate.metadata import commands
from quorate.metadata.commands import Command
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestTable
from quorate.model import rows
from quorate.model.evolve import evolve
from quorate.model.queries import ReplicaInfo, answer
from quorate.model.state import EMPTY, State

SIZES = (100, 2_000, 10_000)
ROUNDS = 7
CALLS = 5_000


class Info(msgspec.Struct, frozen=True):
    epoch: int
    max_offset: int
    confirm_offset: int = 0
    priority: int = 2**31 - 1
    last_heartbeat_ms: int = 0


class Live:
    """Everybody alive but the ids in ``dead``."""

    def __init__(self) -> None:
        self.dead: frozenset[int] = frozenset()
        self._infos = {broker_id: Info(1, 100 * broker_id) for broker_id in (1, 2, 3)}

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        return broker_id not in self.dead

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        return False

    def info(self, cluster: str, broker_set: str, broker_id: int) -> Info | None:
        return self._infos.get(broker_id)


def context(live: Live) -> Context:
    """Default policy, fixed time."""
    return Context(now_ms=1_700_000_000_000, term=1, policy=PolicySettings(), live=live)


def applied(state: State, command: Command, live: Live) -> State:
    """The state after a command that must succeed."""
    decision = decide(state, command, context(live))
    assert isinstance(decision, Decision), decision
    for event in decision.events:
        state = evolve(state, event, Stamp(offset=0, term=1, time_ms=0))
    return state


def cluster_of(sets: int, live: Live) -> State:
    """So many sets of three, all in sync, the first as master."""
    addresses = NodeAddresses(rpc="a", raft="b", kafka="c", http="d")
    voters = (Voter(id=1, dir_uuid="u", addresses=addresses),)
    state = applied(EMPTY, commands.CreateCluster(cluster_id="c", voters=voters, feature_level=1), live)
    for number in range(sets):
        name = f"broker-{number}"
        for broker_id in (1, 2, 3):
            code = f"10.0.0.{broker_id}:10911;1"
            apply = commands.ApplyBrokerId(cluster="c", broker_set=name, broker_id=broker_id, register_check_code=code)
            state = applied(state, apply, live)
        state = applied(state, commands.ElectMaster(broker_set=name, broker_id=1), live)
        epoch = state.broker_sets[name].master_epoch
        grown = commands.AlterSyncStateSet(
            broker_set=name, master=1, master_epoch=epoch, sync_state_set=(1, 2, 3), sync_state_set_epoch=1
        )
        state = applied(state, grown, live)
    return state


def cost_us(call: Callable[[], object], calls: int = CALLS) -> float:
    """Median over the rounds."""
    samples = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            call()
        samples.append((time.process_time() - start) / calls * 1e6)
    return sorted(samples)[ROUNDS // 2]


def event_of(state: State, command: Command, live: Live) -> Event:
    """The first event of a command that must succeed."""
    decision = decide(state, command, context(live))
    assert isinstance(decision, Decision)
    return decision.events[0]


def measured(state: State, sets: int) -> dict[str, float]:
    """Every operation on a set in the middle, microseconds of CPU each."""
    live, name = Live(), f"broker-{sets // 2}"
    asked = context(live)
    stamp = Stamp(offset=0, term=1, time_ms=0)
    shrink = commands.AlterSyncStateSet(
        broker_set=name,
        master=1,
        master_epoch=state.broker_sets[name].master_epoch,
        sync_state_set=(1, 2),
        sync_state_set_epoch=2,
    )
    stale = msgspec.structs.replace(shrink, master_epoch=0)
    altered = event_of(state, shrink, live)
    dead = Live()
    dead.dead = frozenset({1})
    lost = commands.ElectMaster(broker_set=name, trigger="master lost", evidence="connection closed")
    elected = event_of(state, lost, dead)
    failover = context(dead)
    key = f"broker-set/default/{name}".encode()
    query = ReplicaInfo(broker_set=name)
    table = RequestTable()
    return {
        "decide 1001": cost_us(lambda: decide(state, shrink, asked)),
        "decide 1001, stale epoch": cost_us(lambda: decide(state, stale, asked)),
        "evolve 1001": cost_us(lambda: evolve(state, altered, stamp)),
        "decide 1002, master lost": cost_us(lambda: decide(state, lost, failover), CALLS // 5),
        "evolve 1002": cost_us(lambda: evolve(state, elected, stamp)),
        "row of a set": cost_us(lambda: rows.row(state, key)),
        "answer 1004": cost_us(lambda: answer(query, state, live)),
        "remember a request": cost_us(lambda: table.remember("p", "1700000000000-1", 1, 1, b"x" * 100, 1)),
    }


def main() -> None:
    """Measure every size and print one table."""
    results = {}
    for sets in SIZES:
        results[sets] = measured(cluster_of(sets, Live()), sets)
    print(f"{'microseconds of CPU':28}" + "".join(f"{sets:>10} sets" for sets in SIZES))
    for name in results[SIZES[0]]:
        print(f"{name:28}" + "".join(f"{results[sets][name]:15.2f}" for sets in SIZES))


if __name__ == "__main__":
    main()
