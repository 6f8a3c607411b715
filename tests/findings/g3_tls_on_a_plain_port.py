"""G3: a TLS client on a plain port is hung up on without a word."""

import contextlib
import ssl
from pathlib import Path

from tests.findings.lines import told
from tests.findings.tree import Seen, cluster

ALERT = 0x15
"""The kind of TLS record that says why not."""


def hello() -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="n").do_handshake()
    return outgoing.read()


def look(tree: Path) -> Seen:
    """On each of the three listeners that clients use."""
    with cluster(tree, 1) as alone:
        alone.start()
        ports = alone.nodes[0].ports
        told_why = [door for door in ("rpc", "kafka", "http") if told(ports[door], hello())[0][:1] == bytes((ALERT,))]
        return Seen(len(told_why) < 3, f"of rpc, kafka and http these tell a TLS client why: {told_why}")
