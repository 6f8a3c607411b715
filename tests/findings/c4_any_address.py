"""C4: any text is taken as a broker's address, and the controller connects to it."""

from pathlib import Path

from tests.findings.lines import remoting
from tests.findings.tree import Seen, cluster

TEXT = "no address\r\nGET / HTTP/1.1"


def look(tree: Path) -> Seen:
    """1013, then 1003 with a text."""
    with cluster(tree, 1) as alone:
        alone.start()
        port = alone.nodes[0].ports["rpc"]
        known = {"clusterName": "c", "brokerName": "b"}
        remoting(port, 1013, **known, appliedBrokerId=1, registerCheckCode="h:1;1")
        code = remoting(port, 1003, **known, brokerId=1, brokerAddress=TEXT)["code"]
        return Seen(code == 0, f"1003 with {TEXT!r} is answered {code}")
