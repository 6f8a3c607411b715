"""B6: the page keeps an asset once for each way to spell its address, without end."""

import http.client
from pathlib import Path

from tests.bench.harness import rss_mib
from tests.clusters import free_ports
from tests.findings.tree import Seen, cluster, program

SPELLINGS, GROWN_MIB = 600, 20
FONT = "fonts{}plex-sans.woff2"


def look(tree: Path) -> Seen:
    """The same font, with one slash more each time."""
    with cluster(tree, 1) as alone:
        alone.start()
        kafka, port = f"127.0.0.1:{alone.nodes[0].ports['kafka']}", free_ports(1)
        with program(tree, "dashboard", "--nodes", kafka, "--port", str(port), "-o", "json") as page:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            before, given = rss_mib(page.pid), 0
            for slashes in range(1, SPELLINGS + 1):
                client.request("GET", "/" + FONT.format("/" * slashes))
                reply = client.getresponse()
                reply.read()
                given += reply.status == 200
            client.close()
            grown = rss_mib(page.pid) - before
    return Seen(grown > GROWN_MIB, f"{SPELLINGS} spellings of a font ({given} are served) take {grown:.0f} MiB")
