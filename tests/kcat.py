"""What happened, read back by two who had no part in it: ``kcat``, with nothing of ours in between, and the page."""

import subprocess
from typing import Any, Final, NamedTuple

from tests.browser.screen import Screen, whole
from tests.clusters import Started
from tests.peers import peer

TOPIC: Final = "quorate.metadata.events"


class Record(NamedTuple):
    """One, as ``kcat`` tells it."""

    offset: int
    type: str
    key: str
    """In its short form: ``key/a`` of ``key/default/a``."""


def records(cluster: Started) -> list[Record]:
    """To the end there is now; without kcat the test is skipped by its name."""
    nodes = ",".join(node["kafka"] for node in cluster.nodes)
    where = ["-b", nodes, "-t", TOPIC, "-p", "0", "-o", "beginning", "-e", "-X", "fetch.wait.max.ms=10"]
    command = [str(peer("kcat") / "kcat"), "-q", "-C", *where, "-f", "%o\\t%k\\t%h\\n"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = list[Record]()
    for line in done.stdout.splitlines():
        offset, key, headers = line.split("\t")
        kind = headers.partition(",type=")[2].partition(",")[0]
        found.append(Record(int(offset), kind, key.replace("/default/", "/", 1)))
    return found


def read_back(page: Screen, cluster: Started, *starts: str) -> list[dict[str, Any]]:
    """The facts whose keys begin so, in order, with their fields as the page has them. Fails if kcat finds none of one
    beginning, or the page's log has, or shows, others than kcat.
    """
    read, facts = records(cluster), list[dict[str, Any]]()
    end = len(read)
    for start in starts:
        found = [record for record in read if record.key.startswith(start)]
        assert found, f"kcat reads no {start} in {end} records"
        page.open(f"/log?q=key:{start}").passes(end - 1)
        shown = [offset for offset in map(whole, page.texts(".list .row .o")) if offset < end]
        assert shown
        assert shown == [record.offset for record in found[: -len(shown) - 1 : -1]]
        before: int | None = end
        while before is not None:
            part = page.data(f"log?q=key:{start}&before={before}&limit=1000")
            facts += part["events"]
            before = part["next"]
        told = [Record(fact["offset"], fact["type"], fact["key"]) for fact in facts[-len(found) :]]
        assert told[::-1] == found
    return sorted(facts, key=lambda fact: int(fact["offset"]))
