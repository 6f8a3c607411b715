"""The simulated service: it keeps its lease, begins again when that is gone, and asks again for what was lost."""

import random
import time
from argparse import Namespace
from typing import Any

import grpc
import pytest

from quorate.cli import program
from quorate.demo.simservice import PUT_EVERY, SimulatedService
from quorate.gateway.grpc.pb import rpc_pb2


class Failed(grpc.RpcError):
    """What a call raises."""

    def __init__(self, details: str) -> None:
        self._details = details

    def details(self) -> str:
        """As grpcio's."""
        return self._details


class Cluster:
    """Both stubs: it answers what a test says, notes every call, and fails when there is nothing more to say."""

    def __init__(self, beats: list[int], grants: list[str]) -> None:
        self.beats, self.grants, self.calls = beats, grants, list[tuple[str, int]]()

    def LeaseGrant(self, request: Any, timeout: float) -> None:  # noqa: N802
        """Granted, or what is said instead."""
        self.calls.append(("grant", request.ID))
        if self.grants and (said := self.grants.pop(0)):
            raise Failed(said)

    def LeaseKeepAlive(self, requests: Any, timeout: float) -> list[Any]:  # noqa: N802
        """So many seconds more; 0: there is none."""
        (request,) = requests
        self.calls.append(("keep", request.ID))
        if not self.beats:
            raise Failed("the node is gone")
        return [rpc_pb2.LeaseKeepAliveResponse(ID=request.ID, TTL=self.beats.pop(0))]

    def Put(self, request: Any, timeout: float) -> None:  # noqa: N802
        """The key."""
        assert request.key == b"/s/1"
        self.calls.append(("put", request.lease))


@pytest.fixture(name="service")
def _service(monkeypatch: pytest.MonkeyPatch) -> SimulatedService:
    """One that waits for nothing."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return SimulatedService(Namespace(key="/s/1", ttl=6), ("h:1",), random.Random(1))


def serve(service: SimulatedService, cluster: Any) -> list[str]:
    """At one node until it fails; the calls."""
    with pytest.raises(Failed):
        service._serve(cluster, cluster)
    return [name for name, _ in cluster.calls]


def test_it_beats_and_puts_its_key_now_and_then(service: SimulatedService) -> None:
    """A grant, its key, a word each beat; the key again after so many of them, always under the one lease."""
    cluster = Cluster([6] * (PUT_EVERY + 1), [])
    assert serve(service, cluster) == ["grant", "put", *["keep"] * PUT_EVERY, "put", "keep", "keep"]
    assert len({lease for _, lease in cluster.calls}) == 1


def test_a_lease_that_is_gone_is_granted_anew(service: SimulatedService) -> None:
    """Its number is another one, and the key is put under it at once."""
    cluster = Cluster([6, 0, 6], [])
    assert serve(service, cluster) == ["grant", "put", "keep", "keep", "grant", "put", "keep", "keep"]
    assert cluster.calls[0][1] != cluster.calls[4][1] == cluster.calls[5][1]


def test_at_the_next_node_it_goes_on_with_its_lease(service: SimulatedService) -> None:
    """A node that fails costs no lease."""
    first, second = Cluster([6], []), Cluster([6], [])
    serve(service, first)
    assert serve(service, second) == ["keep", "keep"]
    assert first.calls[0][1] == second.calls[0][1]


def test_a_grant_whose_answer_was_lost_is_asked_after(service: SimulatedService) -> None:
    """If it was granted it is held, and the key put; if it was not, another is granted."""
    first, second, third = Cluster([], ["timed out"]), Cluster([6], []), Cluster([0], [])
    assert serve(service, first) == ["grant"]
    assert serve(service, second) == ["keep", "put", "keep"]
    assert {lease for _, lease in first.calls} == {lease for _, lease in second.calls}
    assert serve(service, third) == ["keep", "grant", "put", "keep"]


def test_a_lease_of_no_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A time to live is at least a second, and an address has a port."""
    assert program.main(["simservice", "--ttl", "0"]) == 2
    assert program.main(["simservice", "--nodes", "nonsense"]) == 2
    assert "--ttl 0" in capsys.readouterr().err
