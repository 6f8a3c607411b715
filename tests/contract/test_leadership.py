"""Leaders paused or gone: nobody is sent to a stale one, every request is answered before its client gives up."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract.client import Remoting
from tests.contract.cluster import QuorateCluster
from tests.contract.speaker import Speaker

JAVA_CLIENT_PATIENCE_S = 3.0
NEED_THE_LEADER = (1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013, 17, 21, 215, 351)
BODIES = {1001: b'{"syncStateSet":[1],"syncStateSetEpoch":2}', 1006: b'["alone"]'}
TOPIC: dict[str, Any] = {"topic": "T", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}


@pytest.mark.timeout(120)
def test_a_leader_that_was_paused_does_not_advertise_itself(tmp_path: Path) -> None:
    """SIGSTOP until another leads, SIGCONT: the first 1005 it answers names the other, or nobody."""
    cluster = QuorateCluster(tmp_path)
    try:
        for _ in range(3):
            old = cluster.leader()
            address = cluster.nodes[old]["rpc"]
            with Remoting(address, timeout_s=20) as waiting:
                os.kill(cluster.nodes[old]["pid"], signal.SIGSTOP)
                try:
                    new = cluster.leader(without=old)
                    waiting.send(1005)
                finally:
                    os.kill(cluster.nodes[old]["pid"], signal.SIGCONT)
                fields = waiting.receive()[0].fields
            assert fields["isLeader"] == "false"
            assert fields.get("controllerLeaderAddress") in (None, cluster.nodes[new]["rpc"])
    finally:
        cluster.stop()


@pytest.mark.timeout(120)
def test_without_a_majority_every_request_is_answered_in_time(tmp_path: Path) -> None:
    """Two of three nodes killed: 2007, nobody named by 1005, heartbeats taken; then it heals."""
    cluster = QuorateCluster(tmp_path)
    try:
        speaker = Speaker("alone", cluster.addresses, cluster.addresses[0], HeaderType.JSON)
        speaker.replicas(1, 2)
        for number in (2, 3):
            cluster.kill(number)
        named: dict[str, Any] = {"clusterName": "C", "brokerName": "alone", "brokerId": 1}
        with Remoting(cluster.addresses[0]) as client:
            started = time.monotonic()
            asked = {client.send(code, BODIES.get(code, b""), **named, **TOPIC): code for code in NEED_THE_LEADER}
            for _ in NEED_THE_LEADER:
                answer, _ = client.receive()
                unknown = answer.code == 1 and str(answer.remark).startswith("unknown outcome")
                assert answer.code == 2007 or unknown, (asked[answer.opaque], answer)
            assert time.monotonic() - started < JAVA_CLIENT_PATIENCE_S
            assert client.ask(904, **named).code == 0
            assert client.ask(1010).code == 0
            assert "controllerLeaderAddress" not in client.ask(1005).fields
            for number in (2, 3):
                cluster.restart(number)
            cluster.leader()
            assert client.ask(1004, brokerName="alone").fields["masterBrokerId"] == "1"
        speaker.close()
    finally:
        cluster.stop()
