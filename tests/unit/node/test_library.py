"""The node as a library: what a program that embeds one may rely on."""

import asyncio
import gc
import os
import shutil
import stat
import subprocess
import sys
import time
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from quorate.cli.cluster import found
from quorate.cli.member import adopt
from quorate.consensus.raft.engine import GuardedEngine
from quorate.consensus.storage.directory import decode_voter
from quorate.consensus.storage.disk import FileVoterFile
from quorate.controller import Answered, Caller, Outcome, ReadView, Refused
from quorate.errors import AddressError, DirectoryInUseError, StorageError, UsageError
from quorate.events import ClusterCreated, Event, NodeStarted, Stamp, TopicCreated
from quorate.metadata.commands import Accepted, Command, FenceBroker, PutTopic, RaiseFeatureLevel
from quorate.node import Node
from quorate.node.compose import Core
from quorate.node.gateways import unready
from quorate.node.node import NotReadyError
from quorate.node.settings import LISTENERS, NodeSettings, SettingsError, build, read_settings
from tests.clusters import free_ports
from tests.unit.consensus.test_peers import until

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs/examples/embedded.py"
TOPIC = PutTopic(topic="orders", read_queues=4, write_queues=4, permission=6)

FENCE = FenceBroker(
    cluster="c", broker_set="none", broker_id=1, evidence="shut down", last_heartbeat_ms=0, detected_ms=0
)


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    """Of a lone node."""
    [place] = found(tmp_path, 1, free_ports(10))
    return read_settings(place.config, {}, {"cluster.id": "c"})


def within(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run it; it must end in time."""

    async def run() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(run())


def listening(settings: NodeSettings) -> dict[str, bool]:
    """Which of its addresses somebody answers on."""

    async def answers(name: str) -> bool:
        try:
            _, writer = await asyncio.open_connection(*settings.bind(name))  # type: ignore[arg-type]
        except OSError:
            return False
        writer.close()
        return True

    async def all_of_them() -> dict[str, bool]:
        return {name: await answers(name) for name in LISTENERS}

    return asyncio.run(all_of_them())


def test_a_disk_with_too_little_free_is_noticed_by_the_node_itself(settings: NodeSettings) -> None:
    """Its floor is above what the volume has: what grows is refused with the alarm's sentence; the rest goes on."""
    floor = shutil.disk_usage(Path(settings.node.data_dir).parent).total + 1
    short = msgspec.structs.replace(
        settings, controller=msgspec.structs.replace(settings.controller, free_space_floor_bytes=floor)
    )

    async def scenario() -> None:
        async with Node(short) as node:
            await node.ready()
            space = node.core.controller.space
            await until(space.alarms)
            refused = await node.submit(TOPIC)
            assert isinstance(refused, Refused)
            assert (refused.refusal.code, refused.refusal.remark) == ("NoRoom", space.alarms()[0])
            assert isinstance(await node.submit(FENCE), Answered)

    within(scenario)


def test_a_directory_open_to_others_is_closed_at_the_start(settings: NodeSettings) -> None:
    """The folder and the journal of an older build; and the node says so."""
    data = Path(settings.node.data_dir)
    (data / "journal").mkdir(parents=True)
    for folder in (data, data / "journal"):
        folder.chmod(0o755)

    async def scenario() -> None:
        with capture_logs() as lines:
            async with Node(settings) as node:
                await node.ready()
        assert [line for line in lines if line["event"].startswith("data was open to other users")]

    within(scenario)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (data, data / "journal")} == {0o700}


def test_what_a_node_makes_is_its_owner_s_alone_whatever_the_umask(settings: NodeSettings, tmp_path: Path) -> None:
    """Folders above its own too. The host's umask stays as it is; a store's files are RocksDB's, and its folder is
    closed. So the next start finds nothing that was open, and has nothing to say.
    """
    data = tmp_path / "above" / "data"
    here = msgspec.structs.replace(settings, node=msgspec.structs.replace(settings.node, data_dir=str(data)))

    async def scenario() -> None:
        for _ in range(2):
            with capture_logs() as lines:
                async with Node(here) as node:
                    await node.ready()
                    assert isinstance(await node.submit(TOPIC), Answered)
            assert not [line for line in lines if line["event"].startswith("data ")]

    before = os.umask(0)
    try:
        within(scenario)
    finally:
        assert os.umask(before) == 0
    made = [data.parent, data, *(path for path in data.rglob("*") if path.parent != data / "store")]
    assert {"journal", "store", "lock", "voter.json"} <= {path.name for path in made}
    assert [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_the_example_of_the_documents_runs(tmp_path: Path) -> None:
    """What the first page shows works as it stands, twice with the same folder; and it is short."""
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    command = [sys.executable, str(EXAMPLE), str(tmp_path), str(free_ports(10))]
    for life in (1, 2):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        lines = ended.stdout.splitlines()
        assert lines[0].startswith("ready; ask it:")
        assert "topics: orders" in lines
        told = [line.split()[-1] for line in lines]
        assert [told.count(name) for name in ("ClusterCreated", "ControllerLeaderElected", "TopicCreated")] == [
            1,
            life,
            1,
        ]


def test_a_further_build_founds_at_the_level_of_the_first(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that knows level 2 founds at 1, which every build of the cluster reads; 2 comes when it is asked for."""
    for module in ("quorate.metadata.cluster", "quorate.node.running"):
        monkeypatch.setattr(f"{module}.FEATURE_MAX", 2)

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            founded = started = None
            async for _, event in node.events():
                if isinstance(event, ClusterCreated):
                    founded = event.feature_level
                elif isinstance(event, NodeStarted):
                    started = event.feature_max
                    break
            assert (founded, started) == (1, 2)
            assert isinstance(await node.submit(RaiseFeatureLevel(level=2)), Answered)
            view = await node.read()
            assert isinstance(view, ReadView)
            assert view.state.feature_level == 2

    within(scenario)


def test_a_command_is_answered_read_back_and_followed(settings: NodeSettings) -> None:
    """It is committed when it is answered, a linearizable read sees it, and whoever follows gets each event once, old
    and new, in the order of the log; the stop ends the following.
    """
    followed: list[tuple[Stamp, Event]] = []

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            assert (node.serving, node.leads) == (True, True)

            async def follow() -> None:
                followed.extend([found async for found in node.events(0)])

            following = asyncio.create_task(follow())
            await asyncio.sleep(0)  # It has begun, and waits at the end of the log.
            outcome = await node.submit(TOPIC, principal="me")
            assert isinstance(outcome, Answered)
            view = await node.read()
            assert isinstance(view, ReadView)
            assert list(view.state.topics) == ["orders"]
            assert view.offset >= outcome.offset  # The node's own start may have been recorded meanwhile.
        assert not node.serving
        await following

    within(scenario)
    assert [stamp.offset for stamp, _ in followed] == list(range(len(followed)))
    assert isinstance(followed[0][1], ClusterCreated)
    assert [stamp.principal for stamp, event in followed if isinstance(event, TopicCreated)] == ["me"]


def test_what_another_node_decided_is_applied_here_when_it_is_answered(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer may be here before it: whoever then looks at this node's own state finds what was written. Here it is
    told ten events too early, and they come a little later.
    """

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            core, commands = node.core, node.running.gateways.commands

            def told_early(command: Command, caller: Caller, done: Callable[[Outcome], None], **_: Any) -> None:
                done(Answered(Accepted(), core.controller.offset + 10))
                for number in range(10):
                    topic = msgspec.structs.replace(TOPIC, topic=f"t{number}")
                    later = partial(core.controller.submit, topic, caller, lambda _: None)
                    asyncio.get_running_loop().call_later(0.05, later)

            monkeypatch.setattr(commands, "submit", told_early)
            outcome = await node.submit(TOPIC)
            assert isinstance(outcome, Answered)
            assert core.controller.offset >= outcome.offset

    within(scenario)


@pytest.mark.parametrize("beside", [True, False], ids=["from the disk", "from memory"])
def test_whoever_follows_a_long_log_lets_other_work_go_on(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    """Also who does nothing but take what comes: after each piece the loop has a turn; old ones are read beside it."""
    monkeypatch.setattr("quorate.node.node.READ_BYTES", 1)
    if beside:
        event_log = msgspec.structs.replace(settings.storage.event_log, tail_batches=2)
        storage = msgspec.structs.replace(settings.storage, event_log=event_log)
        settings = msgspec.structs.replace(settings, storage=storage)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            for number in range(30):
                assert isinstance(await node.submit(msgspec.structs.replace(TOPIC, topic=f"t{number}")), Answered)
            end, working, seen = node.core.controller.offset, asyncio.create_task(other()), 0
            async for stamp, _ in node.events():
                assert stamp.offset == seen
                seen += 1
                if seen == end:
                    break
            working.cancel()

    within(scenario)
    assert turns >= 30


def test_what_is_asked_over_grpc_names_what_keeps_a_node_from_being_ready(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ready while it has caught up, and not otherwise; each reason is a sentence."""

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            assert unready(node.running) == ""
            with monkeypatch.context() as behind:
                behind.setattr(GuardedEngine, "caught_up", False)
                assert unready(node.running) == "this node has not caught up with what is committed"
            assert unready(node.running) == ""
        assert unready(node.running) == "this node is not serving"

    within(scenario)


@pytest.mark.parametrize("how", ["copied", "voter.json lost"])
def test_a_lone_node_whose_directory_was_copied_says_how_it_goes_on(
    settings: NodeSettings, tmp_path: Path, how: str
) -> None:
    """Nothing is missing, and nothing is to be thrown away: the command that lets it go on is named. A lost voter file
    is named as what is lost.
    """

    async def life() -> None:
        async with Node(settings) as node:
            await node.ready()

    within(life)
    data = Path(settings.node.data_dir)
    if how == "copied":
        shutil.copytree(data, tmp_path / "copy")
        shutil.rmtree(data)
        (tmp_path / "copy").rename(data)
    else:
        (data / "voter.json").unlink()
    with pytest.raises(UsageError, match=r"quorate member adopt --data-dir DIR") as raised:
        within(life)
    assert ("voter.json was missing" in str(raised.value)) == (how != "copied")
    assert "journal directory" not in str(raised.value)
    if how == "copied":
        adopt(FileVoterFile(str(data)))
        within(life)


def test_a_node_that_has_stopped_is_let_go(settings: NodeSettings) -> None:
    """A program may start and stop many: nothing of one that decided, and has stopped, stays in memory."""
    seen: list[weakref.ref[Core]] = []

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            assert isinstance(await node.submit(TOPIC, request_id=f"{time.time_ns() // 10**6}-a"), Answered)
            assert isinstance(await node.read(), ReadView)
            seen.append(weakref.ref(node.core))

    within(scenario)
    gc.collect()
    assert [one() for one in seen] == [None]


def test_an_offset_beyond_the_log_is_refused_by_name(settings: NodeSettings) -> None:
    """Nobody waits for what may never be meant."""

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            with pytest.raises(UsageError, match="offset 1000 is not in"):
                await anext(node.events(1000))

    within(scenario)


def test_bad_settings_are_named_before_anything_is_there(tmp_path: Path) -> None:
    """All of them at once; no directory is made."""
    with pytest.raises(SettingsError) as raised:
        build({"node": {"id": 1, "data_dir": "data", "colour": "red"}}, {}, {}, tmp_path)
    assert len(raised.value.problems) >= 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("listener", LISTENERS)
def test_an_address_in_use_leaves_nothing_behind(
    settings: NodeSettings, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the address and the listener. The core never started: it has decided nothing. Nothing of the node
    listens, its directory is free, and the same settings start once the address is. It was no life: who had a thousand
    of them would not know the one that the others met.
    """

    async def scenario() -> None:
        host, port = settings.bind(listener)  # type: ignore[arg-type]
        other = await asyncio.start_server(lambda *_: None, host, port)
        with monkeypatch.context() as patched:
            patched.setattr(Core, "start", lambda *_: pytest.fail("the core started"))
            with pytest.raises(AddressError, match=rf"listeners\.{listener}: cannot listen on {host}:{port}: "):
                await Node(settings).start()
        content = FileVoterFile(settings.node.data_dir).read()
        voter = content and decode_voter(content.data)
        assert voter and (voter.begun, voter.lives) == (True, ())
        assert len(asyncio.all_tasks()) == 1
        other.close()
        await other.wait_closed()

    within(scenario)
    assert not any(listening(settings).values())

    async def again() -> None:
        async with Node(settings) as node:
            await node.ready()

    within(again)


def test_the_directory_of_another_process_is_left_alone(settings: NodeSettings, tmp_path: Path) -> None:
    """Two nodes never write one directory; the first goes on."""
    first_port = free_ports(10)
    voter = msgspec.structs.replace(
        settings.me, **{name: f"127.0.0.1:{first_port + k}" for k, name in enumerate(LISTENERS)}
    )
    elsewhere = msgspec.structs.replace(settings, cluster=msgspec.structs.replace(settings.cluster, voters=(voter,)))

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            with pytest.raises(DirectoryInUseError, match="in use by another node"):
                await Node(elsewhere).start()
            assert isinstance(await node.submit(TOPIC), Answered)

    within(scenario)


def test_a_node_is_started_once_and_stopped_as_often_as_one_likes(settings: NodeSettings) -> None:
    """Before the start there is nothing to ask, and nothing half built; a second stop does nothing."""

    async def scenario() -> None:
        node = Node(settings)
        await node.stop()
        with pytest.raises(UsageError, match="has not started"):
            await node.read()
        async with node:
            with pytest.raises(UsageError, match="started already"):
                await node.start()
        await node.stop()

    within(scenario)
    assert not any(listening(settings).values())


def test_a_directory_can_be_had_again_whatever_the_node_was_reading(settings: NodeSettings) -> None:
    """It stops while it sends its state to another, and the program still holds it: the next one has its store."""

    async def scenario() -> None:
        async with Node(settings) as node:
            await node.ready()
            rows = node.core.store.scan("rows")
            next(rows)
        async with Node(settings) as again:
            await again.ready()
        with pytest.raises(StorageError):
            next(rows)

    within(scenario)


def waits_for_a_successor(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of three does that leads."""
    monkeypatch.setattr(node.core.engine, "transfer_leadership", lambda: True)
    monkeypatch.setattr("quorate.node.running.HANDOVER_PATIENCE_S", 0.1)


def test_a_stop_that_is_called_off_goes_on_and_every_caller_waits_for_its_end(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory and the addresses are free for another node when any of them returns."""

    async def life() -> None:
        node = Node(settings)
        await node.start()
        await node.ready()
        waits_for_a_successor(node, monkeypatch)
        first = asyncio.create_task(node.stop())
        await until(lambda: not node.serving)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await asyncio.gather(node.stop(), node.stop())
        await node.stop()

    async def scenario() -> None:
        await life()
        await life()

    within(scenario)


def test_a_loop_that_ends_takes_the_node_down(settings: NodeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks are called off, the stop's own too: it hands nothing over, and closes all."""
    stopping: list[asyncio.Task[None]] = []

    async def left_behind() -> None:
        node = Node(settings)
        await node.start()
        await node.ready()
        waits_for_a_successor(node, monkeypatch)
        stopping.append(asyncio.create_task(node.stop()))
        await until(lambda: not node.serving)

    async def again() -> None:
        async with Node(settings) as node:
            await node.ready()

    within(left_behind)
    assert stopping[0].cancelled()
    within(again)


def test_a_node_without_a_majority_says_that_it_is_not_ready(tmp_path: Path) -> None:
    """Whoever waits is told in time, with what is missing."""
    place, *_ = found(tmp_path, 3, free_ports(30))
    lonely = read_settings(place.config, {}, {"cluster.id": "c"})

    async def scenario() -> None:
        async with Node(lonely) as node:
            with pytest.raises(NotReadyError, match=r"."):
                await node.ready(timeout_s=0.5)

    within(scenario)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_every_line_of_the_log_names_its_node(run: Callable[..., None], tmp_path: Path) -> None:
    """Also that of a part that knows of no node, and with three in one process: each line has the one it is of."""
    places = found(tmp_path, 3, free_ports(30))
    one, two, three = (Node(read_settings(place.config, {}, {"cluster.id": "c"})) for place in places)

    async def refused(node: Node) -> None:
        reader, writer = await asyncio.open_connection(*node.settings.bind("raft"))
        writer.write(bytes(64))
        assert await reader.read() is not None
        writer.close()

    async def scenario() -> None:
        async with asyncio.timeout(30), one, two, three:
            await asyncio.gather(one.ready(), two.ready(), three.ready())
            for node in (three, one, two):
                await refused(node)
            leader = next(node for node in (one, two, three) if node.leads)
            leader.running.scheduler.call_soon(lambda: structlog.get_logger().info("asked for by somebody"))

    with capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        run(scenario())
    assert [line for line in logged if "node" not in line] == []
    lines = [line for line in logged if line["event"] == "peer connection refused" and line["reason"] == "malformed"]
    assert [line["node"] for line in lines if "peer" not in line] == [3, 1, 2]


def test_a_node_that_failed_decides_and_reads_nothing(settings: NodeSettings) -> None:
    """From that moment, whatever the program around it does next: what it has in memory may be wrong."""

    async def scenario() -> None:
        node = Node(settings)
        await node.start()
        try:
            await node.ready()
            await node.submit(TOPIC)
            node.fail(StorageError("the state is wrong"))
            assert (node.serving, node.core.engine.decidable_term()) == (False, 0)
            assert not isinstance(await node.submit(FENCE, timeout_s=1), Answered | Refused)
            assert not isinstance(await node.read(timeout_s=1), ReadView)
            with pytest.raises(NotReadyError, match="the node failed: the state is wrong"):
                await node.ready()
        finally:
            await node.stop(handover=False)

    within(scenario)


def test_a_failure_ends_the_following_with_its_reason(settings: NodeSettings) -> None:
    """Who follows the log learns that it is over because the node failed."""

    async def scenario() -> None:
        node = Node(settings)
        await node.start()
        try:
            await node.ready()
            asyncio.get_running_loop().call_later(0.05, node.fail, StorageError("the disk"))
            with pytest.raises(StorageError, match="the disk"):
                async for _ in node.events(0):
                    pass
            assert str(await node.wait_failed()) == "the disk"
        finally:
            await node.stop(handover=False)

    within(scenario)
