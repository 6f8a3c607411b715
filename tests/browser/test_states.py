"""What a panel shows while its data is not there: loading, empty, behind, disconnected, failed; good data stays."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route

from tests.browser import sample_log
from tests.browser.screen import Screen
from tests.browsers import address, context
from tests.clusters import free_ports, running, start

UNREADABLE = {"error": {"code": "busy", "message": "too much replay is waiting; try again"}}


@pytest.fixture
def faulty(chromium: Browser, recorded: str) -> Iterator[Screen]:
    """A window in which requests fail on purpose: only uncaught errors count."""
    opened = context(chromium)
    shown = Screen(opened.new_page(), recorded)
    yield shown
    opened.close()
    assert not [error for error in shown.errors if error.startswith("uncaught")]


def failing(route: Route) -> None:
    route.fulfill(status=503, content_type="application/json", body=json.dumps(UNREADABLE))


def test_loading_shows_bones_in_the_final_shape(faulty: Screen) -> None:
    """Until the first answer every panel has its heading and a skeleton, and says that it reads."""
    held: list[Route] = []
    faulty.page.route("**/api/sets*", lambda route: held.append(route))  # noqa: PLW0108  Playwright marks what it calls.
    faulty.page.goto(f"{faulty.url}#/now")
    faulty.page.locator("#p-map .skeleton").wait_for()
    assert "reading" in faulty.text("#p-map .right")
    faulty.page.locator("#p-quorum .q").wait_for()
    while held:
        held.pop().continue_()
    faulty.page.locator("#p-map .tile").first.wait_for()


def test_a_panel_that_fails_takes_no_other_with_it(faulty: Screen) -> None:
    """Without any data a panel says what answered what, offers another try, and the others stay; the try mends it."""
    faulty.page.route("**/api/quorum*", failing)
    faulty.page.goto(f"{faulty.url}#/now")
    panel = faulty.page.locator("#p-quorum")
    panel.get_by_role("alert").wait_for()
    said = " ".join(panel.inner_text().split())
    assert "api/quorum answered 503" in said
    assert "too much replay is waiting" in said
    faulty.page.locator("#p-map .tile").first.wait_for()
    assert faulty.page.locator(".failed").count() == 1
    panel.get_by_role("button", name="Copy details").click()
    faulty.until("() => document.querySelector('#toast').classList.contains('on')")
    assert "503 busy api/quorum" in faulty.copied()
    panel.get_by_role("button", name="Try again").wait_for()
    faulty.page.unroute("**/api/quorum*")
    faulty.page.evaluate("() => document.querySelector('[data-do=retry]')?.click()")  # Unless it has tried itself.
    panel.locator(".q").wait_for()


def test_good_data_stays_when_the_next_answer_fails(faulty: Screen) -> None:
    """At another offset whose answer fails, the last good data stays under its own stamp, with one line above it."""
    faulty.open("/sets?at=600")
    faulty.page.route("**/api/sets*", failing)
    faulty.page.evaluate("() => { location.hash = '/sets?at=601'; }")
    alert = faulty.page.locator("#p-sets").get_by_role("alert")
    alert.wait_for()
    assert "Below is offset 600" in " ".join(alert.inner_text().split())
    assert faulty.page.locator(".sets tbody tr").count() == 24
    assert faulty.stamps() == {600}


def test_an_alarm_of_a_node_is_the_sentence_and_the_first_reason(faulty: Screen) -> None:
    """A node's words, whole: no link to a set, no event it came of."""
    alarm = "node 2 stopped: its state was wrong at index 7: a reason"

    def alarmed(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        told["data"] |= {"level": "unhealthy", "sentence": f"Alarm: {alarm}."}
        told["data"]["reasons"].insert(0, {"kind": "alarm", "keys": [], "text": alarm, "since": None, "offset": None})
        route.fulfill(response=answer, json=told)

    faulty.page.route("**/api/health*", alarmed)
    faulty.open("/now")
    assert faulty.text("#p-health .big") == f"Unhealthy: Alarm: {alarm}."
    assert faulty.text("#p-health .reasons tr") == alarm
    assert not faulty.page.locator("#p-health .reasons tr").first.locator("a").count()
    assert faulty.page.locator("#p-health .reasons tr").first.locator("svg.lost-c").count() == 1


def test_an_offset_beyond_the_end_is_said_whatever_else_is_answered(faulty: Screen) -> None:
    """What was asked of now may be answered after what was refused: the page still says where the log ends."""
    held: list[Route] = []
    faulty.page.route("**/api/density*", lambda route: held.append(route))  # noqa: PLW0108  Playwright marks what it calls.
    with faulty.page.expect_response(lambda reply: reply.status == 416):
        faulty.page.goto(f"{faulty.url}#/now?at={faulty.data('about')['end_offset'] + 100}")
    faulty.until("() => performance.getEntriesByType('resource').filter(e => e.responseStatus === 416).length > 2")
    while held:
        held.pop().continue_()
    faulty.says("is not written yet")


def test_an_empty_log_says_what_will_appear(chromium: Browser, tmp_path: Path) -> None:
    """On an empty log each panel tells what will be there and what makes it appear."""
    log = tmp_path / "empty.jsonl"
    log.write_bytes(b"")
    with running(["dashboard", "--log", str(log), "--port", "0", "-o", "json"], tmp_path / "dashboard") as started:
        opened = context(chromium)
        shown = Screen(opened.new_page(), address(started))
        shown.open("/now")
        assert "The log is empty." in shown.text("#p-health")
        assert "quorate up" in shown.text("#p-health")
        assert "BrokerRegistered" in shown.text("#p-map")
        for page in (
            "timeline",
            "elections",
            "sets",
            "members",
            "journal",
            "sessions",
            "keys",
            "log",
            "whatif",
            "diff",
            "streams",
        ):
            shown.open(f"/{page}")
            assert not shown.page.locator(".failed").count(), page
        opened.close()
        shown.assert_quiet()


def test_a_lost_connection_is_said_and_mends_itself(chromium: Browser, log: Path, tmp_path: Path) -> None:
    """When the service is killed the page keeps its data and says so; when it is back, so is the page."""
    words = ["dashboard", "--log", str(log), "--port", str(free_ports(1)), "-o", "json"]
    started = start(words, tmp_path / "first")
    opened = context(chromium)
    shown = Screen(opened.new_page(), address(started))
    shown.open("/now")
    tiles = shown.page.locator(".tile").count()
    started.process.kill()
    started.process.communicate()
    shown.says("Connection lost")
    assert "may be wrong by now" in shown.text("#banner")
    assert "disconnected" in shown.text("#stream")
    assert shown.page.locator(".tile").count() == tiles
    shown.page.get_by_role("button", name="Try now").wait_for()
    with running(words, tmp_path / "second"):
        shown.page.evaluate("() => document.querySelector('[data-do=retry]')?.click()")  # Unless it has tried itself.
        shown.until("() => document.documentElement.dataset.connection === 'open'")
        shown.until("() => !document.querySelector('#banner').textContent.includes('Connection lost')")
        shown.open("/elections")
        opened.close()
    assert not [error for error in shown.errors if error.startswith("uncaught")]


STREAM = """
const real = window.fetch;
window.fetch = (where, options) => {
  if (!String(where).endsWith('api/live')) return real(where, options);
  const said = [['hello', { offset: 1000, time: 1795150000000, end_offset: 1423, now: 1795150009000 }],
                ['lag', { now: 1795150009000, offset: 1000, end_offset: 1423, behind: 423, state: 'catching up',
                          message: '', age_ms: 9000, streams: [] }]];
  const text = said.map(([event, data]) => `event: ${event}\\nid: 1000\\ndata: ${JSON.stringify(data)}\\n\\n`).join('');
  const body = new ReadableStream({ start(control) { control.enqueue(new TextEncoder().encode(text)); } });
  return Promise.resolve(new Response(body, { status: 200 }));
};
"""


def test_a_page_behind_the_log_says_how_far(faulty: Screen) -> None:
    """When the service reports that it lags, a banner tells by how many events and links to the streams."""
    about = faulty.ask("about")
    about["data"]["mode"] = "nodes"
    faulty.page.route("**/api/about", lambda route: route.fulfill(json=about))
    faulty.page.add_init_script(STREAM)
    faulty.page.goto(f"{faulty.url}#/now")
    faulty.until("() => document.querySelector('#banner').textContent.includes('423 events wait')")
    assert "behind by 423" in faulty.text("#stream")
    assert faulty.page.locator("#banner a").get_attribute("href") == "#/streams"


OURS = """
const real = window.fetch;
window.fetch = (where, options) => {
  if (!String(where).endsWith('api/live')) return real(where, options);
  const body = new ReadableStream({ start(control) { window.ours = control; } });
  return Promise.resolve(new Response(body, { status: 200 }));
};
window.say = (event, data) => {
  window.ours.enqueue(new TextEncoder().encode(`event: ${event}\\ndata: ${JSON.stringify(data)}\\n\\n`));
};
"""
"""The stream is what the test says, with `say`."""


def said(screen: Screen, event: str, **data: object) -> None:
    """The stream tells this."""
    screen.page.evaluate("([event, data]) => window.say(event, data)", [event, data])


def test_an_alarm_that_the_stream_tells_is_the_sentence(faulty: Screen) -> None:
    """An open page says what a node says is wrong without being asked anew, and goes on saying it after the next fact;
    of another offset than its own it takes nothing.
    """
    faulty.page.add_init_script(OURS)
    faulty.open("/now")
    end, now = faulty.data("about")["end_offset"], faulty.ask("health")["data"]
    wrong = {**now, "level": "unhealthy", "sentence": "Alarm: node 2 stopped."}
    said(faulty, "hello", offset=end, time=1795150000000, end_offset=end)
    said(faulty, "soft", offset=end, nodes={}, members={}, health=wrong)
    faulty.says("Alarm: node 2 stopped.")
    fact = {"time": 1795150000000, "events": [], "sets": [], "removed": [], "quorum": None}
    said(faulty, "facts", since=end, offset=end + 1, health={**wrong, "sentence": "Alarm: one fact later."}, **fact)
    faulty.says("one fact later")
    said(faulty, "soft", offset=end, nodes={}, members={}, health=now)
    said(faulty, "soft", offset=end + 1, nodes={}, members={}, health={**wrong, "sentence": "Alarm: the last."})
    faulty.says("Alarm: the last.")


def test_a_stream_that_was_lost_before_its_first_fact_misses_none(faulty: Screen) -> None:
    """What was shown before the stream began again further on is asked anew."""
    faulty.page.add_init_script(OURS)
    faulty.open("/now")
    end = faulty.data("about")["end_offset"]
    faulty.page.evaluate("() => { window.first = window.ours; }")
    said(faulty, "hello", offset=end, time=1795150000000, end_offset=end)
    told = faulty.ask("health")
    told["offset"] += 2
    told["data"]["sentence"] = "It is two events later."
    faulty.page.route("**/api/health*", lambda route: route.fulfill(json=told))
    faulty.page.evaluate("() => window.first.error(new Error('lost'))")
    faulty.until("() => window.ours !== window.first")
    said(faulty, "hello", offset=end + 2, time=1795150000000, end_offset=end + 2)
    faulty.says("It is two events later.")


def test_facts_are_laid_over_nothing_that_lacks_the_ones_before(faulty: Screen) -> None:
    """Facts were skipped, and what is on screen cannot be asked again at once: the next facts do not make it newer than
    it is.
    """
    faulty.page.add_init_script(OURS)
    faulty.open("/sets")
    end, rows = faulty.data("about")["end_offset"], faulty.ask("sets")["data"]["sets"]
    said(faulty, "hello", offset=end, time=1795150000000, end_offset=end)
    faulty.page.route("**/api/sets*", failing)
    said(faulty, "resync", offset=end + 10)
    fact = {"time": 1795150000000, "events": [], "removed": [], "health": None, "quorum": None}
    said(faulty, "facts", since=end + 10, offset=end + 11, sets=rows[:1], **fact)
    faulty.page.locator("#p-sets").get_by_role("alert").wait_for()
    assert faulty.stamps() == {end}
    faulty.page.unroute("**/api/sets*")


@pytest.mark.parametrize("by", ["a fact", "the button"])
def test_what_was_refused_once_is_asked_again(faulty: Screen, by: str) -> None:
    """The service did not know what was asked for, 404: the next fact has it asked again, and so does the button."""

    def missing(route: Route) -> None:
        refused = {"error": {"code": "not_found", "message": "it is not there yet"}}
        route.fulfill(status=404, content_type="application/json", body=json.dumps(refused))

    end = faulty.data("about")["end_offset"]
    faulty.page.add_init_script(OURS)
    faulty.page.route("**/api/sets*", missing)
    faulty.page.goto(f"{faulty.url}#/sets")
    panel = faulty.page.locator("#p-sets")
    panel.get_by_role("alert").wait_for()
    faulty.page.unroute("**/api/sets*")
    if by == "a fact":
        said(faulty, "hello", offset=end, time=1795150000000, end_offset=end)
        fact = {"time": 1795150000000, "events": [], "sets": [], "removed": [], "health": None, "quorum": None}
        said(faulty, "facts", since=end, offset=end + 1, **fact)
    else:
        panel.get_by_role("button", name="Try again").click()
    faulty.page.locator(".sets tbody tr").first.wait_for()


def test_what_the_log_is_called_is_asked_for_once_at_a_time(faulty: Screen) -> None:
    """A service that is busy is not asked anew by each fact."""
    asked: list[str] = []

    def busy(route: Route) -> None:
        asked.append(route.request.url)
        failing(route)

    end = faulty.data("about")["end_offset"]
    faulty.page.add_init_script(OURS)
    faulty.page.route("**/api/about", busy)
    faulty.page.goto(f"{faulty.url}#/now")
    faulty.page.locator("#p-map .tile").first.wait_for()
    said(faulty, "hello", offset=end, time=1795150000000, end_offset=end)
    fact = {"time": 1795150000000, "events": [], "sets": [], "removed": [], "health": None, "quorum": None}
    for number in range(end, end + 20):
        said(faulty, "facts", since=number, offset=number + 1, **fact)
    faulty.until("end => document.querySelector('#stream').textContent.replace(/\\D/g, '') === String(end)", end + 20)
    assert len(asked) <= 2
    faulty.page.unroute("**/api/about")


def test_answers_about_the_past_are_kept_by_their_size(faulty: Screen) -> None:
    """Forty of a MiB are more than the page keeps: the newest is there, the oldest is asked for again."""
    asked: list[str] = []

    def large(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"offset": 1, "time": 1, "source": "fold", "age_ms": None, "data": "x" * (1 << 20)})

    faulty.open("/now")
    faulty.page.route("**/api/large*", large)
    faulty.page.evaluate(
        """async () => {
          const { ask } = await import('./js/api.js');
          for (let at = 1; at <= 40; at += 1) await ask({ path: 'large' }, at);
          for (const at of [40, 1]) await ask({ path: 'large' }, at);
        }"""
    )
    assert len(asked) == 41


def test_a_place_that_cannot_be_had_is_said(faulty: Screen) -> None:
    """A click on the timeline whose offset nobody answers; an address that is a word of the language and no page."""
    faulty.page.route("**/api/seek*", failing)
    faulty.open("/timeline?range=all")
    box = faulty.page.locator("#tl").bounding_box()
    assert box
    faulty.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 12)
    faulty.until("() => document.querySelector('#toast').textContent.includes('too much replay is waiting')")
    faulty.page.evaluate("() => { location.hash = '/constructor'; }")
    faulty.says("There is no page “constructor”.")


def test_two_thousand_sets_stay_usable(chromium: Browser, tmp_path: Path) -> None:
    """With 2,000 sets each has a tile with a name; when one is touched only its tile is drawn anew, and none moves."""
    log = tmp_path / "many.jsonl"
    sample_log.write(log, sets=2000, hours=0.5)
    with running(["dashboard", "--log", str(log), "--port", "0", "-o", "json"], tmp_path / "dashboard") as started:
        opened = context(chromium)
        shown = Screen(opened.new_page(), address(started))
        shown.open("/now")
        assert shown.page.locator(".tile").count() == 2000
        assert len(set(shown.names(".tile"))) == 2000
        replaced = shown.page.evaluate(
            """async () => {
              const { drawMap } = await import('./js/map.js');
              const answer = await (await fetch('api/sets')).json();
              const root = document.createElement('div');
              document.body.append(root);
              const options = { href: name => `#/set/${name}` };
              drawMap(root, answer.data.sets, options);
              const before = [...root.querySelectorAll('.tile')];
              const lost = s => ({ ...s, status: 'lost', master: null, touched: 1e9 });
              const sets = answer.data.sets.map((s, i) => i === 777 ? lost(s) : s);
              drawMap(root, sets, options);
              const after = [...root.querySelectorAll('.tile')];
              const names = list => list.map(t => t.dataset.name).join();
              const result = [after.filter((t, i) => t !== before[i]).length, names(before) === names(after),
                              after[777].classList.contains('lost')];
              root.remove();
              return result;
            }"""
        )
        assert replaced == [1, True, True]
        shown.open("/sets?q=shard7-11")
        assert shown.texts(".sets tbody th") == ["shard7-11"]
        shown.open("/now?at=9000")
        assert shown.stamps() == {9000}
        opened.close()
        shown.assert_quiet()
