"""Bad input over TCP: each kind is named with its answer, and nothing of it reaches the log of any node."""

import json
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quorate.wire.remoting import HeaderType, Response
from tests.contract.cases import framed
from tests.contract.client import Closed, Remoting
from tests.contract.cluster import QuorateCluster
from tests.contract.speaker import Speaker

REJECTED = "Rejecting alter syncStateSet request because the current"


DELIVERY_RECORDED_S = 7.0
"""After this long an election's delivery is recorded at the latest; these brokers do not listen."""


@pytest.fixture(scope="module")
def quorate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorateCluster]:
    """A cluster of its own: nobody else writes to its log."""
    cluster = QuorateCluster(tmp_path_factory.mktemp("bad-input"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def pair(quorate: QuorateCluster) -> Iterator[Speaker]:
    """A broker set ``bad-input`` of two, both in sync, 1 is master; asked through the first node."""
    speaker = Speaker("bad-input", quorate.addresses, quorate.addresses[0], HeaderType.JSON)
    speaker.replicas(1, 2)
    settled_offsets(quorate, rest_s=DELIVERY_RECORDED_S)
    yield speaker
    speaker.close()


def settled_offsets(cluster: QuorateCluster, rest_s: float = 0.3) -> list[int]:
    """The end of the log on each node, once all agree and it has rested for so long."""
    end = time.monotonic() + 60
    before, since = [-1], time.monotonic()
    while time.monotonic() < end:
        offsets = [status(node["http"])["offset"] for node in cluster.nodes.values()]
        if offsets != before:
            before, since = offsets, time.monotonic()
        elif len(set(offsets)) == 1 and time.monotonic() - since > rest_s:
            return offsets
        time.sleep(0.05)
    raise TimeoutError(f"the log does not rest: {before}")


def status(address: str) -> Any:
    """What a node says of itself."""
    with urllib.request.urlopen(f"http://{address}/v1/status", timeout=5) as answer:
        return json.load(answer)


def terms(cluster: QuorateCluster) -> list[int]:
    """The term each node is in."""
    return [status(node["http"])["term"] for node in cluster.nodes.values()]


def alter(s: Speaker, members: list[int], *, epoch: int = 2, master: int = 1, master_epoch: int = 1) -> Response:
    """1001 with something wrong in it."""
    body = {"syncStateSet": members, "syncStateSetEpoch": epoch}
    return s.quiet(1001, body, brokerName=s.set, masterBrokerId=master, masterEpoch=master_epoch)


def apply(s: Speaker, broker_set: str, broker_id: int, code: str = "x;1", cluster: str = "C") -> Response:
    """1013."""
    known = {"clusterName": cluster, "brokerName": broker_set}
    return s.quiet(1013, **known, appliedBrokerId=broker_id, registerCheckCode=code)


BAD: dict[str, tuple[Callable[[Speaker], Response], int, str]] = {
    "stale master epoch": (
        lambda s: alter(s, [1], master_epoch=0),
        2000,
        f"{REJECTED} master epoch is:{{1}}, not {{0}}",
    ),
    "future master epoch": (
        lambda s: alter(s, [1], master_epoch=9),
        2000,
        f"{REJECTED} master epoch is:{{1}}, not {{9}}",
    ),
    "stale set epoch": (lambda s: alter(s, [1], epoch=1), 2001, f"{REJECTED} syncStateSet epoch is:{{2}}, not {{1}}"),
    "not the master": (lambda s: alter(s, [1], master=2), 2002, f"{REJECTED} leader is:{{1}}, not {{2}}"),
    "unknown replica": (
        lambda s: alter(s, [1, 9]),
        2003,
        "Rejecting alter syncStateSet request because the replicas {9} don't exist",
    ),
    "unknown set": (
        lambda s: s.quiet(1003, clusterName="C", brokerName="nobody", brokerId=1, brokerAddress="a:1"),
        2010,
        "Broker-set: nobody hasn't been registered in controller",
    ),
    "unknown broker": (
        lambda s: s.quiet(1003, clusterName="C", brokerName=s.set, brokerId=9, brokerAddress="a:1"),
        2010,
        "BrokerId: 9 hasn't been registered in broker-set: bad-input",
    ),
    "unallocated first id": (
        lambda s: apply(s, "nobody", 2),
        2014,
        "Broker-set: nobody hasn't been registered in controller, but broker try to apply brokerId: 2",
    ),
    "id already taken": (
        lambda s: apply(s, s.set, 1, "other;1"),
        2014,
        "Fail to apply brokerId: 1 in broker-set: bad-input",
    ),
    "id below 1": (lambda s: apply(s, s.set, -5), 2014, "Fail to apply brokerId: -5 in broker-set: bad-input"),
    "election in an unknown set": (
        lambda s: s.quiet(1002, clusterName="C", brokerName="nobody", brokerId=1),
        2010,
        "Broker hasn't been registered",
    ),
    "designating a stranger": (
        lambda s: s.quiet(1002, clusterName="C", brokerName=s.set, brokerId=9, designateElect=True),
        2012,
        "Failed to elect a new master",
    ),
    "cleaning in the wrong set": (
        lambda s: s.quiet(1011, clusterName="C", brokerName="nobody"),
        2009,
        "Broker nobody is not existed,clean broker data failure.",
    ),
    "cleaning the living": (
        lambda s: s.quiet(1011, clusterName="C", brokerName=s.set, brokerControllerIdsToClean="1"),
        2009,
        "Broker [bad-input,  1] is still alive, clean up failure",
    ),
    "no name": (lambda s: s.quiet(1003, clusterName="C", brokerId=1, brokerAddress="a:1"), 1, "brokerName is missing"),
    "empty name": (
        lambda s: apply(s, "", 1),
        2005,
        "The cluster or broker set name is empty, too long, or not UTF-8",
    ),
    "name too long": (
        lambda s: apply(s, "x" * 5000, 1),
        2005,
        "The cluster or broker set name is empty, too long, or not UTF-8",
    ),
    "check code too long": (
        lambda s: apply(s, "fresh", 1, "y" * 5000),
        2005,
        "The register check code is empty, too long, or not UTF-8",
    ),
    "broken body": (
        lambda s: s.quiet(1001, b"{", brokerName=s.set, masterBrokerId=1, masterEpoch=1),
        1,
        "body: Input data was truncated",
    ),
    "oversized body": (
        lambda s: s.quiet(1001, b" " * (1 << 20) + b"{}", brokerName=s.set),
        1,
        "a body of 1048578 bytes is too large",
    ),
    "unsupported code": (lambda s: s.quiet(9999), 3, " request type 9999 not supported"),
    "black-listed setting": (
        lambda s: s.quiet(1009, b"configStorePath=/x\n"),
        16,
        "Can not update config in black list.",
    ),
    "topic with a blank": (
        lambda s: s.quiet(17, topic="a b", readQueueNums=1, writeQueueNums=1, perm=6),
        29,
        "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
    ),
    "heartbeat without an id": (
        lambda s: s.quiet(904, clusterName="C", brokerName=s.set),
        2005,
        "Heart beat with empty brokerId",
    ),
}


def test_every_bad_request_has_its_answer_and_changes_nothing(pair: Speaker, quorate: QuorateCluster) -> None:
    """Wrong epochs, names, ids, bodies: the code and the remark; the logs of all nodes are as long as before."""
    before = settled_offsets(quorate)
    for name, (ask, code, remark) in BAD.items():
        answer = ask(pair)
        assert (answer.code, answer.remark) == (code, remark), name
    assert settled_offsets(quorate) == before


def test_a_command_above_the_limit_of_an_entry_is_refused_by_every_node(pair: Speaker, quorate: QuorateCluster) -> None:
    """By the leader when it decides, by the others when they would forward: 2005 at once; no link is lost. A header
    above its own limit ends the connection.
    """
    known = {"clusterName": "C", "brokerName": pair.set}
    pair.quiet(1013, **known, appliedBrokerId=3, registerCheckCode=f"{pair.serves(3)};1")
    before, term = settled_offsets(quorate), terms(quorate)
    topics = [f"{number:03d}".ljust(4096, "x") for number in range(255)]
    body = json.dumps({"topics": topics}, separators=(",", ":")).encode()
    for address in quorate.addresses:
        with Remoting(address) as client:
            # Body and header are each allowed.
            long = client.ask(1003, body, **known, brokerId=3, brokerAddress="h" * 4094 + ":1")
            assert (long.code, "exceeds the limit of 1048576" in str(long.remark)) == (2005, True)
            with pytest.raises(Closed):
                client.ask(1003, **known, brokerId=3, brokerAddress="h" * (64 << 10))
    assert (settled_offsets(quorate), terms(quorate)) == (before, term)


def test_a_wrong_cluster_is_taken_by_the_set_s_name_alone(pair: Speaker, quorate: QuorateCluster) -> None:
    """As in Java the cluster name is only data: the set answers for itself, its master unknown under that cluster."""
    before = settled_offsets(quorate)
    answer = pair.quiet(1003, clusterName="D", brokerName=pair.set, brokerId=1, brokerAddress=pair.serves(1))
    assert (answer.code, answer.fields) == (0, {"clusterName": "D", "brokerName": pair.set})
    assert settled_offsets(quorate) == before


def test_a_living_broker_s_place_is_not_taken(pair: Speaker, quorate: QuorateCluster) -> None:
    """Another address under the id of a broker that is heard is refused by name, and nothing is written."""
    before = settled_offsets(quorate)
    fields = {"clusterName": "C", "brokerName": pair.set, "brokerId": 2, "brokerAddress": pair.serves(22)}
    answer = pair.quiet(1003, **fields)
    assert (answer.code, f"is alive at {pair.serves(2)}" in str(answer.remark)) == (2014, True)
    assert settled_offsets(quorate) == before


def test_a_changed_address_is_one_event(pair: Speaker, quorate: QuorateCluster) -> None:
    """A broker that moved says so once; saying it again changes nothing. It is not heard yet, so it may move."""
    known = {"clusterName": "C", "brokerName": pair.set}
    pair.quiet(1013, **known, appliedBrokerId=3, registerCheckCode=f"{pair.serves(3)};1")
    pair.quiet(1003, **known, brokerId=3, brokerAddress=pair.serves(3))
    before = settled_offsets(quorate)
    fields = {**known, "brokerId": 3, "brokerAddress": pair.serves(33)}
    assert pair.quiet(1003, **fields).code == 0
    assert settled_offsets(quorate) == [offset + 1 for offset in before]
    assert pair.quiet(1003, **fields).code == 0
    assert settled_offsets(quorate) == [offset + 1 for offset in before]


def test_broken_frames_close_the_connection_and_change_nothing(pair: Speaker, quorate: QuorateCluster) -> None:
    """Lengths, types and headers that cannot be, behind a good request: that one is answered, then the end."""
    before = settled_offsets(quorate)
    good = json.dumps({"code": 1010, "opaque": 7, "flag": 0}).encode()
    broken = [
        struct.pack(">II", 0x7FFFFFFF, 0), struct.pack(">II", 0xFFFFFFFF, 0), struct.pack(">II", 3, 0),
        struct.pack(">II", 20, 100) + bytes(16), framed(good, header_type=9), framed(b"}{"), framed(b"[]"),
        framed(b'{"code":"x"}'), framed(b"\xff" * 9), framed(bytes(5), header_type=1), framed(b"[" * 60_000),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
    ]  # fmt: skip
    for frame in broken:
        with Remoting(quorate.addresses[0]) as client:
            client.raw(framed(good) + frame)
            assert client.receive()[0].opaque == 7
            with pytest.raises(Closed):
                client.receive()
    assert settled_offsets(quorate) == before


def test_half_a_frame_and_a_closed_door_harm_nobody(pair: Speaker, quorate: QuorateCluster) -> None:
    """A peer that stops in the middle, or hangs up on its answer: others are served."""
    host, _, port = quorate.addresses[0].rpartition(":")
    for _ in range(20):
        with socket.create_connection((host, int(port))) as rude:
            rude.sendall(framed(json.dumps({"code": 1005, "opaque": 1}).encode())[:-3])
        with socket.create_connection((host, int(port))) as rude:
            rude.sendall(framed(json.dumps({"code": 1006, "opaque": 1}).encode(), b'["bad-input"]'))
    assert pair.quiet(1004, brokerName=pair.set).code == 0
