"""G8: HTTP reads what two readers may read differently."""

from pathlib import Path

from tests.findings.lines import told
from tests.findings.tree import Seen, cluster

HOST = b"Host: localhost\r\n"
HEADS = {
    "two lengths": b"GET /livez HTTP/1.1\r\n"
    + HOST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"GET /livez HTTP/1.1\r\n" + HOST + b"X-A: b\r\n  c\r\n\r\n",
    "HTTP/9.9": b"GET /livez HTTP/9.9\r\n" + HOST + b"\r\n",
}


def look(tree: Path) -> Seen:
    """Each on a connection of its own; 200 is wrong for all of them."""
    with cluster(tree, 1) as alone:
        alone.start()
        port = alone.nodes[0].ports["http"]
        found = {name: told(port, head)[0][:12].decode()[9:] for name, head in HEADS.items()}
        return Seen("200" in found.values(), f"status by head: {found}")
