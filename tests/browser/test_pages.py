"""Every screen against the service and against a replay of the tests' own: values in the document, not pixels."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.browser.screen import Screen, whole
from tests.unit.model.test_words import SPANS

PAGES = (
    "now",
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
)
ALIVE = {"BrokerRegistered": True, "BrokerUnfenced": True, "BrokerFenced": False}


@dataclass
class Replayed:
    """One set, folded by hand."""

    master: int | None = None
    epoch: int = 0
    sync: list[int] = field(default_factory=list)
    alive: dict[int, bool] = field(default_factory=dict)

    def label(self, name: str) -> tuple[str, str, str]:
        """Master, epoch and count in sync, as the tile's label says them."""
        master = "no master" if self.master is None else f"master broker {self.master}"
        live = sum(self.alive.get(i, False) for i in self.sync)
        return master, f"epoch {self.epoch}", f"{live} of {len(self.alive)} in sync"


def replay(facts: list[dict[str, Any]], before: int) -> dict[str, Replayed]:
    """The sets after the events before an offset; knows neither our folds nor our structs."""
    sets: dict[str, Replayed] = {}
    for fact in facts[:before]:
        event = fact["event"]
        if "broker_set" not in event:
            continue
        found = sets.setdefault(event["broker_set"], Replayed())
        match fact["type"]:
            case "BrokerIdApplied":
                found.alive.setdefault(event["broker_id"], False)
            case "BrokerRegistered" | "BrokerUnfenced" | "BrokerFenced":
                found.alive[event["broker_id"]] = ALIVE[fact["type"]]
            case "MasterElected":
                found.master, found.epoch, found.sync = event["master"], event["master_epoch"], event["sync_state_set"]
            case "ElectionFailed":
                found.master, found.epoch = None, event["master_epoch"]
            case "SyncStateSetAltered":
                found.sync = event["new"]
            case _:
                pass
    return sets


@pytest.mark.parametrize("name", PAGES)
def test_every_page_shows_one_offset_and_says_no_error(screen: Screen, name: str) -> None:
    """A page opens without an error in the console, and every panel is stamped with the end of the log."""
    end = screen.data("about")["end_offset"]
    screen.open(f"/{name}")
    assert screen.stamps() == {end}
    assert screen.page.locator("main h1").count() == 1
    assert screen.page.locator(".failed").count() == 0


def test_now_says_what_the_service_says(screen: Screen) -> None:
    """Sentence, reasons, counts, controllers and why one of them leads are, on *Now*, those of the API."""
    health, quorum = screen.data("health"), screen.data("quorum")
    screen.open("/now")
    assert screen.text("#p-health .big").lower() == f"{health['level']}: {health['sentence']}".lower()
    shown = screen.texts(".reasons tr")
    assert len(shown) == min(6, len(health["reasons"]))
    for line, reason in zip(shown, health["reasons"], strict=False):
        assert reason["text"] in line
    counts = {button.split(maxsplit=1)[1]: whole(button) for button in screen.texts(".legend button")}
    names = {"lost": "no master", "last": "one replica", "flap": "flapping", "shrunk": "shrunk", "full": "full sync"}
    assert counts == {names[kind]: count for kind, count in health["counts"].items() if kind in names}
    assert sum(counts.values()) == len(screen.page.locator(".tile").all())
    rows = screen.texts(".q tbody tr")
    assert len(rows) == len(quorum["nodes"])
    [leads] = [row for row in rows if "leader" in row]
    assert leads.startswith(f"n{quorum['leader']} leader, term {quorum['term']}")
    assert screen.text("#p-quorum .why").endswith(quorum["why"])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_at_any_offset_every_tile_equals_a_replay(screen: Screen, facts: list[dict[str, Any]], seed: int) -> None:
    """At a past offset all stamps are that offset, and each tile tells the master, epoch and sync set of a replay."""
    chance = random.Random(seed)
    for offset in sorted(chance.randrange(2, len(facts)) for _ in range(3)):
        screen.open(f"/now?at={offset}")
        assert screen.stamps() == {offset}
        assert screen.offset() == offset
        expected = replay(facts, offset)
        shown = dict(label.split(": ", 1) for label in screen.names(".tile"))
        assert set(shown) == set(expected)
        for name, set_ in expected.items():
            assert all(part in shown[name] for part in set_.label(name)), f"{name} at {offset}: {shown[name]}"


def test_the_newest_events_are_those_of_the_log(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """The events beside the map are the last ones before the page's offset, newest first."""
    screen.open("/now?at=900")
    shown = screen.texts("#p-events .row .ty")
    assert shown == [fact["type"] for fact in reversed(facts[900 - len(shown) : 900])]


def test_an_election_tells_its_candidates_rule_and_phases(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """The page of an election equals its event: who stood, who fell where, what decided, how long each phase took."""
    for election in screen.data("elections?limit=40")["elections"][::9]:
        offset = election["offset"]
        event, detail = facts[offset]["event"], screen.data(f"elections/{offset}")
        screen.open(f"/election/{offset}")
        rows = screen.texts("#p-candidates tbody tr")
        assert len(rows) == len(event["candidates"])
        assert screen.text("h1") == detail["headline"]
        assert screen.text(".headline .lead").startswith(detail["because"])
        verdicts = screen.texts("#p-candidates td.verdict")
        assert sorted(verdicts) == sorted(c["verdict_words"] for c in detail["candidates"])
        assert detail["caveat"] in screen.text("#p-candidates")
        assert screen.text("#p-trigger dl").startswith(f"What {detail['kind_words']} Asked by {detail['asker']}")
        assert sum("elected" in row for row in rows) == sum(c["verdict"] == "elected" for c in event["candidates"])
        fallen = screen.page.locator("#p-candidates td.fell").count()
        assert fallen == sum(c["verdict"] != "elected" for c in event["candidates"])
        if event["trigger"] == "master lost":
            took = {row.split()[0]: row for row in screen.texts("#p-waterfall .wr:not(.hd)")}
            assert f"{detail['phases']['detect']:,} ms" in took["Detected"]
            if detail["type"] == "MasterElected":
                assert f"{detail['phases']['commit']:,} ms" in took["Committed"]
        changed = screen.text("#p-difference tbody tr")
        after = "none" if detail["after"]["master"] is None else f"broker {detail['after']['master']}"
        assert changed.startswith("Master") and changed.endswith(after)


def test_an_election_that_has_not_happened_yet_says_so(screen: Screen) -> None:
    """Before its offset the page of an election offers the way to it instead of telling the future."""
    offset = screen.data("elections?limit=1")["elections"][0]["offset"]
    screen.open(f"/election/{offset}?at={offset - 5}")
    assert "has not happened yet" in screen.text("main")
    screen.page.get_by_role("button", name="Go to offset").click()
    screen.settled()
    assert screen.stamps() == {offset + 1}


def test_an_election_before_its_acknowledgement_has_none(screen: Screen) -> None:
    """At the offset right after an election nobody has acknowledged it yet, and the page shows no such phase."""
    election = next(e for e in screen.data("elections?limit=40")["elections"] if e["unavailable_ms"])
    screen.open(f"/election/{election['offset']}?at={election['offset'] + 1}")
    assert "Not acknowledged at this offset" in screen.text("#p-waterfall")
    assert not [row for row in screen.texts("#p-waterfall .wr") if row.startswith("Acknowledged")]


def test_a_set_tells_members_elections_and_events(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """The page of a set lists every member as the API has it, and only its own elections and events."""
    [found] = screen.data("sets?name=push-03")["sets"]
    screen.open("/set/push-03")
    rows = screen.texts("#p-members tbody tr")
    assert [whole(row) for row in rows] == [member["id"] for member in found["members"]]
    assert f"epoch {found['epoch']}" in screen.text(".headline .lead")
    mine = [fact for fact in facts if fact["event"].get("broker_set") == "push-03"]
    assert (
        screen.texts("#p-events .row .ty")
        == [fact["type"] for fact in reversed(mine)][: len(screen.texts("#p-events .row"))]
    )
    elections = [f["offset"] for f in mine if f["type"] in {"MasterElected", "ElectionFailed"}]
    assert [whole(text) for text in screen.texts("#p-elections .k-off")] == elections[::-1][:12]


def test_a_set_nobody_knows_is_said_to_be_unknown(screen: Screen) -> None:
    """An unknown set, and one from before it existed, are told apart from an error."""
    screen.open("/set/nobody-01")
    assert "There is no broker set nobody-01" in screen.text("main")
    screen.open("/set/push-03?at=3")
    assert "does not exist" in screen.text("main")
    screen.errors = [error for error in screen.errors if "404" not in error]


def test_the_log_filters_decodes_and_gives_a_command(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Typing filters the log, a row opens its record with every field, and the kcat command reads that very offset."""
    screen.open("/log")
    screen.page.get_by_label("Filter events").fill("type:MasterElected set:push-03")
    wanted = [f["offset"] for f in facts if f["type"] == "MasterElected" and f["event"]["broker_set"] == "push-03"]
    screen.until("n => document.querySelectorAll('.list .row').length === n", len(wanted))
    assert [whole(text) for text in screen.texts(".list .row .o")] == wanted[::-1]
    assert "q=type:MasterElected+set:push-03" in screen.hash()
    screen.page.locator(".list .row").first.click()
    screen.page.locator("#p-record pre.json").wait_for()
    value = screen.text("#p-record pre.json")
    for name in facts[wanted[-1]]["event"]:
        assert f"{name}:" in value
    screen.page.get_by_role("button", name="Copy quorate command").click()
    screen.until("() => document.querySelector('#toast').classList.contains('on')")
    assert screen.copied() == f"quorate log dump --from {wanted[-1]} --to {wanted[-1] + 1} -o json"


def test_the_log_reads_on_as_it_is_scrolled(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Scrolling down reads older pages until the first event, none left out."""
    screen.open("/log?q=type:Topic")
    wanted = [fact["offset"] for fact in facts if fact["type"].startswith("Topic")]
    seen: set[int] = set()
    for _ in range(40):
        seen.update(whole(text) for text in screen.texts(".list .row .o"))
        if wanted[0] in seen:
            break
        screen.page.eval_on_selector(".list", "box => { box.scrollTop += 400; }")
        screen.page.wait_for_timeout(60)
    assert seen == set(wanted)


def test_the_timeline_has_a_lane_for_what_changed(screen: Screen) -> None:
    """Lanes, leaders and gaps of the chosen window are those of the API."""
    screen.open("/timeline?range=all")
    answer = screen.data("timeline?limit=300")
    lanes = screen.page.eval_on_selector_all("#tl g[data-key]", "all => all.map(g => g.dataset.key)")
    assert lanes == [lane["set"] for lane in answer["lanes"]]
    assert screen.page.locator("#tl rect.leads").count() == len(answer["leaders"])
    gaps = sum(len(lane["gaps"]) for lane in answer["lanes"])
    assert screen.page.locator("#tl g[data-key] rect.gap").count() == gaps


def test_diff_tells_what_is_different(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Between two offsets *Diff* counts the events and shows masters before and after, as two replays have them."""
    screen.open("/diff?from=800&to=1000")
    assert screen.text("#p-diff .big").startswith("200 events")
    before, after = replay(facts, 800), replay(facts, 1000)
    for name in after:
        rows = screen.page.locator(f'tbody[data-key="broker-set/{name}"] tr[data-key="master"]')
        if before[name].master == after[name].master:
            assert rows.count() == 0
        else:
            cells = rows.first.locator("td").all_inner_texts()
            assert [cells[-3].strip(), cells[-1].strip()] == [str(before[name].master), str(after[name].master)]


def test_streams_says_what_is_not_connected(screen: Screen) -> None:
    """Without Spark and projections the page says so and stays whole."""
    screen.open("/streams")
    assert "no Spark query and no projection is connected" in screen.text("#p-streams .big")
    assert len(screen.texts("#p-streams tbody tr")) == len(screen.data("streams")["streams"])


def test_what_if_without_a_node_says_whom_it_would_ask(screen: Screen) -> None:
    """A recorded log cannot decide: the page says so instead of inventing an answer."""
    screen.open("/whatif")
    assert "has no node to ask" in screen.text("#p-outcome")


def test_ticks_that_follow_each_other_at_once_are_all_kept(screen: Screen) -> None:
    """The second begins from what the first made of the address, drawn or not."""
    screen.open("/whatif")
    screen.page.evaluate("() => document.querySelectorAll('input[data-value^=\"node/\"]').forEach(box => box.click())")
    screen.settled()
    boxes = screen.page.locator('input[data-value^="node/"]')
    assert boxes.count() >= 2
    assert screen.hash().split("fail=")[1].split(",") == boxes.evaluate_all("all => all.map(e => e.dataset.value)")
    assert boxes.evaluate_all("all => all.every(e => e.checked)")


def test_the_whole_page_is_light(fresh: Screen) -> None:
    """Everything the page fetches of its own, fonts included, is below 300 KB; nothing comes from elsewhere."""
    hosts: set[str] = set()
    fresh.page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    fresh.open("/now")
    for name in PAGES:
        fresh.open(f"/{name}")
    sizes = fresh.page.evaluate(
        "() => performance.getEntriesByType('resource').filter(e => !e.name.includes('/api/'))"
        ".map(e => [e.name, e.encodedBodySize])"
    )
    assert len(sizes) > 20
    assert sum(size for _, size in sizes) < 300_000
    assert hosts == {fresh.url.split("/")[2]}


def test_the_page_tells_a_span_as_the_server_does(screen: Screen) -> None:
    """What both have to say of a time is the same to the letter, also where it is rounded."""
    screen.open("/now")
    script = "async spans => (({ span }) => spans.map(span))(await import('./js/format.js'))"
    assert screen.page.evaluate(script, [ms for ms, _ in SPANS]) == [told for _, told in SPANS]
