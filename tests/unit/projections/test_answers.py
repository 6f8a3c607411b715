"""What a worker answers, without Faust and sockets: pages, filters, waiting, freshness, refusals."""

import asyncio
import json
import socket
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.errors import UsageError
from quorate.flags import described
from quorate_projections import answers, command
from quorate_projections.answers import Answer, Answers
from quorate_projections.exposition import exposition
from quorate_projections.folding import Folding
from quorate_projections.generations import Busy, Generations
from quorate_projections.materialized_views import MaterializedViews
from quorate_projections.settings import ProjectionSettings, as_environment, read_settings
from quorate_projections.store import RowStore
from quorate_projections.views import VIEWS
from quorate_projections.views.routes import SetPart
from tests.clusters import quorate
from tests.projections.history import START_MS, records

COUNT = 1000


class Setup:
    """A worker's rows with a clock and an end of the log that tests move."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.now_ms = START_MS
        self.heard: tuple[int, int] | None = None
        self.materialized_views = MaterializedViews(
            ProjectionSettings(data_dir=str(folder), **settings), lambda: self.now_ms, lambda: self.heard
        )
        self.materialized_views.trouble = ""
        self.answers = Answers(self.materialized_views)

    def feed(self, first: int, last: int) -> None:
        for record in records(31, COUNT)[first:last]:
            self.materialized_views.take(record.offset, record.headers, record.value)
        self.materialized_views.saved()

    def page(self, view: str, **query: Any) -> dict[str, Any]:
        return body(self.answers.page(view, {name: str(value) for name, value in query.items()}), 200)


def body(answer: Answer, status: int) -> dict[str, Any]:
    assert answer.status == status, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[Setup]:
    world = Setup(tmp_path)
    world.feed(0, COUNT)
    yield world
    world.materialized_views.close()


def test_pages_follow_each_other_without_gap_or_overlap(world: Setup) -> None:
    """Going on after ``next``, up or down, gives every row once, in the order of the keys."""
    whole = [row["key"] for row in world.page("audit", limit=1000)["rows"]]
    assert len(whole) == COUNT
    assert whole == sorted(whole, key=str.encode)
    for order, wanted in (("asc", whole), ("desc", whole[::-1])):
        found, query = [], {"limit": 7, "order": order}
        while True:
            page = world.page("audit", **query)
            found += [row["key"] for row in page["rows"]]
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert found == wanted


def test_a_page_after_a_key_outside_its_prefix_has_what_follows_that(world: Setup) -> None:
    """From before the first, up, or from behind the last, down: all of them. On the other side nothing follows."""
    prefix = f"{12:019d}"
    whole = [row["key"] for row in world.page("audit", prefix=prefix)["rows"]]
    assert whole == [f"{prefix}{digit}" for digit in range(10)]
    for after, order, wanted in (
        (f"{3:020d}", "asc", whole),
        (f"{300:020d}", "asc", []),
        (f"{300:020d}", "desc", whole[::-1]),
        (f"{3:020d}", "desc", []),
        (prefix, "asc", whole),
        (prefix, "desc", []),
    ):
        found = world.page("audit", prefix=prefix, after=after, order=order)
        assert [row["key"] for row in found["rows"]] == wanted, (after, order)


def test_a_filter_finds_bytes_as_the_answer_shows_them() -> None:
    """A row shows bytes as base64, so that is what a query means by them; in lists too."""
    _is = answers._is
    assert _is(b"\xff\xfe", "//4=")
    assert _is((b"a", b"\xff"), "/w==")
    assert not _is(b"a", "a")
    assert not _is(b"a", "b'a'")


def test_a_page_is_bounded_in_bytes_and_in_rows_looked_at(tmp_path: Path) -> None:
    """A page ends early rather than hold the loop, and says where to go on."""
    world = Setup(tmp_path, page_bytes_max=1000, scan_max=50)
    world.feed(0, COUNT)
    assert 1 < len(world.page("audit", limit=1000)["rows"]) < 20
    filtered = world.page("audit", type="ClusterCreated")
    assert len(filtered["rows"]) <= 1
    assert filtered["next"] is not None
    world.materialized_views.close()


def test_filters_select_rows_by_their_fields(world: Setup) -> None:
    """Equal as text; a list has the value; null, true and false as JSON says them."""
    every = [row["row"] for row in world.page("broker_sets", limit=1000)["rows"]]
    some = [row["row"] for row in world.page("broker_sets", master="null")["rows"]]
    assert some == [row for row in every if row["master"] is None]
    synced = [row["row"] for row in world.page("broker_sets", sync_state_set=1)["rows"]]
    assert synced == [row for row in every if 1 in row["sync_state_set"]]
    won = [row["row"] for row in world.page("elections", elected="true", broker_set="a", limit=1000)["rows"]]
    assert won
    assert all(row["elected"] and row["broker_set"] == "a" for row in won)


@pytest.mark.parametrize("order", ["true", "false"])
def test_topics_are_selected_by_their_order(world: Setup, order: str) -> None:
    """The field has the name of the page's own order, whose words are others; no other field has a reserved name."""
    reserved = {field for view in VIEWS for field in answers._field_names(view)} & answers.RESERVED
    assert reserved == {"order"}
    every = [row["row"] for row in world.page("topics", limit=1000)["rows"]]
    some = [row["row"] for row in world.page("topics", limit=1000, order=order)["rows"]]
    assert some == [row for row in every if row["order"] == (order == "true")]
    assert "neither" in body(world.answers.page("audit", {"order": order}), 400)["error"]["message"]


def test_the_audit_is_in_the_order_of_time(world: Setup) -> None:
    """Up from the first event, down from the last, whoever caused them; an event's offset is its key."""
    principals = {row["row"]["principal"] for row in world.page("audit", limit=1000)["rows"]}
    assert len(principals) > 1
    for order, wanted in (("asc", list(range(COUNT))), ("desc", list(range(COUNT))[::-1])):
        rows = world.page("audit", order=order, limit=1000)["rows"]
        assert [row["row"]["offset"] for row in rows] == wanted
        assert [row["key"] for row in rows] == [f"{offset:020d}" for offset in wanted]
    assert body(world.answers.row("audit", f"{7:020d}"), 200)["row"]["offset"] == 7


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("principal", ["admin", "node/1", ""])
def test_the_audit_of_one_principal(tmp_path: Path, principal: str, order: str) -> None:
    """Whoever it is, also nobody: exactly that principal's events, by time, and only his rows are looked at."""
    by = [dict(record.headers)["principal"].decode() for record in records(31, COUNT)]
    wanted = [at for at, name in enumerate(by) if name == principal]
    assert 0 < len(wanted) < COUNT
    world = Setup(tmp_path, scan_max=len(wanted))
    world.feed(0, COUNT)
    page = world.page("audit", principal=principal, order=order, limit=1000)
    assert [row["row"]["offset"] for row in page["rows"]] == (wanted if order == "asc" else wanted[::-1])
    assert page["next"] is None
    first, *rest = page["rows"]
    assert world.page("audit", principal=principal, order=order, after=first["key"], limit=1000)["rows"] == rest
    assert not world.page("audit", principal=principal.partition("/")[0] + "/", limit=1000)["rows"]
    world.materialized_views.close()


def test_every_answer_is_stamped(world: Setup) -> None:
    """Offset, time and age are in every answer, also when it is a refusal."""
    last = records(31, COUNT)[-1]
    for answer in (
        world.answers.views(),
        world.answers.page("topics", {}),
        world.answers.row("topics", "nothing"),
        world.answers.page("nothing", {}),
        world.answers.ready(),
    ):
        told = json.loads(answer.body)
        assert (told["offset"], told["time_ms"], told["age_ms"] >= 0) == (COUNT, last.time_ms, True)
    assert [view["view"] for view in body(world.answers.views(), 200)["views"]] == [view.name for view in VIEWS]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"order": "up"}, "neither asc nor desc"),
        ({"nothing": "1"}, "is no field of topics"),
    ],
)
def test_a_bad_question_is_told_what_is_wrong(world: Setup, query: dict[str, str], said: str) -> None:
    """400, with the parameter's name."""
    assert said in body(world.answers.page("topics", query), 400)["error"]["message"]


def test_unknown_views_and_keys_are_not_found(world: Setup) -> None:
    """404 says which of the two it was; rows that only compose others are no rows of a view."""
    assert "no view" in body(world.answers.page("nothing", {}), 404)["error"]["message"]
    assert "no view" in body(world.answers.row("nothing", "x"), 404)["error"]["message"]
    assert "'x'" in body(world.answers.row("topics", "x"), 404)["error"]["message"]
    assert world.answers.row("routes", "../set/a").status == 404
    assert all("/" not in row["key"] for row in world.page("routes")["rows"])


def test_a_composed_row_changes_with_what_it_is_composed_of(tmp_path: Path) -> None:
    """A route is put together anew after each change of its topic or of a set, and is kept until then."""
    world, seen = Setup(tmp_path), set[str]()
    for at in range(COUNT):
        world.feed(at, at + 1)
        for topic in ("t1", "t2", "t3"):
            answer = world.answers.row("routes", topic)
            if answer.status == 200:
                again = world.answers.row("routes", topic)
                assert again.body == answer.body
                seen.add(topic + json.dumps(json.loads(answer.body)["row"]["brokerDatas"]))
    assert len(seen) > 10
    world.materialized_views.close()


def test_a_page_of_routes_reads_the_sets_once(world: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once a topic: that is the worker's only loop. Each route is as if it were asked for alone."""
    store, decoded = world.materialized_views.store, list[msgspec.Struct]()

    def decode(view: str, row: bytes) -> msgspec.Struct:
        found = RowStore.decode(store, view, row)
        decoded.append(found)
        return found

    monkeypatch.setattr(store, "decode", decode)
    routes = world.page("routes", limit=1000)["rows"]
    sets = {part.broker_set for part in decoded if isinstance(part, SetPart)}
    assert min(len(routes), len(sets)) > 1
    assert len(decoded) == len(sets)
    for route in routes:
        alone = Answers(world.materialized_views).row("routes", route["key"])
        assert body(alone, 200)["row"] == route["row"]


def test_min_offset_waits_for_the_event_or_says_504(tmp_path: Path) -> None:
    """A caller goes on as soon as its offset is reflected; one that waits in vain is told so, and where we are."""

    async def run() -> None:
        world = Setup(tmp_path, waiters_max=2)
        world.feed(0, 10)
        assert await world.answers.waited({}) is None
        assert await world.answers.waited({"min_offset": "10"}) is None
        early = asyncio.create_task(world.answers.waited({"min_offset": "11"}))
        late = asyncio.create_task(world.answers.waited({"min_offset": "13"}))
        await asyncio.sleep(0)
        busy = await world.answers.waited({"min_offset": "12"})
        assert busy is not None
        assert busy.status == 429
        world.feed(10, 12)
        assert await early is None
        assert not late.done()
        world.feed(12, 13)
        assert await late is None
        vain = await world.answers.waited({"min_offset": "99", "wait_ms": "1"})
        assert vain is not None
        assert body(vain, 504)["offset"] == 13
        bad = await world.answers.waited({"min_offset": "-1"})
        assert bad is not None
        assert bad.status == 400
        assert world.materialized_views.waiting == 0
        world.materialized_views.close()

    asyncio.run(run())


def test_age_is_the_time_since_the_rows_were_all_there_was(tmp_path: Path) -> None:
    """It grows while a node is silent and while events are missing; word that nothing is missing sets it back."""
    world = Setup(tmp_path)
    world.feed(0, 20)
    last_ms = records(31, COUNT)[19].time_ms
    world.now_ms = last_ms + 500
    assert world.materialized_views.age_ms == 500  # Never heard: as old as the last event.
    world.heard = (20, world.now_ms)
    assert world.materialized_views.age_ms == 0
    world.now_ms += 70
    assert world.materialized_views.age_ms == 70
    world.heard = (25, world.now_ms)
    assert world.materialized_views.age_ms == 70  # Five are missing.
    world.feed(20, 25)
    assert world.materialized_views.age_ms == 0
    world.materialized_views.close()


def test_ready_says_no_and_why(tmp_path: Path) -> None:
    """Not before a node was heard, not far behind, not in silence, not while standing still."""
    world = Setup(tmp_path, ready_lag_max=3, ready_age_max_s=1.0)

    def health(status: int) -> str:
        return str(body(world.answers.ready(), status)["reason"])

    assert "no node has answered" in health(503)
    world.feed(0, 20)
    world.now_ms = records(31, COUNT)[19].time_ms
    world.heard = (24, world.now_ms)
    assert health(503) == "4 events behind"
    world.heard = (23, world.now_ms)
    assert health(200) == ""
    world.now_ms += 1001
    assert health(503) == "no word of a node for 1001 ms"
    world.heard = (23, world.now_ms)
    world.materialized_views.folding.fail("because")
    assert health(503) == "stands still at 20: because"
    assert "quorate_projections_failed 1\n" in exposition(world.materialized_views, world.answers)
    world.materialized_views.close()


def test_a_mirror_s_markers_are_not_missing_events(tmp_path: Path) -> None:
    """What the audit found to be markers only does not count as lag."""
    world = Setup(tmp_path)
    world.feed(0, 20)
    world.heard = (30, START_MS)
    assert world.materialized_views.missing() == 10
    world.materialized_views.passed = 30
    assert world.materialized_views.missing() == 0
    world.materialized_views.close()


def test_a_switch_serves_the_other_rows_and_removes_the_old(tmp_path: Path) -> None:
    """Another generation's rows are served from the switch on, whoever waited for their offset goes on."""

    async def run() -> None:
        world = Setup(tmp_path)
        world.feed(0, 20)
        waiting = asyncio.create_task(world.answers.waited({"min_offset": "25"}))
        await asyncio.sleep(0)
        folding = Folding(world.materialized_views.open("g000002"))
        for record in records(31, COUNT)[:30]:
            folding.take(record.offset, record.headers, record.value)
        world.materialized_views.switch("g000002", folding)
        assert await waiting is None
        assert world.page("audit")["offset"] == 30
        assert not (tmp_path / "g000001").exists()
        world.materialized_views.close()

    asyncio.run(run())


def test_a_worker_removes_the_generations_before_its_own(tmp_path: Path) -> None:
    """When it begins again, because only then it had the folds of the rebuild; and those that it skipped."""
    Setup(tmp_path).materialized_views.close()
    generations = Generations(tmp_path)
    (tmp_path / "g000004").mkdir()  # A rebuild is under way.
    generations.switch("g000003")
    world = Setup(tmp_path)
    assert sorted(found.name for found in tmp_path.glob("g*")) == ["g000003", "g000004"]
    folding = Folding(world.materialized_views.open("g000005"))
    world.materialized_views.switch("g000005", folding)
    assert [found.name for found in tmp_path.glob("g*")] == ["g000005"]
    world.materialized_views.close()


def test_generations_follow_each_other_and_are_locked(tmp_path: Path) -> None:
    """The current one is named by a file; one server and one rebuild at a time."""
    generations = Generations(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*\n"
    assert (generations.current, generations.fresh()) == ("g000001", "g000002")
    (tmp_path / "g000002").mkdir()
    assert generations.fresh() == "g000002"
    assert not (tmp_path / "g000002").exists()
    generations.switch("g000002")
    assert (generations.current, generations.fresh()) == ("g000002", "g000003")
    with generations.lock("serving"), generations.lock("rebuild"), pytest.raises(Busy, match=r"serving\.lock"):
        generations.lock("serving")
    generations.lock("serving").close()


def test_two_workers_cannot_share_a_directory(tmp_path: Path) -> None:
    """The second one is refused before it opens anything."""
    world = Setup(tmp_path)
    with pytest.raises(Busy, match="another process"):
        Setup(tmp_path)
    world.materialized_views.close()


def test_settings_come_from_the_environment_under_flags() -> None:
    """Texts become values; flags win; what gives a setting its variable gives it its flag."""
    environ = {"QUORATE_PROJECTIONS_PORT": "9001", "QUORATE_PROJECTIONS_NODES": "a:1,b:2", "OTHER": "x"}
    settings = read_settings(environ, {"port": "9002", "insecure": "true", "host": "0.0.0.0"})
    assert (settings.port, settings.bootstrap, settings.insecure) == (9002, ["a:1", "b:2"], True)
    assert read_settings(as_environment(settings)) == settings
    assert ["node", *described(ProjectionSettings)] == [*ProjectionSettings.__struct_fields__]
    assert read_settings({"QUORATE_PROJECTIONS_MIRROR": "k:9092"}).bootstrap == ["k:9092"]


def test_the_nodes_are_those_of_the_flag_else_of_the_worker_else_of_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``--node`` is the flag of every command; the worker's own variable goes before the common one."""

    def node(*words: str) -> str:
        parser = ArgumentParser()
        command.arguments(parser)
        return command._settings(parser.parse_args(["serve", *words])).node

    monkeypatch.setenv("QUORATE_NODE", "h:1")
    assert node() == "h:1"
    monkeypatch.setenv("QUORATE_PROJECTIONS_NODE", "h:2")
    assert (node(), node("--node", "h:3")) == ("h:2", "h:3")


def test_every_problem_with_the_settings_is_told_at_once() -> None:
    """Unknown names with a suggestion, values that cannot be."""
    environ = {"QUORATE_PROJECTIONS_PROT": "1", "QUORATE_PROJECTIONS_SAVE_EVERY": "0"}
    with pytest.raises(UsageError) as raised:
        read_settings(environ, {"port": "x"})
    assert "prot: unknown setting; did you mean port?" in str(raised.value)
    assert "save_every" in str(raised.value)
    assert "port: Expected `int`" in str(raised.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"nodes": "a"}, "'a' is not HOST:PORT"),
        ({"node": ""}, "'' is not HOST:PORT"),
        ({"mirror": "a:b"}, "mirror: 'a:b'"),
        ({"host": "10.0.0.1"}, "not loopback"),
    ],
)
def test_contradicting_settings_are_refused(flags: dict[str, str], said: str) -> None:
    """What the types alone cannot say is checked too."""
    with pytest.raises(UsageError, match=said):
        read_settings({}, flags)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """Where somebody listens already a worker does not start; the flag is named, in one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = quorate("projections", "serve", "--data-dir", str(tmp_path / "views"), "--port", str(port))
    assert ended.returncode == 2
    assert ended.stderr == (
        f"quorate: --port: cannot listen on 127.0.0.1:{port}: address already in use; "
        "end what listens there, or give another port\n"
    )
    assert not (tmp_path / "views").exists()
