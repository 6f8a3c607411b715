"""A node as the product composes it (``quorate.node.compose.Core``), over simulated ports, with small limits.

Rules: nothing of production is replaced but its ports. Limits are small so that what takes hours takes seconds:
segments of a few kilobytes, snapshots after dozens of entries, elections within a quarter of a second.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec

from quorate.consensus.ports import Index, NodeId, RaftEngine, Term
from quorate.consensus.raft.founding import directory_bytes
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.scrub import Scrub
from quorate.consensus.storage.store import StoreDamagedError
from quorate.consensus.storage_settings import EventLogSettings, JournalSettings, ScrubSettings
from quorate.consensus.transport.hello import PeerIdentity
from quorate.controller import (
    Answered,
    BrokerLink,
    Busy,
    Caller,
    CommandLog,
    ControllerSettings,
    DialResult,
    Listener,
    NotLeader,
    Outcome,
    ReadResult,
    ReadView,
    Refused,
    RoleChange,
    Unavailable,
    UnknownOutcome,
)
from quorate.events import NodeAddresses, Voter
from quorate.history.settings import HistorySettings
from quorate.metadata.commands import (
    ChangeConfig,
    Command,
    CompareKeys,
    CreateCluster,
    MemberIs,
    PutKey,
    RebuildVoter,
    RecordNodeStart,
    SessionIs,
    Transact,
    Transacted,
)
from quorate.metadata.requests import RequestSettings
from quorate.metadata.sums import Mark, RunningSums
from quorate.metrics import Metrics
from quorate.model.keys import KeysAre, RangeKeys
from quorate.node.compose import Core, CorePorts, CoreSettings, Disks, open_directory, open_store, peer_handlers
from tests.sim.clients import Answer, Done, Nothing, Result, Unknown
from tests.sim.cluster import Ports
from tests.sim.desk import Desk
from tests.sim.fresh_sums import FreshSums
from tests.sim.room import ENOUGH, FLOOR, PERIOD_S
from tests.sim.world import ViolationError

IN_PRODUCTION = 0.25
"""Share of seeds whose timeouts are the product's own."""
TIMING = (
    "election_timeout_quiet_s",
    "election_timeout_min_s",
    "election_timeout_max_s",
    "heartbeat_s",
    "tick_s",
    "close_jitter_s",
    "read_timeout_s",
    "disk_stall_step_down_s",
)

LATE_S = 0.1
"""How late a turn may come."""
PACE = frozenset({"heartbeat_s", "tick_s"})
"""Of these, nodes that work together have the same."""


FEW_IN_FLIGHT: Final = 4
"""So few that what a leader does by itself must often wait."""
SCRUB: Final = ScrubSettings(bytes_per_s=1 << 20, slice_bytes=64 * 1024, period_s=1.0)
"""All that is on disk is read again all the time."""
LEASE_CHECKPOINT_S: Final = 1.0
LEASE_GRACE_S: Final = 0.3


class Limits(msgspec.Struct, frozen=True):
    """Settings of production, as a seed draws them."""

    core: CoreSettings
    journal: JournalSettings
    log: EventLogSettings

    @staticmethod
    def draw(random: Random) -> "Limits":
        """One set of small limits."""
        retain = random.choice((5, 20, 60))
        engine = EngineSettings(
            election_timeout_quiet_s=0.12,
            election_timeout_min_s=0.15,
            election_timeout_max_s=random.choice((0.2, 0.3, 0.6)),
            heartbeat_s=0.04,
            tick_s=random.choice((0.01, 0.02)),
            close_jitter_s=0.02,
            read_timeout_s=0.2,
            disk_stall_step_down_s=0.5,
            append_bytes=random.choice((600, 64 * 1024)),
            append_entries=random.choice((3, 64)),
            window_bytes=random.choice((1000, 1 << 20)),
            apply_slice_entries=random.choice((2, 64)),
            disk_stall_fatal_s=8.0,
            snapshots=SnapshotSettings(
                check_period_s=random.choice((0.05, 0.3)),
                retain_entries=retain,
                trim_slack_entries=retain,
                chunk_bytes=random.choice((300, 4096)),
                window_chunks=random.choice((1, 4)),
                resend_s=0.1,
                timeout_s=1.0,
            ),
        )
        controller = ControllerSettings(
            in_flight_max=random.choice((FEW_IN_FLIGHT, 4096)),
            answer_timeout_s=random.choice((0.4, 1.5)),
            heartbeat_timeout_s=0.8,
            heartbeat_timeout_max_s=2.0,
            live_scan_period_s=0.1,
            inactive_master_scan_period_s=0.4,
            unfence_after_s=0.1,
            close_dial_retry_s=0.2,
            role_push_backoff_s=0.1,
            role_push_record_after_s=0.5,
            lease_checkpoint_s=LEASE_CHECKPOINT_S,
            lease_grace_s=LEASE_GRACE_S,
            clock_note_s=0.2,
            clock_alone_s=0.6,
            compare_period_s=0.05,
            free_space_floor_bytes=FLOOR,
            free_space_period_s=PERIOD_S,
            key_history_max=12,
        )
        return Limits(
            core=CoreSettings(
                engine=engine,
                controller=controller,
                requests=RequestSettings(remembered_max=random.choice((3, 50, 1000)), remembered_ms_max=1000),
                history=HistorySettings(checkpoint_events=random.choice((20, 100))),
                group_expiry_s=30.0,
            ),
            journal=JournalSettings(
                segment_bytes=random.choice((8, 24)) * 1024,
                max_entry_bytes=6 * 1024,
                tail_bytes=random.choice((1024, 1 << 20)),
                tail_entries=random.choice((4, 1000)),
                read_bytes=4096,
                read_back_bytes=random.choice((16, 256)) * 1024,
            ),
            log=EventLogSettings(tail_bytes=random.choice((1024, 1 << 20)), tail_batches=random.choice((4, 1000))),
        )


def unhurried(limits: Limits) -> Limits:
    """With the product's own timeouts, each as it stands to the others there."""
    own, replace = EngineSettings(), msgspec.structs.replace
    engine = replace(limits.core.engine, **{name: getattr(own, name) for name in TIMING})
    return replace(limits, core=replace(limits.core, engine=engine))


def own(limits: Limits, random: Random) -> Limits:
    """A node's own: whatever may differ from another's, sizes and thresholds of any kind, and its timeouts a little."""
    drawn, replace, engine = Limits.draw(random), msgspec.structs.replace, limits.core.engine
    scale = random.choice((1.0, 1.1, 1.25))
    timing = {name: getattr(engine, name) * (1.0 if name in PACE else scale) for name in TIMING}
    return replace(
        drawn,
        core=replace(
            drawn.core,
            engine=replace(drawn.core.engine, **timing),
            requests=limits.core.requests,
            group_expiry_s=limits.core.group_expiry_s,
        ),
    )


def mixed(core: CoreSettings, node: NodeId) -> CoreSettings:
    """Each node's own limits of requests and of what groups keep are others: what holds is in the log."""
    own, replace = core.requests, msgspec.structs.replace
    return replace(
        core,
        requests=replace(own, remembered_max=own.remembered_max + node),
        controller=replace(core.controller, group_rows_max=core.controller.group_rows_max + node),
        group_expiry_s=core.group_expiry_s + node,
    )


def result_of(outcome: Outcome) -> Result:
    """A client's view of an outcome: a refusal is an answer too, of a command that wrote nothing."""
    match outcome:
        case Answered(reply=MemberIs() as reply, offset=offset):
            return Done(offset, f"{reply.registered_epoch(offset)} {'fenced' if reply.fenced else 'unfenced'}")
        case Answered(reply=SessionIs(opened=True) as reply, offset=offset):
            return Done(offset, str(reply.session_epoch(offset)))
        case Answered(offset=offset):
            return Done(offset)
        case Refused():
            return Nothing(f"refused: {outcome.refusal.code}")
        case NotLeader():
            return Nothing("not leader")
        case Busy(reason=reason) | Unavailable(reason=reason):
            return Nothing(reason)
        case UnknownOutcome(reason=reason):
            return Unknown(reason)


def swapped(outcome: Outcome) -> Result:
    """The same of a swap: it wrote, or it tells what it found instead."""
    match outcome:
        case Answered(reply=Transacted(succeeded=False, replies=(KeysAre(found=found),)), offset=offset):
            return Done(offset, found[0].value.decode() if found else None, differs=True)
        case _:
            return result_of(outcome)


class NoBrokers:
    """Nobody to call."""

    def notify(self, address: str, change: RoleChange, done: Callable[[bool], None]) -> None:
        """Not reached."""
        done(False)

    def dial(self, address: str, done: Callable[[DialResult], None]) -> None:
        """Proves nothing."""
        done("unknown")


class CoreNode:
    """Implements ``cluster.Node``."""

    remembers_requests = True
    short = False
    scrubs = True
    """It reads again what is on its disk, all the time."""

    def __init__(
        self,
        ports: Ports,
        limits: Limits,
        brokers: BrokerLink | None = None,
        command_log: CommandLog | None = None,
        knows: int = 1,
    ) -> None:
        def fresh() -> str:
            return str(UUID(int=chance.getrandbits(128), version=4))

        self.knows = knows
        chance, alone = Random(ports.seed), len(ports.voters) == 1
        store = open_store(
            ports.store, ports.voter_file, ports.disk, cluster_id="sim", node_id=ports.node_id, alone=alone
        )
        self.directory, self.journal = open_directory(
            Disks(voter_file=ports.voter_file, store=store, disk=ports.disk, worker=ports.worker, reader=ports.reader),
            cluster_id="sim",
            node_id=ports.node_id,
            alone=alone,
            journal=limits.journal,
            clock=ports.loop,
            fresh=fresh,
        )
        self.directory.begin(fresh())
        self.journal.syncer = ports.syncer
        if (self.journal.state == "new" or ports.was_hurt) and self.directory.may_not_vote:
            ports.journal_erased()
        self.core = Core(
            ports.node_id,
            ports.voters,
            CorePorts(
                journal=self.journal,
                directory=self.directory,
                store=store,
                log=EventLog(store, limits.log),
                network=ports.network,
                brokers=brokers or NoBrokers(),
                scheduler=ports.loop,
                rng=Random(ports.seed),
                metrics=Metrics(),
                on_fatal=ports.fatal,
                worker=ports.worker,
                store_worker=ports.store_worker,
                reader=ports.reader,
                command_log=command_log,
            ),
            mixed(limits.core, ports.node_id),
            founding(ports.voters, str(UUID(int=chance.getrandbits(128), version=4))),
        )
        self.identity = PeerIdentity(
            cluster_id="sim",
            node_id=ports.node_id,
            dir_uuid=directory_bytes(self.directory.incarnation),
            key=b"sim",
            feature_max=knows,
        )
        self.handlers = peer_handlers(self.directory, ports.worker, lambda: self.core)
        self._ports, log = ports, self.core.log
        self._scrub = Scrub(store, log, self.journal, ports.disk, ports.reader, ports.loop, SCRUB)
        self._fresh_sums = FreshSums()
        self._awaited: dict[int, tuple[str, float]] = {}
        """Requests without an answer, the oldest first: tag, and when it was asked."""
        self._asked = 0
        self.engine: RaftEngine = self.core.engine
        chance = Random(ports.seed ^ 1)
        self.desk = Desk(self.core.groups, ports.loop, chance, self._coordinated_term)
        engine: Any = self.engine
        self._installer = engine._applying.installer

    def start(self) -> None:
        """Begin, and have the start recorded."""
        start = RecordNodeStart(
            node_id=self._ports.node_id,
            dir_uuid=self.directory.incarnation,
            version="sim",
            addresses=addresses(self._ports.node_id),
            feature_min=1,
            feature_max=self.knows,
        )
        self.core.start(start)
        if self.scrubs:
            self._scrub.start()
        self._ports.loop.call_soon(self._measure)

    def _measure(self) -> None:
        """What is free on its disk, once a period (node/running.py)."""
        free = self._ports.disk.free
        self.core.controller.space.measured(free)
        self.short = free < (ENOUGH if self.short else FLOOR)
        self._ports.loop.call_later(self.core.controller.settings.free_space_period_s, self._measure)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What it says about disks."""
        return self.core.controller.space.alarms()

    @property
    def incarnation(self) -> str:
        """The directory's id."""
        return self.directory.incarnation

    @property
    def waits_for(self) -> str:
        """Why it cannot take part; empty when it can."""
        return self.core.waits_for

    @property
    def cluster_uuid(self) -> str:
        """Of the cluster it knows; empty while it knows none."""
        cluster = self.core.machine.state.cluster
        return "" if cluster is None else cluster.cluster_uuid

    def rebuild(self, node: NodeId, new: str, tag: str, done: Answer) -> None:
        """``quorate member rebuild``, as the HTTP gateway takes it: who can be reached keeps its directory."""
        if self._ports.network.connected(node) and self.core.machine.directory_of(node) != new:
            done(Nothing("refused: VoterServes"))
        else:
            self.submit(RebuildVoter(node_id=node, dir_uuid=new, asked_by="sim"), tag, "", done)

    def on_directories(self, call: Callable[[], None]) -> None:
        """Call this when the log may name other directories."""
        self.core.listeners.add(_Directories(call))

    @property
    def sums(self) -> RunningSums:
        """What its rows add up to, after each of its last entries."""
        return self.core.machine.sums

    @property
    def applied_index(self) -> Index:
        """The last entry applied."""
        return self.core.machine.applied_index()

    @property
    def marked(self) -> Mark:
        """What its rows add up to now."""
        return self.core.machine.marked

    def plain_sums(self) -> tuple[int, int]:
        """The same, added up anew from its rows."""
        machine = self.core.machine
        return self._fresh_sums.of(machine.state, machine.requests, machine.groups.starting_with(b""))

    def batches(self, offset: int) -> list[tuple[int, int, Term, bytes]]:
        """What a consumer of the event log reads from ``offset`` on."""
        return list(self.core.log.batches_from(offset))

    def served(self, offset: int, max_bytes: int) -> list[bytes]:
        """The batches that a reader is sent. Nothing where the read meets damage: of that the node stops."""
        try:
            return self.core.log.read(offset, max_bytes)
        except StoreDamagedError:
            return []

    @property
    def offset(self) -> int:
        """Events applied."""
        return self.core.machine.offset

    def _coordinated_term(self) -> int:
        """The term in which this node coordinates groups; 0: it does not (node.running.ClusterView)."""
        leads = self.core.controller.is_leader and not self.engine.installing
        return self.engine.term if leads else 0

    @property
    def forgot(self) -> bool:
        """It lost its journal, and has not come back yet."""
        return not self.engine.voting

    @property
    def staged_term(self) -> Term | None:
        """Term of the leader whose snapshot is arriving; None when none is."""
        staged = self._installer._staged
        return None if staged is None else staged.begin.term

    def overdue(self) -> str | None:
        """A request that was not answered by its deadline, though turns were taken; the oldest is asked about."""
        if not self._awaited:
            return None
        tag, began = next(iter(self._awaited.values()))
        loop, settings = self._ports.loop, self.core.controller.settings
        limit_s = settings.answer_timeout_s + 2 * settings.deadline_sweep_s + LATE_S
        return tag if loop.monotonic() - max(began, loop.resumed_at) > limit_s else None

    def _awaiting(self, done: Callable[[Any], None], tag: str) -> Callable[[Any], None]:
        """``done`` of a request, which is called once, and by its deadline."""
        self._asked += 1
        number = self._asked
        self._awaited[number] = tag, self._ports.loop.monotonic()

        def ended(outcome: object) -> None:
            self._awaited.pop(number, None)
            done(outcome)

        guarded: Callable[[Any], None] = once(ended, tag)
        return guarded

    def submit(self, command: Command, tag: str, request_id: str, done: Answer) -> None:
        """Any command, as a client would."""
        caller = Caller("sim", "127.0.0.1:1")
        self.core.controller.submit(
            command, caller, self._awaiting(lambda ended: done(result_of(ended)), tag), cause=tag, request_id=request_id
        )

    def put(self, key: str, value: str, tag: str, request_id: str, done: Answer) -> None:
        """Write a register: a setting of a topic's scope; one with a slash is a key."""
        if key.startswith("/"):
            self.submit(PutKey(key=key.encode(), value=value.encode()), tag, request_id, done)
            return
        self.submit(ChangeConfig(scope=f"topic/{key}", changes={"value": value}), tag, request_id, done)

    def swap(self, key: str, expected: str | None, value: str, tag: str, request_id: str, done: Answer) -> None:
        """Write a key if this is its value, in a transaction; else hear what is there."""
        name = key.encode()
        if expected is None:
            compare = CompareKeys(key=name, target="version")
        else:
            compare = CompareKeys(key=name, target="value", value=expected.encode())
        command = Transact(
            compare=(compare,), success=(PutKey(key=name, value=value.encode()),), failure=(RangeKeys(key=name),)
        )
        caller = Caller("sim", "127.0.0.1:1")
        ended = self._awaiting(lambda outcome: done(swapped(outcome)), tag)
        self.core.controller.submit(command, caller, ended, cause=tag, request_id=request_id)

    def get(self, key: str, done: Answer) -> None:
        """Read it, linearizably, from this node's own state, whoever leads."""

        def read(view: ReadResult) -> None:
            match view:
                case ReadView(state=state, offset=offset):
                    config, found = state.configs.get(f"topic/{key}"), state.keys.get(key.encode())
                    value = None if config is None else config.values.get("value")
                    value = value if found is None else found.value.decode()
                    done(Done(offset, value, by_follower=not self.engine.is_leader))
                case _:
                    done(Nothing("no read here"))

        self.core.controller.read("linearizable", self._awaiting(read, f"get {key}"))


class _Directories(Listener):
    """Calls ``call`` when the log may name other directories of voters."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def directories_named(self) -> None:
        """Call it."""
        self._call()


def once(callback, tag: str):  # type: ignore[no-untyped-def]
    """``callback``, and a violation when it is called again."""
    called = False

    def guarded(outcome: object) -> None:
        nonlocal called
        if called:
            raise ViolationError("answered once", f"{tag} was answered again: {outcome}")
        called = True
        callback(outcome)

    return guarded


def addresses(node: NodeId) -> NodeAddresses:
    """Where a node would listen, if it did."""
    return NodeAddresses(rpc=f"n{node}:1", raft=f"n{node}:2", kafka=f"n{node}:3", http=f"n{node}:4")


def founding(voters: tuple[NodeId, ...], cluster_uuid: str = "") -> CreateCluster:
    """The first command; directories are those whose votes elect the leader that gives it."""
    members = tuple(Voter(id=node, dir_uuid="", addresses=addresses(node)) for node in voters)
    return CreateCluster(cluster_id="sim", voters=members, feature_level=1, cluster_uuid=cluster_uuid)
