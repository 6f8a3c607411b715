"""The deletion of a shard, in two phases with an acknowledgement of each copy, goes on whoever leads."""

import asyncio
import random
from pathlib import Path
from typing import Final

from quorate.gateway.grpc.pb import journal_pb2, members_pb2
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from tests.contract.cluster import QuorateCluster
from tests.kills.calls import Calls, certain
from tests.kills.ledger import Ledger, read_log

PATIENT_MS: Final = 600_000
PATIENCE_S: Final = 30.0
MEMBERS: Final = ("m1", "m2", "m3")


async def deleted_through_kills(cluster: QuorateCluster, calls: Calls) -> None:
    """A shard of three copies goes; the leader dies after the word, and after each acknowledgement but the last."""
    epochs = {}
    for name in MEMBERS:
        member = members_pb2.RegisterMemberRequest(name=name, incarnation="1", timeout_ms=PATIENT_MS, roles=["journal"])
        epochs[name] = (await certain(lambda: calls.ask(MembersStub, "Register", member), PATIENCE_S)).epoch  # noqa: B023
        beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epochs[name], applied_revision=epochs[name])
        await certain(lambda: calls.ask(MembersStub, "Heartbeat", beat), PATIENCE_S)  # noqa: B023
    create = journal_pb2.CreateShardRequest(shard="s", replication=len(MEMBERS))
    await calls.ask(JournalStub, "CreateShard", create)
    shard = (await calls.ask(JournalStub, "DeleteShard", journal_pb2.DeleteShardRequest(shard="s"))).epoch
    left = set(MEMBERS)
    for name in MEMBERS:
        dead = await asyncio.to_thread(cluster.leader)
        await asyncio.to_thread(cluster.kill, dead)
        describe = journal_pb2.DescribeShardRequest(shard="s")
        found = await certain(lambda: calls.ask(JournalStub, "Describe", describe), PATIENCE_S)  # noqa: B023
        assert found.shard.deleting
        assert [set(one.copies) for one in found.segments] == [left], "what was acknowledged is kept, and that alone"
        acknowledged = journal_pb2.AckDeletedRequest(
            segment="s/0", shard_epoch=shard, member=name, member_epoch=epochs[name]
        )
        await certain(lambda: calls.ask(JournalStub, "AckDeleted", acknowledged), PATIENCE_S)  # noqa: B023
        left.remove(name)
        await asyncio.to_thread(cluster.restart, dead)
    listed = await certain(lambda: calls.ask(JournalStub, "List", journal_pb2.ListShardsRequest()), PATIENCE_S)
    assert not listed.shards


def test_a_deletion_survives_the_death_of_the_leader_in_each_phase(tmp_path: Path) -> None:
    """Behind ShardDeleting, between two acknowledgements, before the last: it ends, once, in a term that is not the one
    in which it began, with each acknowledgement told once.
    """
    cluster = QuorateCluster(tmp_path / "c")
    nodes = cluster.nodes.values()

    async def play() -> None:
        async with Calls([node["grpc"] for node in nodes], random.Random(1)) as calls:
            await deleted_through_kills(cluster, calls)

    try:
        cluster.raise_level(2)
        asyncio.run(play())
        ledger = Ledger()
        for offset, term, time_ms, event in read_log(",".join(node["kafka"] for node in nodes)):
            ledger.take(offset, term, time_ms, event)
    finally:
        cluster.stop()
    ((name, epoch),) = ledger.gone  # That it went more than once, the ledger would have said.
    assert (name, ledger.across, ledger.deleting) == ("s", 1, {})
    assert ledger.copies == {(epoch, "s/0", member) for member in MEMBERS}
