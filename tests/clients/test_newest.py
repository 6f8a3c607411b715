"""A client that knows only versions with compact encodings and topic ids reads the log, and goes on in its group."""

import subprocess
from pathlib import Path

from tests.kafka_tools.fakes import TOPIC, ServedLog
from tests.peers import PEERS, peer

DRIVER = Path(__file__).resolve().parent / "platformatic/consume.mjs"


def read(bootstrap: str, count: int) -> list[int]:
    """So many offsets, as a member of the one group."""
    package = PEERS / "platformatic/node_modules/@platformatic/kafka/dist/index.js"
    words = (str(PEERS / "node/programs/node"), str(DRIVER), str(package), bootstrap, TOPIC, "newest", str(count))
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return list(map(int, done.stdout.split()))


def test_platformatic_reads_by_topic_id_and_resumes_where_it_stopped() -> None:
    """Every event once, in order; a second run in the same group goes on after what the first committed."""
    peer("node")
    peer("platformatic")
    with ServedLog() as served:
        served.append(100, 3)
        assert read(served.bootstrap, 200) == list(range(200))
        assert read(served.bootstrap, 50) == list(range(200, 250))
        asked = {int(api): version for api, version in sorted(served.metrics[0].kafka_requests)}
        assert (asked[1], asked[3], asked[8], asked[10]) == (17, 12, 9, 6)
        assert not served.metrics[0].peer_errors
