"""Where the suite finds etcd's messages: by name, as the gateway has them. etcd itself understands them in the oracle's
tests, so that a field that is not where etcd has it shows.
"""

from typing import Any

from quorate.gateway.grpc.pb import rpc_pb2


def messages(name: str) -> Any:
    """A message of ``etcdserverpb``, by name."""
    return getattr(rpc_pb2, name)
