"""Services on the log: members that come, fall silent and leave, and what they hold.

Rules: one round of it at a time, through one node; whatever is refused, or not answered, is left out. ``steady`` is
heard all the time, ``fickle`` for some rounds, then silent, then it leaves: what it led, and whom it had, goes on.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import grpc

from quorate import events as e
from quorate.gateway.grpc.pb import journal_pb2, members_pb2, mqtt_pb2, offsets_pb2
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.mqtt_pb2_grpc import MqttStub
from quorate.gateway.grpc.pb.offsets_pb2_grpc import OffsetsStub

STEADY, FICKLE = "m", "fickle"
ROUNDS, HEARD, LEAVES = 16, 8, 13
"""Rounds until it begins anew; in how many the fickle member is heard; when it leaves."""
TIMEOUT_S: Final = 5
KINDS: Final = (
    *(e.MemberRegistered, e.MemberAmended, e.MemberUnfenced, e.MemberFenced, e.MemberDraining, e.MemberGone),
    *(e.ShardCreated, e.ShardDeleting, e.ShardGone, e.SegmentCreated, e.SegmentSealed, e.SegmentLeaderElected),
    *(e.SegmentInSyncAltered, e.SegmentCopyDeleted, e.SessionOpened, e.SessionDisconnected, e.SessionEnded),
    *(e.SubscriptionsChanged, e.SessionOwnerLost, e.SessionOwnerSettled),
    *(e.WillDecided, e.WillHandedOver, e.WillAcknowledged, e.KeyPut, e.KeyDeleted),
    *(e.SchemaAdded, e.SchemaRegistered, e.SchemaDeleted),
)
"""What the log of a world must have."""


class Services:
    """Their next round, over a channel to any node."""

    def __init__(self) -> None:
        self._round = 0
        self._epochs: dict[str, int] = {}

    def go_on(self, address: str) -> None:
        """One more round."""
        self._round += 1
        at = self._round % ROUNDS
        with grpc.insecure_channel(address) as channel:
            for part in (self._members, self._sessions, self._journal, self._lead, self._delete, self._offsets):
                _unless_refused(lambda part=part: part(channel, at))  # type: ignore[misc]

    def _members(self, channel: grpc.Channel, at: int) -> None:
        members = MembersStub(channel)
        self._beat(members, STEADY, "1", 60_000)
        if at < HEARD:
            self._beat(members, FICKLE, str(self._round // ROUNDS), 3_000)
        elif at == LEAVES:
            members.Drain(members_pb2.DrainMemberRequest(name=FICKLE), timeout=TIMEOUT_S)
        elif at == LEAVES + 1:
            members.Unregister(members_pb2.UnregisterMemberRequest(name=FICKLE, force=True), timeout=TIMEOUT_S)

    def _beat(self, members: MembersStub, name: str, incarnation: str, timeout_ms: int) -> None:
        said = members_pb2.RegisterMemberRequest(
            name=name,
            incarnation=incarnation,
            roles=("journal", "mqtt"),
            labels={"rack": str(self._round // 4 % 2)},
            timeout_ms=timeout_ms,
        )
        epoch = self._epochs[name] = members.Register(said, timeout=TIMEOUT_S).epoch
        beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=epoch)
        members.Heartbeat(beat, timeout=TIMEOUT_S)

    def _sessions(self, channel: grpc.Channel, at: int) -> None:
        """The steady member's clients subscribe, go away and end; the fickle one's have wills."""
        mqtt = MqttStub(channel)
        for will in mqtt.ListWills(mqtt_pb2.ListWillsRequest(member=STEADY), timeout=TIMEOUT_S).wills:
            known = mqtt_pb2.AcknowledgeWillRequest(will=will.will, member=will.member, member_epoch=will.member_epoch)
            mqtt.AcknowledgeWill(known, timeout=TIMEOUT_S)
        client = f"c{self._round % 3}"
        epoch = self._open(mqtt, client, STEADY)
        wanted = mqtt_pb2.PutSubscriptionsRequest(client=client, session_epoch=epoch)
        wanted.added.add(filter=f"t/{self._round % 5}", qos=1)
        mqtt.PutSubscriptions(wanted, timeout=TIMEOUT_S)
        if at % 3 == 0:
            closing = mqtt_pb2.CloseSessionRequest(client=client, session_epoch=epoch, end=at % 2 == 0)
            mqtt.CloseSession(closing, timeout=TIMEOUT_S)
        if at < HEARD:
            self._open(mqtt, f"d{self._round % 2}", FICKLE)

    def _open(self, mqtt: MqttStub, client: str, member: str) -> int:
        opening = mqtt_pb2.OpenSessionRequest(
            client=client, expiry_s=3600, member=member, member_epoch=self._epochs[member]
        )
        if member == FICKLE:
            opening.will.topic, opening.will.payload = f"gone/{client}", b"\xff"
        epoch: int = mqtt.OpenSession(opening, timeout=TIMEOUT_S).session_epoch
        return epoch

    def _journal(self, channel: grpc.Channel, at: int) -> None:
        """One shard with a copy of each member."""
        if at < HEARD:
            creating = journal_pb2.CreateShardRequest(shard=f"s{self._round % 4}", replication=1 + self._round % 2)
            JournalStub(channel).CreateShard(creating, timeout=TIMEOUT_S)

    def _lead(self, channel: grpc.Channel, at: int) -> None:
        """What leaders of segments say: a copy falls behind, a segment ends; and another leads."""
        journal, shard = JournalStub(channel), f"s{(self._round - 1) % 4}"
        last = journal.Describe(journal_pb2.DescribeShardRequest(shard=shard), timeout=TIMEOUT_S).segments[-1]
        end, number = last.start_offset + self._round, int(last.name.rpartition("/")[2])
        if at == HEARD // 2:
            for copy in last.in_sync:
                if copy.member != last.leader.member:
                    electing = journal_pb2.ElectLeaderRequest(segment=last.name, member=copy.member)
                    journal.ElectLeader(electing, timeout=TIMEOUT_S)
        elif at % 2 == 0:
            mine = journal_pb2.InSyncCopy(member=last.leader.member, member_epoch=last.leader.member_epoch)
            altering = journal_pb2.AlterInSyncRequest(
                segment=last.name, leader=last.leader, set_epoch=last.set_epoch, in_sync=(mine,)
            )
            journal.AlterInSync(altering, timeout=TIMEOUT_S)
        elif at % 4 == 1:
            following = journal_pb2.NextSegmentRequest(shard=shard, current=number, end_offset=end, leader=last.leader)
            journal.NextSegment(following, timeout=TIMEOUT_S)
        elif at == LEAVES + 2:
            journal.Seal(
                journal_pb2.SealRequest(segment=last.name, end_offset=end, leader=last.leader), timeout=TIMEOUT_S
            )

    def _delete(self, channel: grpc.Channel, at: int) -> None:
        """A shard goes, once whoever has copies says that they are deleted."""
        journal = JournalStub(channel)
        if at == HEARD - 1:
            shard = f"s{self._round // ROUNDS % 4}"
            journal.DeleteShard(journal_pb2.DeleteShardRequest(shard=shard), timeout=TIMEOUT_S)
        for shard in journal.List(journal_pb2.ListShardsRequest(), timeout=TIMEOUT_S).shards:
            if shard.deleting:
                self._deleted(journal, shard)

    def _deleted(self, journal: JournalStub, shard: journal_pb2.Shard) -> None:
        found = journal.Describe(journal_pb2.DescribeShardRequest(shard=shard.name), timeout=TIMEOUT_S)
        for segment in found.segments:
            for member in segment.copies:
                known = journal_pb2.AckDeletedRequest(
                    segment=segment.name,
                    shard_epoch=shard.epoch,
                    member=member,
                    member_epoch=self._epochs.get(member, 0),
                )
                _unless_refused(lambda known=known: journal.AckDeleted(known, timeout=TIMEOUT_S))  # type: ignore[misc]

    def _offsets(self, channel: grpc.Channel, at: int) -> None:
        """A group comes on in two shards, and is forgotten."""
        offsets = OffsetsStub(channel)
        said = offsets_pb2.CommitOffsetsRequest(group="g")
        for shard in ("s0", "s1"):
            said.positions.add(shard=shard, offset=self._round)
        offsets.Commit(said, timeout=TIMEOUT_S)
        if at == 0:
            offsets.Delete(offsets_pb2.DeleteOffsetsRequest(group="g", all=True), timeout=TIMEOUT_S)


def _unless_refused(work: Callable[[], object]) -> None:
    with suppress(grpc.RpcError):
        work()
