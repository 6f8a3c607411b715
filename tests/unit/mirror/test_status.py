"""A mirror says how it is."""

import json
import urllib.error
import urllib.request

import pytest

from quorate_projections.mirror.copying import Progress
from quorate_projections.mirror.status import StatusServer, line, metrics
from tests.clusters import free_ports


def test_line_holds_the_lag() -> None:
    """The log line is JSON with the state and the lag."""
    told = json.loads(line(Progress("copying", position=5, end=9)))
    assert told["lag"] == 4
    assert told["mirror"]["state"] == "copying"


def test_metrics_are_one_figure_each() -> None:
    """Each figure is there once; exactly one state is 1."""
    lines = metrics(Progress("failed", position=5, end=9, commits=2, failures=1)).splitlines()
    assert "quorate_mirror_lag 4" in lines
    assert [text for text in lines if text.endswith("} 1")] == ['quorate_mirror_state{state="failed"} 1']


@pytest.mark.parametrize(("state", "status"), [("copying", 200), ("standing by", 200), ("failed", 503)])
def test_ready_says_no_after_a_failure(state: str, status: int) -> None:
    """``/ready`` is 503 when the copy failed; an unknown path is 404."""
    port = free_ports(1)
    server = StatusServer("127.0.0.1", port, lambda: Progress(state))  # type: ignore[arg-type]
    try:
        assert _status(port, "/ready") == status
        assert _status(port, "/nothing") == 404
        assert _status(port, "/metrics") == 200
    finally:
        server.close()


def _status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
