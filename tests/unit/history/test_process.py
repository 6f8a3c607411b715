"""The processes that replay, as a node has them: real ones, with nothing to replay."""

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quorate.clock import LoopScheduler
from quorate.history.process import Processes, ProcessLink
from quorate.history.replay import Begin, Done, End, Report
from quorate.history.settings import HistorySettings


class Asked:
    """Wants the state at 0 as soon as it can; what it heard."""

    def __init__(self, processes: Processes) -> None:
        self.heard: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self.gone_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        link = processes.start(self)
        assert isinstance(link, ProcessLink)
        self.link = link

    def report(self, report: Report) -> None:
        self.heard.set_result(report)

    def drained(self) -> None:
        self.link.send(Begin(0, 0, kept=False, checkpoint_events=1, states_max=1))
        self.link.send(End())

    def gone(self, reason: str) -> None:
        self.gone_for.set_result(reason)
        if not self.heard.done():
            self.heard.set_exception(RuntimeError(reason))

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self.link._process is not None
        return self.link._process


def with_processes(act: Callable[[Processes], Awaitable[None]]) -> None:
    """Run it; whatever it leaves ends."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        processes = Processes(loop, LoopScheduler(loop), HistorySettings())
        try:
            await asyncio.wait_for(act(processes), 60)
        finally:
            await processes.stop()

    asyncio.run(run())


def test_a_process_takes_nothing_from_the_directory_the_node_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the node: what lies there may be anybody's."""
    (tmp_path / "msgspec.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)

    async def act(processes: Processes) -> None:
        assert await Asked(processes).heard == Done([0])

    with_processes(act)


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_process_that_ended_is_reaped_at_once(how: str) -> None:
    """However it ended; not when the next one is started, or the node stops: that may be days."""

    async def act(processes: Processes) -> None:
        asked = Asked(processes)
        assert await asked.heard == Done([0])
        if how == "closed":
            asked.link.close()
        else:
            asked.process.send_signal(signal.SIGKILL)
            assert "ended" in await asked.gone_for
        await asyncio.sleep(0)
        await asyncio.gather(*processes._reaping)
        assert asked.process.returncode is not None
        assert await Asked(processes).heard == Done([0])

    with_processes(act)
