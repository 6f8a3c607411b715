"""The web service over a recorded log: what it refuses, how answers may be kept, and what goes out by itself."""

import asyncio
import contextlib
import gzip
import io
import json
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession, web

from quorate.errors import UsageError
from quorate.listening import ListeningLimits
from quorate_spark.dashboard import live
from quorate_spark.dashboard.answering import Panels
from quorate_spark.dashboard.live import Client, Hello, Hub, facts_since
from quorate_spark.dashboard.panels import health, quorum
from quorate_spark.dashboard.program import listen
from quorate_spark.dashboard.recorded import recorded
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.site import Site
from quorate_spark.dashboard.soft_state import NodeSoft, Soft
from tests.clusters import quorate
from tests.dashboard.lives import RECORDED, Http, Page, folded, life, plain, view
from tests.dribbling import ENDLESS, dribble

FACTS = list(recorded(RECORDED))
END = len(FACTS)
TOLD = {"Content-Type": "application/json"}
SETTINGS = Settings(recorded=RECORDED)
NEEDED = {"seek": "t=1795262500000", "diff": "from=24", "elections": "limit=1", "log": "limit=1", "quorum": f"at={END}"}
"""Parameters, of panels that need some or are asked for less."""
ASKED = {name: f"{name}?{NEEDED[name]}" if name in NEEDED else name for name in Panels(SETTINGS).routes}
GETS = [path for name, path in ASKED.items() if name not in ("diff", "quorum")] + ["quorum"]
"""All but the one whose past is called otherwise."""
ELECTION = next(fact.stamp.offset for fact in FACTS if getattr(fact.event, "trigger", "") == "master lost")

Act = Callable[[Http], Awaitable[Any]]


def served(act: Act, **settings: Any) -> Any:
    """What ``act`` does with a dashboard of the recorded log."""

    async def run() -> Any:
        service = Service(Settings(recorded=RECORDED, **settings), lambda: 0, Site(Path(__file__).parent / "no"))
        async with Http(Page(service)) as client:
            return await act(client)

    return asyncio.run(run())


async def ask(client: Http, path: str, **more: Any) -> tuple[int, Any]:
    """Status and body of a GET."""
    async with client.get(f"/api/{path}", **more) as response:
        return response.status, json.loads(await response.read())


def test_every_panel_answers_in_the_same_frame() -> None:
    """Now and in the past, an answer says which offset it reflects and where it comes from."""

    async def act(client: Http) -> None:
        for path in GETS:
            status, body = await ask(client, path)
            assert (status, body["offset"], body["source"], body["age_ms"]) == (200, END, "fold", 0), path
            joint = "&" if "?" in path else "?"
            status, body = await ask(client, f"{path}{joint}at=20")
            assert (status, body["offset"], body["age_ms"], body["node"]) == (200, 20, None, None), path
            assert body["time"] == FACTS[19].stamp.time_ms
            status, body = await ask(client, f"{path}{joint}at=0")
            assert (status, body["offset"], body["time"]) == (200, 0, None), path
        status, body = await ask(client, f"elections/{ELECTION}?at={ELECTION + 1}")
        assert (status, body["data"]["offset"], body["data"]["acks"]) == (200, ELECTION, [])
        status, body = await ask(client, f"elections/{ELECTION}")
        assert len(body["data"]["acks"]) > 1
        status, body = await ask(client, f"diff?from=10&to={ELECTION}")
        assert (status, body["offset"], body["data"]["from"]) == (200, ELECTION, 10)
        status, body = await ask(client, "streams")
        assert [stream["state"] for stream in body["data"]["streams"]] == ["recorded"]

    served(act)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("health?at=-1", 400, "invalid"),
        ("health?at=1.5", 400, "invalid"),
        ("health?at=", 400, "invalid"),
        ("health?at=٣", 400, "invalid"),
        ("health?at=9999999999999999", 400, "invalid"),
        ("health?at=1&at=2", 400, "invalid"),
        ("health?colour=red", 400, "invalid"),
        (f"health?at={END + 1}", 416, "beyond_end"),
        ("sets?name=", 400, "invalid"),
        ("sets?since=x", 400, "invalid"),
        ("keys?prefix=%25", 400, "invalid"),
        ("keys?from=a%20b", 400, "invalid"),
        ("keys?lease=x", 400, "invalid"),
        ("keys?lease=10000000000000000", 400, "invalid"),
        ("keys?flat=2", 400, "invalid"),
        ("keys?limit=1001", 400, "invalid"),
        ("keys?q=" + "a+" * 20, 400, "invalid"),
        ("keys?prefix=" + "a" * 4_097, 400, "invalid"),
        ("key?name=~41", 400, "invalid"),
        ("key?before=-1", 400, "invalid"),
        ("leases?limit=101", 400, "invalid"),
        ("leases?from=-1", 400, "invalid"),
        ("members?state=odd", 400, "invalid"),
        ("members?limit=101", 400, "invalid"),
        ("member?limit=0", 400, "invalid"),
        ("shards?level=blue", 400, "invalid"),
        ("shard?limit=501", 400, "invalid"),
        ("sessions?state=odd", 400, "invalid"),
        ("sessions?q=a b c d e f g h i j k l m n o p q", 400, "invalid"),
        ("session?limit=0", 400, "invalid"),
        ("timeline?from=2&to=1", 400, "invalid"),
        ("timeline?limit=0", 400, "invalid"),
        ("timeline?limit=99999", 400, "invalid"),
        ("timeline?show=some", 400, "invalid"),
        ("elections?before=1&after=2", 400, "invalid"),
        ("elections?first=yes", 400, "invalid"),
        ("elections/0", 404, "not_found"),
        ("elections/x", 400, "invalid"),
        (f"elections/{ELECTION}?at={ELECTION}", 404, "not_found"),
        ("log?q=term:x", 400, "invalid"),
        ("log?q=" + "a+" * 20, 400, "invalid"),
        ("log?q=" + "a" * 2000, 400, "invalid"),
        ("log?limit=1001", 400, "invalid"),
        ("density?buckets=0", 400, "invalid"),
        ("density?buckets=2001", 400, "invalid"),
        ("seek", 400, "invalid"),
        ("diff", 400, "invalid"),
        ("diff?from=5&to=4", 400, "invalid"),
        (f"diff?from={END + 1}", 400, "invalid"),
        ("diff?from=1&at=2", 400, "invalid"),
        ("streams?at=1", 400, "invalid"),
        ("announced", 400, "invalid"),
        ("announced?set=broker-a&at=1", 400, "invalid"),
        ("announced?set=broker-a", 502, "node_failed"),
        ("live?from=x", 400, "invalid"),
        ("health?at=5&key=another", 404, "not_found"),
        ("nothing", 404, "not_found"),
        ("../secret", 404, "not_found"),
    ],
)
def test_a_question_that_cannot_be_is_refused_by_name(path: str, status: int, code: str) -> None:
    """Every wrong parameter has its status and its code, and the end of the log is told to who asks beyond it."""

    async def act(client: Http) -> tuple[int, Any]:
        return await ask(client, path)

    got, body = served(act)
    assert (got, body["error"]["code"]) == (status, code)
    assert body["error"]["message"]
    assert body["error"].get("end_offset") == (END if status == 416 else None)


def test_the_past_may_be_kept_and_now_may_not() -> None:
    """An answer about the past has an ETag, is answered 304 when known, and with its key never asked for again."""

    async def act(client: Http) -> None:
        async with client.get("/api/health") as now:
            assert now.headers["Cache-Control"] == "no-store"
            assert "ETag" not in now.headers
        async with client.get("/api/health?at=7") as then:
            etag, body = then.headers["ETag"], await then.read()
            assert then.headers["Cache-Control"] == "private, no-cache"
        async with client.get("/api/health?at=7", headers={"If-None-Match": etag}) as again:
            assert (again.status, await again.read()) == (304, b"")
        async with client.get("/api/health?at=8", headers={"If-None-Match": etag}) as other:
            assert other.status == 200
        key = json.loads(await (await client.get("/api/about")).read())["data"]["key"]
        async with client.get("/api/health", params={"at": 7, "key": key}) as kept:
            assert "immutable" in kept.headers["Cache-Control"]
            assert await kept.read() == body

    served(act)


def test_answers_are_packed_for_who_can_unpack_them() -> None:
    """With gzip the same bytes come, smaller; without it they come plain."""

    async def act(client: Http) -> None:
        address = str(client.make_url("/api/log?at=40&limit=40"))
        async with ClientSession(auto_decompress=False) as session:
            async with session.get(address, headers={"Accept-Encoding": "gzip"}) as packed:
                small = await packed.read()
                assert packed.headers["Content-Encoding"] == "gzip"
                assert packed.headers["Vary"] == "Accept-Encoding"
            async with session.get(address, headers={"Accept-Encoding": "identity"}) as plain_:
                whole = await plain_.read()
                assert "Content-Encoding" not in plain_.headers
        assert gzip.decompress(small) == whole
        assert len(small) < len(whole) / 2

    served(act)


def test_every_answer_is_guarded() -> None:
    """Security headers are on answers, refusals and files; only our own address and names are served."""

    async def act(client: Http) -> None:
        for path in ("/api/health", "/api/nothing", "/", "/api/live"):
            async with client.get(path) as response:
                policy = response.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "script-src 'self';" in policy
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.headers["X-Frame-Options"] == "DENY"
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
            ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ):
            async with client.get("/api/health", headers=headers) as response:
                assert response.status == status, headers
        for kind, status in (
            ("text/plain", 415),
            ("application/x-www-form-urlencoded", 415),
            ("application/json", 502),
        ):
            told = {"Content-Type": kind}
            async with client.post("/api/whatif", data=b'{"fail": ["node/1"]}', headers=told) as response:
                assert response.status == status, kind
        for host, status in (("evil.example:80", 421), ("evil.example", 421), ("page.example", 200), ("[::1]:1", 200)):
            async with client.get("/api/health", headers={"Host": host}) as response:
                assert response.status == status, host
        async with client.post("/api/health", headers=TOLD) as response:
            assert (response.status, json.loads(await response.read())["error"]["code"]) == (405, "method_not_allowed")
        async with client.post("/api/whatif", data=io.BytesIO(b" " * (2 << 20)), headers=TOLD) as response:
            assert (response.status, json.loads(await response.read())["error"]["code"]) == (413, "too_large")

    served(act, names=("page.example",))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"fail": "node/1"}', 400),
        (b'{"fail": [], "more": 1}', 400),
        (b'{"fail": ["node/1"], "at": 100000}', 416),
        (b'{"fail": ["node/1"]}', 502),
    ],
)
def test_what_if_wants_a_question_and_a_node(body: bytes, status: int) -> None:
    """A body that is no question is refused, and a recorded log has nobody to ask."""

    async def act(client: Http) -> int:
        async with client.post("/api/whatif", data=body, headers=TOLD) as response:
            return response.status

    assert served(act) == status


def test_an_asset_is_kept_once_whatever_it_is_called(tmp_path: Path) -> None:
    """A path has any number of spellings; what is kept is as many as there are files."""
    (tmp_path / "fonts").mkdir()
    (tmp_path / "fonts/a.css").write_text("body {}")
    site = Site(tmp_path)
    for number in range(1, 200):
        for path in ("fonts" + "/" * number + "a.css", "fonts/" + "./" * number + "a.css", "fonts/../fonts/a.css"):
            found = site.asset(path)
            assert found is not None
            assert found.body == b"body {}"
    assert len(site._kept) == 1


def test_the_silent_keep_nobody_from_the_page() -> None:
    """Twice as many silent connections as there are places, and heads that do not end: every question is answered."""

    async def run() -> None:
        settings = Settings(recorded=RECORDED, port=0, listening=ListeningLimits(connections_max=20))
        service = Service(settings, lambda: 0, Site(Path(__file__).parent / "no"))
        runner = service.runner()
        listener = await listen(runner, service, settings)
        port = listener.sockets[0].getsockname()[1]
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        for one in silent[::2]:
            one.sendall(b"GET / HT")
        for _ in range(5):
            async with ClientSession() as client, client.get(f"http://127.0.0.1:{port}/api/health") as answer:
                assert answer.status == 200
        for one in silent[:20]:
            one.settimeout(5)
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b""
        for one in silent:
            one.close()
        await runner.cleanup()

    asyncio.run(run())


def test_a_body_that_dribbles_is_ended_at_its_deadline() -> None:
    """Bytes come all the while, and the question does not: the answer says so when ``body_ms`` is over, and whoever
    goes on dribbling after it is hung up on.
    """

    async def run() -> tuple[bytes, float]:
        limits = ListeningLimits(head_timeout_s=0.2, sweep_period_s=0.05)
        settings = Settings(recorded=RECORDED, port=0, body_ms=300, listening=limits)
        service = Service(settings, lambda: 0, Site(Path(__file__).parent / "no"))
        runner = service.runner()
        listener = await listen(runner, service, settings)
        loop = asyncio.get_running_loop()
        began = loop.time()
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(ENDLESS % b"/api/whatif")
        dribbling = asyncio.create_task(dribble(writer))
        rest = b""
        async with asyncio.timeout(8):
            head = await reader.readuntil(b"\r\n")
            took = loop.time() - began
            with contextlib.suppress(ConnectionError):
                while more := await reader.read(65536):
                    rest += more
        dribbling.cancel()
        writer.transport.abort()
        listener.close()
        assert service.keeper is not None
        service.keeper.close()
        await runner.cleanup()
        return head + rest, took

    answer, took = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the question did not come to its end in time" in answer
    assert took >= 0.3


def test_a_port_in_use_is_named() -> None:
    """Where somebody listens already the page does not start; the flag is named in one sentence, with no usage."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = quorate("dashboard", "--log", str(RECORDED), "--port", str(port))
    assert ended.returncode == 2
    [sentence] = ended.stderr.splitlines()
    assert sentence == (
        f"quorate: --port: cannot listen on 127.0.0.1:{port}: address already in use; "
        "end what listens there, or give another port"
    )


def parts(text: str) -> list[tuple[str, str, Any]]:
    """The events of a stream: id, name, data."""
    found = []
    for block in filter(None, text.split("\n\n")):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


def test_facts_that_cannot_be_told_are_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong while a message was made: browsers are told that they lack something, and go on after it."""

    def told(view: Any, since: int, soft: Any) -> bytes:
        if view.offset == 11:
            raise ValueError("cannot be told")
        return b"facts %d-%d" % (since, view.offset)

    async def run() -> bytes:
        view: Any = SimpleNamespace(offset=10)
        hub = Hub(Settings(coalesce_ms=0), lambda: view, lambda: None, lambda: 0)
        client = hub.join(Hello(offset=10, time=None, end_offset=10, now=0, key=""), None)
        await client.take()
        found = b""
        for view.offset in (11, 12):
            hub.taken()
            found += await client.take()
        return found

    monkeypatch.setattr(live, "facts_since", told)
    assert asyncio.run(run()) == b'id: 11\nevent: resync\ndata: {"offset":11}\n\nfacts 11-12'


def test_a_stream_without_news_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """However seldom nodes are asked, and however slowly they answer: a browser takes silence for the end."""
    monkeypatch.setattr(live, "QUIET_S", 0.05)

    async def act(client: Http) -> None:
        async with asyncio.timeout(20), client.get("/api/live") as response:
            for _ in range(2):
                await response.content.readuntil(b": here\n\n")

    served(act, poll_ms=60_000)


async def stream(client: Http, path: str, wanted: int, **headers: str) -> list[tuple[str, str, Any]]:
    """The first events of a stream."""
    async with client.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()}) as response:
        text = ""
        async with asyncio.timeout(20):
            while len(found := parts(text[: text.rfind("\n\n") + 2])) < wanted:
                text += (await response.content.readany()).decode()
        return found


def test_a_browser_that_returns_gets_what_it_missed() -> None:
    """From an offset on: hello, then every event since with the rows it changed; the same by Last-Event-ID."""

    async def act(client: Http) -> None:
        hello, facts = (await stream(client, f"/api/live?from={END - 5}", 2))[:2]
        assert (hello[1], hello[2]["offset"], facts[:2]) == ("hello", END, (str(END), "facts"))
        assert [event["offset"] for event in facts[2]["events"]] == list(range(END - 5, END))
        touched = {fact.event.broker_set for fact in FACTS[-5:] if hasattr(fact.event, "broker_set")}
        assert {row["name"] for row in facts[2]["sets"]} == touched
        assert facts[2]["health"]["sentence"]
        again = await stream(client, "/api/live", 2, Last_Event_ID=str(END - 5))
        assert again[1] == facts
        fresh = await stream(client, "/api/live", 2)
        assert [name for _, name, _ in fresh] == ["hello", "lag"]

    served(act, poll_ms=50)


def test_a_browser_that_was_away_too_long_reads_again() -> None:
    """Beyond what may be sent late, and from an offset that is not there, there is a resync."""

    async def act(client: Http) -> None:
        for since in (0, END + 50):
            found = await stream(client, f"/api/live?from={since}", 2)
            assert found[1] == (str(END), "resync", {"offset": END})

    served(act, catch_up_max=10, poll_ms=50)


def test_a_slow_browser_loses_what_waits_and_is_told() -> None:
    """The queue of a browser has a bound; when it is full all of it gives way to one resync."""

    async def run() -> bytes:
        client = Client(3)
        for number in range(4):
            client.put(b"%d " % number, lambda: b"resync ")
        client.put(b"more", lambda: b"resync ")
        return await client.take()

    assert asyncio.run(run()) == b"resync more"


def test_only_so_many_streams_are_open() -> None:
    """One more than allowed is refused as busy."""

    async def act(client: Http) -> tuple[int, Any]:
        async with client.get("/api/live") as first:
            await first.content.readany()
            return await ask(client, "live")

    status, body = served(act, clients_max=1)
    assert (status, body["error"]["code"]) == (503, "busy")


def test_only_so_many_streams_are_open_when_many_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its place before its answer begins, however slow that is."""
    prepare = web.StreamResponse.prepare

    async def slow(self: web.StreamResponse, request: web.BaseRequest) -> Any:
        await asyncio.sleep(0.05)
        return await prepare(self, request)

    async def act(client: Http) -> list[int]:
        answers = await asyncio.gather(*(client.get("/api/live") for _ in range(4)))
        for answer in answers:
            answer.close()
        return sorted(answer.status for answer in answers)

    monkeypatch.setattr(web.StreamResponse, "prepare", slow)
    assert served(act, clients_max=1) == [200, 503, 503, 503]


def test_nothing_is_answered_before_anything_was_read() -> None:
    """Without a node that answers the service says so, and still serves its page."""

    async def run() -> None:
        service = Service(Settings(nodes=("127.0.0.1:1",)), lambda: 0)
        async with Http(Page(service)) as client:
            status, body = await ask(client, "health")
            assert (status, body["error"]["code"]) == (503, "not_followed")
            status, body = await ask(client, "streams")
            assert body["data"]["streams"][0]["state"] == "connecting"

    asyncio.run(run())


def test_the_page_s_files_are_served_and_no_others(tmp_path: Path) -> None:
    """The folder's files by their names, packed where that helps; nothing outside of it, nothing of another kind."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/index.html").write_text("<p>hello</p>" * 200)
    (tmp_path / "assets/app.js").write_text("1;")
    (tmp_path / "assets/notes.py").write_text("secret")
    (tmp_path / "secret.html").write_text("secret")
    site = Site(tmp_path / "assets")
    index = site.asset("")
    assert index is not None
    assert index.kind.startswith("text/html")
    assert index.packed is not None
    assert gzip.decompress(index.packed) == index.body
    assert site.asset("app.js") is not None
    for path in (
        "../secret.html",
        "notes.py",
        "assets",
        "nothing.js",
        "/etc/passwd",
        "\0",
        "a" * 300 + ".js",
        "a/" * 3_000 + "b.js",
    ):
        assert site.asset(path) is None, path


def test_a_recorded_log_that_is_none_is_refused(tmp_path: Path) -> None:
    """The line that is wrong is named, and a file that is not there as well."""
    (tmp_path / "log.jsonl").write_text(RECORDED.read_text().splitlines()[0] + "\nnot json\n")
    with pytest.raises(UsageError, match="line 2"):
        list(recorded(tmp_path / "log.jsonl"))
    line = json.loads(RECORDED.read_text().splitlines()[0])
    (tmp_path / "log.jsonl").write_text(json.dumps(line | {"term": 1 << 63}) + "\n")
    with pytest.raises(UsageError, match=r"line 1: .*term"):
        list(recorded(tmp_path / "log.jsonl"))
    with pytest.raises(UsageError, match=r"no such file or directory$"):
        list(recorded(tmp_path / "none.jsonl"))


DOCS = Path(__file__).resolve().parents[3] / "docs/dashboard.md"
SECTION = re.compile(r"^### (GET|POST) /api/(\S+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)


def test_the_documented_answers_are_the_real_ones() -> None:
    """Each example in the docs has the very fields of the answer, one by one."""
    sections = {path: text for _, path, text in SECTION.findall(DOCS.read_text() + "\n##")}
    asked = {**ASKED, "elections/{offset}": f"elections/{ELECTION}"}
    assert asked.keys() < sections.keys()

    async def act(client: Http) -> dict[str, Any]:
        return {name: (await ask(client, path))[1]["data"] for name, path in asked.items()}

    for name, data in served(act).items():
        example = re.search(r"```json\n(.*?)```|`(\{.*?\})`", sections[name], re.DOTALL)
        assert example is not None, name
        documented = json.loads(example[1] or example[2])
        differences = list(differing(documented, data, name))
        assert not differences


LIVE_ONLY = {"live", "status", "batch"}


def differing(documented: Any, real: Any, where: str) -> Any:
    """Where names differ; a list is judged by its first element, what only live answers have is left out."""
    if isinstance(documented, dict) and isinstance(real, dict):
        if where.endswith(("counts", "types", "value", "roles", "addresses", "labels", "require")):
            return
        for name in documented.keys() ^ real.keys():
            if name not in LIVE_ONLY:
                yield f"{where}.{name} is only {'documented' if name in documented else 'real'}"
        for name in documented.keys() & real.keys():
            yield from differing(documented[name], real[name], f"{where}.{name}")
    elif isinstance(documented, list) and isinstance(real, list) and documented and real:
        yield from differing(documented[0], real[0], f"{where}[]")


def test_facts_carry_what_changed_only() -> None:
    """A message holds the rows its events touched, and labels that changed with the settings of a set."""
    log = folded(life(5, 200))
    for since in (50, 120, 190):
        seen = view(log, log.tip.offset)
        head, data = facts_since(seen, since).decode().split("data: ")
        assert head == f"id: {seen.offset}\nevent: facts\n"
        body = json.loads(data)
        assert (body["since"], body["offset"]) == (since, seen.offset)
        names = {
            name for fact in log.spool.facts(since, seen.offset) if (name := getattr(fact.event, "broker_set", ""))
        }
        labelled = {"a"} if any(e["key"] == "config/broker-set/a" for e in body["events"]) else set()
        present = {row["name"] for row in body["sets"]} | set(body["removed"])
        assert names <= present <= names | labelled
        assert body["quorum"] == plain(quorum.quorum(seen))


def test_health_that_is_pushed_rests_on_soft_state() -> None:
    """Beside facts, and each time the nodes were asked, goes out the health that a question would get: an alarm and a
    node that does not answer are in it.
    """
    soft = Soft(polled=0, nodes={2: NodeSoft(reachable=False, polled=0)}, status="…", alarms=("node 2 stopped",))

    async def run() -> None:
        service = Service(SETTINGS, lambda: 0, Site(Path(__file__).parent / "no"))
        async with Http(Page(service)) as client:
            async with asyncio.timeout(20), client.get("/api/live") as response:
                await response.content.readuntil(b"event: lag\n")
                service._recorded, service._soft.latest = None, soft

                async def asked() -> Soft:
                    return soft

                service._soft.ask_all = asked  # type: ignore[method-assign]
                await response.content.readuntil(b"event: soft\ndata: ")
                told = json.loads(await response.content.readuntil(b"\n"))
                wanted = plain(health.health(service._answering.newest(soft)))
                assert [reason["kind"] for reason in wanted["reasons"][:2]] == ["alarm", "quorum"]
                assert (told["offset"], told["health"]) == (END, wanted)
            facts = (await stream(client, f"/api/live?from={END - 1}", 2))[1]
            assert (facts[1], facts[2]["health"]) == ("facts", wanted)

    asyncio.run(run())
