"""``quorate mirror`` beside a node, for tests of what reads its copy."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import QUORATE
from tests.kafka_broker import KafkaBroker


@contextmanager
def mirror(http: str, broker: KafkaBroker, topic: str, errors: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Small transactions, so that the copy's offsets have many holes; killed at the end, wherever it is."""
    words = ["mirror", "--to", broker.bootstrap, "--node", http, "--topic", topic]
    quick = ["--batch-events-max", "5", "--back-off-s", "0.2", "--transaction-timeout-s", "5"]
    with errors.open("ab") as said:
        process = subprocess.Popen([*QUORATE, *words, *quick], stdout=subprocess.DEVNULL, stderr=said)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)
