"""C6: a second address takes the place of a living broker as an ordinary move."""

from pathlib import Path

from tests.findings.lines import remoting
from tests.findings.tree import Seen, cluster

HERE, ELSEWHERE = "127.0.0.1:10911", "127.0.0.1:10999"


def look(tree: Path) -> Seen:
    """A broker registers, is heard, and another process registers under its id."""
    with cluster(tree, 1) as alone:
        alone.start()
        port, node = alone.nodes[0].ports["rpc"], alone.nodes[0]
        known = {"clusterName": "c", "brokerName": "b"}
        remoting(port, 1013, **known, appliedBrokerId=1, registerCheckCode="h:1;1")
        assert remoting(port, 1003, **known, brokerId=1, brokerAddress=HERE)["code"] == 0
        beat = {"brokerId": 1, "brokerAddr": HERE, "epoch": 1, "maxOffset": 0, "confirmOffset": 0}
        remoting(port, 904, **known, **beat, heartbeatTimeoutMills=10_000, electionPriority=1)
        code = remoting(port, 1003, **known, brokerId=1, brokerAddress=ELSEWHERE)["code"]
        brokers = str(node.get("/v1/brokers"))
        moved = ELSEWHERE in brokers
        return Seen(
            moved, f"1003 from elsewhere is answered {code}; the broker's address is {ELSEWHERE if moved else HERE}"
        )
