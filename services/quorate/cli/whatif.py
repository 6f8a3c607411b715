"""``quorate whatif``: who would be master if these brokers died? Answered by the rules themselves; nothing is touched.

Rules: the state is folded from the log here, from offset 0; what brokers last reported comes from the node; the
decision is ``metadata.decide``, the function the leader runs. Nothing is sent to the cluster but reads.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

import msgspec

from quorate.cli.client import Node, add_node
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.facts import facts
from quorate.cli.output import add_output, columns, show
from quorate.errors import UsageError
from quorate.events import ElectionFailed, MasterElected
from quorate.gateway.http.answers import BrokerSetItem, BrokerSets
from quorate.metadata.commands import ElectMaster, Refusal
from quorate.metadata.context import Context
from quorate.metadata.decide import decide
from quorate.metadata.evolve import evolve
from quorate.metadata.policy import PolicySettings
from quorate.metadata.state import State

PAGE = 500


class Reported(msgspec.Struct, frozen=True):
    """What a broker last said (metadata.context.LiveInfo)."""

    epoch: int
    max_offset: int
    confirm_offset: int
    priority: int
    last_heartbeat_ms: int


class Survivors:
    """The live table as the node tells it, without those that die (metadata.context.LiveView)."""

    def __init__(self, sets: Iterable[BrokerSetItem], dead: set[tuple[str, int]]) -> None:
        self._known = {(item.broker_set, replica.broker_id): replica for item in sets for replica in item.replicas}
        self._dead = dead

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """See LiveView."""
        if (broker_set, broker_id) in self._dead:
            return False
        replica = self._known.get((broker_set, broker_id))
        return None if replica is None else replica.alive

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """See LiveView: the node's answer has said so already."""
        return False

    def info(self, cluster: str, broker_set: str, broker_id: int) -> Reported | None:
        """See LiveView."""
        replica = self._known.get((broker_set, broker_id))
        if replica is None or replica.last_heartbeat_ms is None:
            return None
        known = (replica.epoch, replica.max_offset, replica.confirm_offset, replica.priority, replica.last_heartbeat_ms)
        epoch, max_offset, confirm_offset, priority, heard = (-1 if value is None else value for value in known)
        return Reported(epoch, max_offset, confirm_offset, priority, heard)


class Verdict(msgspec.Struct, frozen=True):
    """What would become of one set."""

    broker_set: str
    master: int | None
    new_master: int | None
    explanation: str


def _arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser)
    parser.add_argument(
        "--kill", action="append", required=True, metavar="SET:ID", help="this broker dies; may be repeated"
    )
    parser.add_argument("--unclean", action="store_true", help="replicas that are not in sync may be elected")


def victims(texts: Iterable[str]) -> set[tuple[str, int]]:
    """``broker-a:1`` → ("broker-a", 1). Raises UsageError."""
    found = set()
    for text in texts:
        name, colon, number = text.rpartition(":")
        if not colon or not number.isdigit():
            raise UsageError(f"--kill {text}: expected SET:ID")
        found.add((name, int(number)))
    return found


def judge(state: State, live: Survivors, dead: set[tuple[str, int]], policy: PolicySettings) -> list[Verdict]:
    """What the rules would decide for every set that loses a broker. Raises UsageError for a broker nobody knows."""
    context = Context(now_ms=time.time_ns() // 1_000_000, term=1, policy=policy, live=live)
    verdicts = []
    for name in sorted({broker_set for broker_set, _ in dead}):
        found = state.known(name)
        for number in (number for broker_set, number in dead if broker_set == name):
            if found is None or found.replica(number) is None:
                raise UsageError(f"--kill {name}:{number}: there is no such broker")
        if found is None:
            continue
        if found.master is not None and (name, found.master) not in dead:
            verdicts.append(Verdict(name, found.master, found.master, "the master lives: nothing changes"))
            continue
        command = ElectMaster(broker_set=name, trigger="master lost", evidence="heartbeat expired")
        outcome = decide(state, command, context)
        events = () if isinstance(outcome, Refusal) else outcome.events
        judged = next((event for event in events if isinstance(event, MasterElected | ElectionFailed)), None)
        winner = judged.master if isinstance(judged, MasterElected) else None
        said = outcome.remark if isinstance(outcome, Refusal) else "nothing changes"
        verdicts.append(Verdict(name, found.master, winner, judged.explanation if judged else said))
    return verdicts


def run(options: Namespace) -> int:
    """See the module; exit 1 when a set would be left without a master."""
    node, dead = Node(options.node), victims(options.kill)
    sets, after = [], None
    while True:
        page = node.get("/v1/brokers", BrokerSets, limit=PAGE, after=after)
        sets += page.brokers
        if (after := page.next) is None:
            break
    state = State()
    for fact in facts(node, 0, page.offset):
        state = evolve(state, fact.event, fact.stamp)
    policy = PolicySettings(enable_elect_unclean_master=options.unclean)
    verdicts = judge(state, Survivors(sets, dead), dead, policy)
    rows = [(v.broker_set, v.master, v.new_master or "nobody", v.explanation) for v in verdicts]
    show(msgspec.to_builtins(verdicts), options.output, columns(("set", "master", "would be", "why"), rows))
    return REFUSED if any(verdict.new_master is None for verdict in verdicts) else DONE


COMMAND = Command(_arguments, run)
