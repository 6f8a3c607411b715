"""A simulated service: while it runs it holds a lease, and under it a key that says where it is; by gRPC, as etcd's
clients do it.

Rules: it draws the number of its lease itself, so that it can ask after a grant whose answer was lost. Where a node
does not answer, the next one is asked. A lease that has ended in spite of it is followed by another, and the key put
again. It ends without a word: its lease then ends by itself.
"""

import json
import random
import time
from argparse import Namespace
from itertools import cycle

import grpc

from quorate.cli.command import DONE
from quorate.cli.processes import die_with
from quorate.cli.rpc import places
from quorate.errors import UsageError
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, LeaseStub

TIMEOUT_S = 2.0
"""Of one call; a lease that is kept by a third of its time survives one that takes so long."""
RETRY_S = 0.2
PUT_EVERY = 5
"""Beats between two puts of the key."""


class SimulatedService:
    """One service, at one node after the other."""

    def __init__(self, options: Namespace, nodes: tuple[str, ...], chance: random.Random) -> None:
        self._nodes = nodes
        self._key: str = options.key
        self._ttl_s: int = options.ttl
        self._chance = chance
        self._lease = 0
        self._beats = 0

    def run(self) -> None:
        """For ever."""
        for address in cycle(self._nodes):
            try:
                with grpc.insecure_channel(address) as channel:
                    self._serve(LeaseStub(channel), KVStub(channel))
            except grpc.RpcError:
                time.sleep(RETRY_S)

    def _serve(self, leases: LeaseStub, keys: KVStub) -> None:
        """At one node, until that fails. Raises grpc.RpcError."""
        while True:
            if not self._lease or not self._kept(leases):
                self._lease, self._beats = self._chance.randrange(1, 1 << 63), 0
                leases.LeaseGrant(rpc_pb2.LeaseGrantRequest(ID=self._lease, TTL=self._ttl_s), timeout=TIMEOUT_S)
            if self._beats % PUT_EVERY == 0:
                keys.Put(
                    rpc_pb2.PutRequest(key=self._key.encode(), value=self._value(), lease=self._lease),
                    timeout=TIMEOUT_S,
                )
            self._beats += 1
            time.sleep(self._ttl_s / 3)

    def _kept(self, leases: LeaseStub) -> bool:
        """One word that we are here. False: the lease has ended, or was never granted."""
        (answer,) = leases.LeaseKeepAlive(iter([rpc_pb2.LeaseKeepAliveRequest(ID=self._lease)]), timeout=TIMEOUT_S)
        return bool(answer.TTL)

    def _value(self) -> bytes:
        now = time.strftime("%H:%M:%S", time.gmtime())
        return json.dumps({"service": self._key.rpartition("/")[2], "beats": self._beats, "at": now}).encode()


def run(options: Namespace) -> int:
    """Until its process ends. Raises UsageError and NodeError."""
    if options.ttl < 1:
        raise UsageError(f"--ttl {options.ttl}: at least 1 second")
    service = SimulatedService(options, places(options), random.Random())
    die_with(options.die_with)
    service.run()
    return DONE
