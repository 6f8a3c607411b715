"""Data directories that an older build wrote open: what they say is what that build said, and the cluster goes on."""

import hashlib
import json
from functools import partial
from pathlib import Path

import pytest

from quorate.cli.cluster import listeners, resume, unused
from quorate.consensus.storage.directory import decode_voter
from quorate.consensus.storage.disk import FileVoterFile
from quorate.errors import AddressError
from quorate.gateway.http.answers import Done, StateHash
from tests.clusters import Started, resumed, until
from tests.integration.old_directory import (
    BASE_PORTS,
    answer,
    batches,
    holds,
    log,
    positions,
    recorded_as,
    state,
    unpack,
    wordless,
)


def ports_free(folder: Path) -> bool:
    """Those that the nodes' settings name: another run of this test may have them."""
    try:
        unused(listeners(resume(folder, None, None)))
    except AddressError:
        return False
    return True


def may_vote(cluster: Started) -> list[bool]:
    """What each node's ``voter.json`` says."""
    folders = [cluster.config(index).parent / "data" for index in range(len(cluster.nodes))]
    found = [FileVoterFile(str(folder)).read() for folder in folders]
    voters = [None if content is None else decode_voter(content.data) for content in found]
    return [voter is not None and voter.admitted and not voter.may_not_vote for voter in voters]


def rows_add_up(cluster: Started, index: int) -> bool:
    """Do the rows that the store had, and those added since, equal what a replay of the log gives?"""
    now = cluster.node(index).get("/v1/state-hash", StateHash, level="stale")
    return cluster.node(index).get("/v1/state-hash", StateHash, at=now.offset).rows == now.rows


def adds_to(http: str, end: int) -> bool:
    """Has the node applied an event beyond those that were recorded? (It serves before its own start is one.)"""
    return bool(answer(http, "/v1/status?level=stale")["offset"] > end)


def shows_what_was_recorded(cluster: Started) -> None:
    """Every node, of the past and of now; the log over HTTP, and byte for byte over Kafka; the groups' positions."""
    recorded, *events = map(json.loads, recorded_as(len(cluster.nodes))[1].read_text().splitlines())
    end = recorded["offset"]
    assert end == len(events)
    for index, node in enumerate(cluster.nodes):
        until(partial(adds_to, node["http"], end), "an event of this build")
        assert holds(state(node["http"], end), recorded["state"])
        assert holds(log(node["http"], end), events)
        assert hashlib.sha256(batches(node["kafka"], end)).hexdigest() == recorded["records"]
        assert rows_add_up(cluster, index)
    config = wordless(answer(cluster.nodes[0]["http"], "/v1/config")["config"])
    assert holds(config, recorded["state"]["config"])
    assert positions(cluster.nodes[0]["kafka"]) == recorded["positions"]


@pytest.mark.parametrize("nodes", BASE_PORTS)
def test_directories_of_469a1f7_open_and_go_on(tmp_path: Path, nodes: int) -> None:
    """With the settings and the command they had, nothing else: every node says what the old build said, may vote, and
    has a ``voter.json`` now; a change is committed, and all of it is there after a restart.
    """
    folder = tmp_path / "c"
    unpack(nodes, folder)
    until(lambda: ports_free(folder), "the ports of the nodes")
    with resumed(folder) as cluster:
        assert len(cluster.nodes) == nodes
        shows_what_was_recorded(cluster)
        assert may_vote(cluster) == [True] * nodes
        cluster.node().send("PUT", "/v1/topics/new", {"read_queues": 3, "write_queues": 3}, Done)
    with resumed(folder) as cluster:
        shows_what_was_recorded(cluster)
        topics = [topic["topic"] for topic in answer(cluster.nodes[-1]["http"], "/v1/topics")["topics"]]
        assert topics == ["new", "topic-0", "topic-1", "topic-3"]
