"""A simulated broker for the demonstration: no messages, but everything a stock broker tells a controller, for real.

Rules: it speaks RocketMQ's remoting protocol (quorate.wire.remoting) over TCP and follows the order of a stock broker's
``ReplicasManager``: 1005, 1012, 1013, 1003, a heartbeat, 1002; then heartbeats each second to every controller, a poll
of 1004, answers to 1008, and, as master, 1001 when its replicas come and go. Roles change only to a greater epoch.
What is made up: 1013 again at every start, so that a new cluster takes it; its commit log is a number that grows, and
its replicas copy that number from the master with a request of our own (code 31001). Periods are shorter than stock
ones, so that there is something to see.
"""

import asyncio
import contextlib
import random
import signal
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from quorate.cli.command import DONE
from quorate.cli.processes import die_with, until_orphaned
from quorate.demo.channel import CallError, Channel, connect
from quorate.listening import address_error
from quorate.terminal import visible
from quorate.wire import remoting as wire
from quorate.wire.remoting_headers import (
    AlterReplyFields,
    AlterSyncStateSetFields,
    ApplyBrokerIdFields,
    BrokerNameFields,
    ElectMasterFields,
    ElectMasterReplyFields,
    Fields,
    HeartbeatFields,
    MetadataReplyFields,
    NextBrokerIdFields,
    NextBrokerIdReplyFields,
    RegisterBrokerFields,
    RegisterReplyFields,
    ReplicaInfoReplyFields,
    RequestCode,
    ResponseCode,
    RoleChangedFields,
    SyncStateSetBody,
)

HOST: Final = "127.0.0.1"
COPY: Final = 31_001
"""Our own request from replica to master, in place of RocketMQ's HA connection."""
HEARTBEAT_S = 1.0
HEARTBEAT_TIMEOUT_MS = 10_000
COPY_S = 0.3
BOOT_RETRY_S = 1.0
CHECK_SYNC_SET_S = 0.5
POLL_REPLICA_INFO_S = 2.0
POLL_METADATA_S = 10.0
LAG_S_MAX = 3.0
BYTES_PER_S = 200_000

_sync_set = msgspec.json.Decoder(SyncStateSetBody)


class CopyFields(Fields, frozen=True):
    """A replica's request to its master."""

    broker_id: int = 0
    max_offset: int = 0


class CopyReplyFields(Fields, frozen=True):
    """The master's answer."""

    max_offset: int = 0
    epoch: int = 0


class Disk(msgspec.Struct):
    """State that the broker keeps over a restart. Offsets in bytes."""

    broker_id: int = 0
    check_code: str = ""
    """What it is known by again under this id."""
    epoch: int = -1
    max_offset: int = 0


class Replica(msgspec.Struct):
    """A replica as its master sees it; ``seen`` in monotonic seconds."""

    channel: Channel
    max_offset: int
    seen: float


class SimulatedBroker:
    """One broker of one set. See the module."""

    def __init__(self, options: Namespace) -> None:
        self.cluster: str = options.cluster
        self.broker_set: str = options.broker_set
        self.address = f"{HOST}:{options.port}"
        self._port: int = options.port
        self._home: Path = options.home
        self._rng = random.Random(options.port)
        self._controllers: dict[str, Channel | None] = dict.fromkeys(options.controllers.split(";"))
        self._leader = ""
        self.disk = self._load()
        self._life = 0
        """The registration epoch of this process; 0: not told yet."""
        self.running = False
        self.master = 0
        self.master_address = ""
        self.master_epoch = 0
        self.sync_set: tuple[int, ...] = ()
        self.sync_set_epoch = 0
        self._replicas: dict[int, Replica] = {}
        self._to_master: Channel | None = None

    # ── what it keeps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _load(self) -> Disk:
        try:
            return msgspec.json.decode((self._home / "broker.json").read_bytes(), type=Disk)
        except FileNotFoundError:
            return Disk()

    def _save(self) -> None:
        fresh = self._home / "broker.json.new"
        fresh.write_bytes(msgspec.json.encode(self.disk))
        fresh.replace(self._home / "broker.json")

    # ── controllers ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def keep_connected(self) -> None:
        """Hold one connection to every controller."""
        while True:
            for address, channel in self._controllers.items():
                if channel is None or not channel.open:
                    with contextlib.suppress(CallError):
                        self._controllers[address] = await connect(address, self.answer)
            await asyncio.sleep(0.2)

    async def find_leader(self) -> None:
        """1005 at each controller until one names a leader. Raises CallError."""
        for channel in self._controllers.values():
            if channel is not None and channel.open:
                with contextlib.suppress(CallError):
                    reply = await channel.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
                    self._leader = reply.read(MetadataReplyFields).controller_leader_address or ""
                    if self._leader:
                        return
        raise CallError("no controller knows a leader")

    async def call(self, code: int, fields: Fields, body: bytes = b"", *, takes: tuple[int, ...] = ()) -> wire.Response:
        """Ask the leading controller; looks for it anew when it fails. Raises CallError."""
        if not self._leader:
            await self.find_leader()
        channel = self._controllers.get(self._leader)
        try:
            if channel is None:
                raise CallError(f"not connected to {self._leader}")
            reply = await channel.ask(code, fields, body)
        except CallError:
            self._leader = ""
            raise
        if reply.code not in (ResponseCode.SUCCESS, *takes):
            if reply.code == ResponseCode.CONTROLLER_NOT_LEADER:
                self._leader = ""
            raise CallError(f"{code} was answered {reply.code}: {reply.remark}")
        return reply

    def beat(self) -> None:
        """904 to every controller."""
        fields = HeartbeatFields(
            cluster=self.cluster,
            address=self.address,
            broker_set=self.broker_set,
            broker_id=self.disk.broker_id,
            epoch=self.disk.epoch,
            max_offset=self.disk.max_offset,
            confirm_offset=self._confirm_offset(),
            timeout_ms=HEARTBEAT_TIMEOUT_MS,
            registration_epoch=self._life,
        )
        for channel in self._controllers.values():
            if channel is not None:
                channel.tell(RequestCode.BROKER_HEARTBEAT, fields)

    def _confirm_offset(self) -> int:
        """The offset that every in-sync replica has."""
        if self.master != self.disk.broker_id:
            return self.disk.max_offset
        others = [self._replicas[number].max_offset for number in self.sync_set if number in self._replicas]
        return min([self.disk.max_offset, *others])

    # ── boot order ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def boot(self) -> None:
        """From nothing to a role; tried again from the top until it holds."""
        while not self.running:
            try:
                await self.find_leader()
                await self._take_id()
                await self._register()
                self.beat()
                if not self.master:
                    await self._ask_for_election()
                self.running = True
            except CallError as error:
                print(visible(f"boot: {error}"), flush=True)
                await asyncio.sleep(BOOT_RETRY_S * self._rng.uniform(0.5, 1.5))

    async def _take_id(self) -> None:
        """Or be known again under the one it has; where another has that (a new cluster), begin anew."""
        if not self.disk.broker_id:
            asked = NextBrokerIdFields(cluster_name=self.cluster, broker_name=self.broker_set)
            reply = await self.call(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, asked)
            self.disk.broker_id = reply.read(NextBrokerIdReplyFields).next_broker_id or 1
            self.disk.check_code = f"{self.address};{time.time_ns() // 1_000_000}"
            self._save()
        fields = ApplyBrokerIdFields(
            cluster_name=self.cluster,
            broker_name=self.broker_set,
            applied_broker_id=self.disk.broker_id,
            register_check_code=self.disk.check_code,
        )
        taken = ResponseCode.CONTROLLER_BROKER_ID_INVALID
        if (await self.call(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields, takes=(taken,))).code == taken:
            self.disk = Disk()
            raise CallError("this id is another's")

    async def _register(self) -> None:
        fields = RegisterBrokerFields(
            cluster_name=self.cluster,
            broker_name=self.broker_set,
            broker_id=self.disk.broker_id,
            broker_address=self.address,
            invoke_time=time.time_ns() // 1_000_000,
            registration_epoch=self._life,
        )
        reply = await self.call(RequestCode.CONTROLLER_REGISTER_BROKER, fields)
        role = reply.read(RegisterReplyFields)
        self._life = role.registration_epoch or 0
        if role.master_broker_id:
            self.change_role(
                role.master_broker_id, role.master_address, role.master_epoch, _sync_set.decode(reply.body)
            )

    async def _ask_for_election(self) -> None:
        fields = ElectMasterFields(
            cluster_name=self.cluster,
            broker_name=self.broker_set,
            broker_id=self.disk.broker_id,
            invoke_time=time.time_ns() // 1_000_000,
        )
        still = (ResponseCode.CONTROLLER_MASTER_STILL_EXIST,)
        reply = await self.call(RequestCode.CONTROLLER_ELECT_MASTER, fields, takes=still)
        role = reply.read(ElectMasterReplyFields)
        members = msgspec.json.decode(reply.body, type=SyncStateSetBody)
        members = SyncStateSetBody(members.sync_state_set, role.sync_state_set_epoch or 0)
        self.change_role(role.master_broker_id, role.master_address, role.master_epoch, members)

    # ── roles ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def change_role(
        self, master: int | None, address: str | None, epoch: int | None, members: SyncStateSetBody
    ) -> None:
        """Take the role that a greater epoch gives; of an equal one only a newer sync state set."""
        if master is None or epoch is None or epoch < self.master_epoch:
            return
        if epoch > self.master_epoch:
            self.master, self.master_address, self.master_epoch = master, address or "", epoch
            self.sync_set_epoch = -1
            self._replicas.clear()
            if self._to_master is not None:
                self._to_master.close()
                self._to_master = None
            if master == self.disk.broker_id:
                self.disk.epoch = epoch
            print(f"epoch {epoch}: {'master' if master == self.disk.broker_id else f'replica of {master}'}", flush=True)
        if members.sync_state_set_epoch > self.sync_set_epoch:
            self.sync_set, self.sync_set_epoch = members.sync_state_set, members.sync_state_set_epoch

    @property
    def is_master(self) -> bool:
        """Am I?"""
        return self.running and self.master == self.disk.broker_id

    def answer(self, channel: Channel, header: wire.Header, body: bytes) -> bytes | None:
        """Answer what controllers (1008) and replicas (our copy request) ask."""
        if header.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            role = wire.read_fields(header.fields, RoleChangedFields)
            self.change_role(role.master_broker_id, role.master_address, role.master_epoch, _sync_set.decode(body))
            reply = wire.Message(ResponseCode.SUCCESS)
        elif header.code == COPY and self.is_master:
            asked = wire.read_fields(header.fields, CopyFields)
            self._replicas[asked.broker_id] = Replica(channel, asked.max_offset, time.monotonic())
            reply = wire.Message(ResponseCode.SUCCESS, CopyReplyFields(self.disk.max_offset, self.disk.epoch))
        else:
            reply = wire.Message(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"{header.code} is not for me")
        return None if header.oneway else reply.frame(wire.HeaderType.JSON, header.opaque)

    # ── steady state ────────────────────────────────────────────────────────────────────────────────────────────────

    async def every(self, period_s: float, step: Callable[[], object]) -> None:
        """Run a step again and again, once the boot is over; a failed one waits for its next time."""
        while True:
            if self.running:
                try:
                    result = step()
                    if asyncio.iscoroutine(result):
                        await result
                except CallError as error:
                    print(visible(f"{getattr(step, '__name__', step)}: {error}"), flush=True)
            await asyncio.sleep(period_s)

    def live(self) -> None:
        """Write to the made-up log, tell the controllers."""
        if self.is_master:
            self.disk.max_offset += self._rng.randrange(BYTES_PER_S)
        self.beat()
        self._save()

    async def copy(self) -> None:
        """As a replica: take what the master has."""
        if self.is_master or not self.master_address:
            return
        if self._to_master is None or not self._to_master.open:
            self._to_master = await connect(self.master_address, self.answer)
        asked = CopyFields(self.disk.broker_id, self.disk.max_offset)
        reply = await self._to_master.ask(COPY, asked)
        if reply.code == ResponseCode.SUCCESS:
            has = reply.read(CopyReplyFields)
            self.disk.max_offset, self.disk.epoch = has.max_offset, has.epoch

    async def check_sync_set(self) -> None:
        """As the master: 1001 when replicas caught up or went away."""
        if not self.is_master:
            return
        now, me = time.monotonic(), self.disk.broker_id
        near = self.disk.max_offset - BYTES_PER_S
        caught_up = {
            number
            for number, replica in self._replicas.items()
            if replica.channel.open and now - replica.seen < LAG_S_MAX and replica.max_offset >= near
        }
        wanted = tuple(sorted({me} | caught_up))
        if wanted != tuple(sorted(self.sync_set)):
            fields = AlterSyncStateSetFields(self.broker_set, me, self.master_epoch, time.time_ns() // 1_000_000)
            body = msgspec.json.encode(SyncStateSetBody(wanted, self.sync_set_epoch))
            reply = await self.call(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body)
            self.sync_set, self.sync_set_epoch = wanted, reply.read(AlterReplyFields).new_sync_state_set_epoch

    async def poll_replica_info(self) -> None:
        """1004: learn what a lost 1008 would have told; ask for an election when there is no master."""
        reply = await self.call(RequestCode.CONTROLLER_GET_REPLICA_INFO, BrokerNameFields(self.broker_set))
        role = reply.read(ReplicaInfoReplyFields)
        if role.master_broker_id is None and (role.master_epoch or 0) > self.master_epoch:
            await self._ask_for_election()
        else:
            self.change_role(
                role.master_broker_id, role.master_address, role.master_epoch, _sync_set.decode(reply.body)
            )

    async def run(self, parent: int | None) -> None:
        """Until SIGTERM, or until the parent is gone."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        try:
            server = await loop.create_server(lambda: Channel(self.answer), HOST, self._port)
        except OSError as error:
            raise address_error("--port", HOST, self._port, error) from error
        jobs = [
            self.keep_connected(),
            self.boot(),
            self.every(HEARTBEAT_S, self.live),
            self.every(COPY_S, self.copy),
            self.every(CHECK_SYNC_SET_S, self.check_sync_set),
            self.every(POLL_REPLICA_INFO_S, self.poll_replica_info),
            self.every(POLL_METADATA_S, self.find_leader),
        ]
        async with server, asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
            waits: list[asyncio.Task[object]] = [asyncio.create_task(ended.wait())]
            if parent is not None:
                waits.append(asyncio.create_task(until_orphaned(parent)))
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, *waits):
                task.cancel()


def run(options: Namespace) -> int:
    """Run one simulated broker."""
    die_with(options.die_with)
    options.home.mkdir(parents=True, exist_ok=True)
    asyncio.run(SimulatedBroker(options).run(options.die_with))
    return DONE
