"""``quorate stream`` ends soon after it is told to, whatever Spark waits for."""

import subprocess
import sys
import time

import pytest

pytest.importorskip("pyspark", reason="absent peer: pyspark (make setup-all)")

HANGING = """
import signal, threading
from quorate_spark.stream import command
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with command._ended_in_time(stop):
    print("ready", flush=True)
    threading.Event().wait()
"""


def test_a_stream_that_does_not_end_is_cut_off() -> None:
    """Within five seconds of SIGTERM, with 0 and a line that says so."""
    with subprocess.Popen((sys.executable, "-c", HANGING), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
        assert stream.stdout is not None
        assert stream.stdout.readline() == b"ready\n"
        begun = time.monotonic()
        stream.terminate()
        try:
            _, told = stream.communicate(timeout=20)
        finally:
            stream.kill()
        assert (stream.returncode, time.monotonic() - begun < 5) == (0, True)
        assert b"cut off" in told
