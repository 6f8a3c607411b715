"""Simulated members: stores of the journal and brokers of MQTT, as many as are named, in one process; by gRPC.

Rules: each registers and is heard three times in its timeout. A store of the journal asks for one shard, begins its
next segment now and then while it leads the newest one, and takes copies that are there again into its in-sync sets; a
broker of MQTT has a few clients. They end without a word: they are fenced when they are not heard. What is refused is
tried again a beat later; where a node does not answer, the next one is asked.
"""

import random
import time
from argparse import Namespace
from collections.abc import Iterable
from itertools import cycle
from typing import Final

import grpc

from quorate.cli.command import DONE
from quorate.cli.processes import die_with
from quorate.cli.rpc import places
from quorate.errors import UsageError
from quorate.gateway.grpc.pb import journal_pb2, members_pb2, mqtt_pb2
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.mqtt_pb2_grpc import MqttStub

TIMEOUT_S: Final = 2.0
"""Of one call."""
SILENCE_MS: Final = 6_000
"""After so long a member that is not heard is fenced."""
RETRY_S: Final = 0.2
SHARD: Final = "orders"
COPIES: Final = 2
SEGMENTS_MAX: Final = 12
"""So many begin; then the shard stays as it is."""
SEGMENT_BEATS: Final = 15
SEGMENT_LONG: Final = 40_000
CLIENTS: Final = 3
"""Of each broker."""
ROLES: Final = ("journal", "mqtt")
_AWAY: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class SimulatedMember:
    """One member, at whichever node it is told."""

    def __init__(self, name: str, role: str, chance: random.Random) -> None:
        self.name, self.role, self._chance = name, role, chance
        self._incarnation = f"{chance.randrange(1 << 32):08x}"
        self._epoch = self._beats = 0
        """The epoch is 0: it is to register."""

    def beat(self, channel: grpc.Channel) -> None:
        """Be heard, and do what is to be done. Raises grpc.RpcError."""
        members = MembersStub(channel)
        if not self._epoch:
            self._epoch = members.Register(self._said(), timeout=TIMEOUT_S).epoch
        used, cpu = 40 + self._beats % 20, self._chance.randrange(40)
        health = members_pb2.MemberHealth(
            disk_used_bytes=used << 30, disk_total_bytes=100 << 30, cpu_percent=cpu, memory_percent=30
        )
        request = members_pb2.MemberHeartbeatRequest(
            name=self.name, epoch=self._epoch, applied_revision=self._epoch, health=health
        )
        try:
            members.Heartbeat(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() not in _AWAY:
                self._epoch = self._beats = 0  # It is not known any more: it registers with the next beat.
            raise
        if self.role == "journal":
            self._store(JournalStub(channel), members)
        elif self._beats == 0:
            self._serve(MqttStub(channel))
        self._beats += 1

    def _said(self) -> members_pb2.RegisterMemberRequest:
        number = int(self.name[-1]) if self.name[-1:].isdecimal() else 0
        return members_pb2.RegisterMemberRequest(
            name=self.name,
            incarnation=self._incarnation,
            roles=[self.role],
            addresses={"demo": f"127.0.0.1:{7_000 + number}"},
            labels={"rack": f"az-{'abc'[number % 3]}"},
            timeout_ms=SILENCE_MS,
        )

    def _serve(self, mqtt: MqttStub) -> None:
        """Its clients come; the last of them has a will."""
        for number in range(1, CLIENTS + 1):
            client = f"{self.name}/sensor-{number}"
            will = mqtt_pb2.Will(topic=f"lost/{client}", payload=b"gone", qos=1) if number == CLIENTS else None
            opened = mqtt.OpenSession(
                mqtt_pb2.OpenSessionRequest(
                    client=client, expiry_s=3_600, will=will, member=self.name, member_epoch=self._epoch
                ),
                timeout=TIMEOUT_S,
            )
            filters = (f"commands/{client}/#", "alarms/+")[:number]
            added = [mqtt_pb2.Subscription(filter=one, qos=1) for one in filters]
            request = mqtt_pb2.PutSubscriptionsRequest(client=client, session_epoch=opened.session_epoch, added=added)
            mqtt.PutSubscriptions(request, timeout=TIMEOUT_S)

    def _store(self, journal: JournalStub, members: MembersStub) -> None:
        """The shard is there; its segments that this one leads are cared for."""
        try:
            found = journal.Describe(journal_pb2.DescribeShardRequest(shard=SHARD), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            request = journal_pb2.CreateShardRequest(shard=SHARD, replication=COPIES, spread="rack")
            journal.CreateShard(request, timeout=TIMEOUT_S)
            return
        me = (self.name, self._epoch)
        led = [one for one in found.segments if (one.leader.member, one.leader.member_epoch) == me]
        if led:
            lives = self._lives(members)
            for segment in led:
                self._care(journal, segment, lives)
        newest = found.segments[-1]
        if newest in led and len(found.segments) < SEGMENTS_MAX and self._beats % SEGMENT_BEATS == SEGMENT_BEATS - 1:
            journal.NextSegment(
                journal_pb2.NextSegmentRequest(
                    shard=SHARD,
                    current=len(found.segments) - 1,
                    end_offset=newest.start_offset + self._chance.randrange(1, SEGMENT_LONG),
                    leader=newest.leader,
                ),
                timeout=TIMEOUT_S,
            )

    def _lives(self, members: MembersStub) -> dict[str, int]:
        """Members that are given work, and in which life."""
        told = members.List(members_pb2.ListMembersRequest(), timeout=TIMEOUT_S).members
        return {one.name: one.epoch for one in told if one.state != members_pb2.MEMBER_STATE_FENCED}

    def _care(self, journal: JournalStub, segment: journal_pb2.Segment, lives: dict[str, int]) -> None:
        """Whoever is there is in sync: nothing is really copied here."""
        new = {name: lives[name] for name in segment.copies if name in lives}
        if new != {one.member: one.member_epoch for one in segment.in_sync}:
            request = journal_pb2.AlterInSyncRequest(
                segment=segment.name,
                leader=segment.leader,
                set_epoch=segment.set_epoch,
                in_sync=[journal_pb2.InSyncCopy(member=name, member_epoch=new[name]) for name in sorted(new)],
            )
            journal.AlterInSync(request, timeout=TIMEOUT_S)


def serve(members: Iterable[SimulatedMember], channel: grpc.Channel) -> None:
    """A beat of each, again and again, at one node until that fails. Raises grpc.RpcError."""
    everyone = tuple(members)
    while True:
        for member in everyone:
            try:
                member.beat(channel)
            except grpc.RpcError as error:
                if error.code() in _AWAY:
                    raise
        time.sleep(SILENCE_MS / 3_000)


def run(options: Namespace) -> int:
    """Until its process ends. Raises UsageError and NodeError."""
    chance, members = random.Random(), list[SimulatedMember]()
    for said in options.member:
        name, _, role = said.partition(":")
        if not name or role not in ROLES:
            raise UsageError(f"--member {said}: a name, a colon, and one of {', '.join(ROLES)}")
        members.append(SimulatedMember(name, role, chance))
    nodes = places(options)
    die_with(options.die_with)
    for address in cycle(nodes):
        try:
            with grpc.insecure_channel(address) as channel:
                serve(members, channel)
        except grpc.RpcError:
            time.sleep(RETRY_S)
    return DONE
