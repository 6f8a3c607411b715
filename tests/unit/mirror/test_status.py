"""A mirror says how it is."""

import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from quorate.errors import UsageError
from quorate_projections.mirror.copying import Progress
from quorate_projections.mirror.settings import MirrorSettings
from quorate_projections.mirror.status import StatusServer, line, metrics
from tests.clusters import free_ports, quorate


def test_a_port_in_use_is_named() -> None:
    """Where somebody listens already a mirror does not start; the flag is named, in one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = quorate("mirror", "--to", "127.0.0.1:1", "--port", str(port))
    assert ended.returncode == 2
    assert ended.stderr == (
        f"quorate: --port: cannot listen on 127.0.0.1:{port}: address already in use; "
        "end what listens there, or give another port\n"
    )


@pytest.mark.parametrize("wrong", [{"read_wait_s": -1.0}, {"deadline_s": 0.0}, {"batch_events_max": 0}])
def test_a_limit_that_lets_nothing_through_is_refused(wrong: dict[str, Any]) -> None:
    """A mirror that could never copy is not started."""
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be above 0"):
        MirrorSettings(**wrong)


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
