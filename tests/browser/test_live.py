"""A living cluster in the browser: a broker and a controller are killed while the page watches; it tells of both."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Response

from tests.browser.screen import Screen, whole
from tests.browser.test_gallery import SIZES
from tests.browsers import context, showing
from tests.clusters import Started, free_ports, gone, running, until
from tests.contract.client import Remoting
from tests.contract.names import MASTER, said, topic

SETS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three controllers and two sets of three brokers; nothing fails by itself."""
    folder = tmp_path_factory.mktemp("live") / "cluster"
    words = [
        "demo",
        "--with",
        "none",
        "--sets",
        str(SETS),
        "--replicas",
        "3",
        "--every",
        "0",
        "--data-dir",
        str(folder),
        "-o",
        "json",
    ]
    with running([*words, "--base-port", str(free_ports(130))], folder) as started:
        yield started


@pytest.fixture(scope="module")
def live(chromium: Browser, cluster: Started) -> Iterator[Screen]:
    """A window on a dashboard that follows that cluster."""
    with showing(chromium, cluster) as shown:
        until(lambda: healthy(shown, cluster), "a healthy cluster on the page's service")
        yield shown
        shown.forgive("502")


def healthy(screen: Screen, cluster: Started) -> bool:
    """Are all sets there, in full sync, and has every service put its key?"""
    try:
        full = screen.data("health")["counts"]["full"] == SETS
        return full and all(screen.data(f"key?name={service['key']}") for service in cluster.ready["services"])
    except OSError:
        return False


def at_rest(screen: Screen) -> bool:
    """Does the log end where it ended three seconds ago?"""
    before = screen.data("about")["end_offset"]
    time.sleep(3)
    return bool(screen.data("about")["end_offset"] == before)


def broker_pid(cluster: Started, member: dict[str, Any]) -> int:
    """The process that serves a member's address."""
    [pid] = [broker["pid"] for broker in cluster.ready["brokers"] if broker["address"] == member["addr"]]
    return int(pid)


@pytest.fixture(scope="module")
def failover(live: Screen, cluster: Started) -> dict[str, Any]:
    """SIGKILL a master while the page watches: the election, with the set and the page's offset before it."""
    live.open("/now")
    before = live.offset()
    found = live.data("sets")["sets"][0]
    [master] = [member for member in found["members"] if member["id"] == found["master"]]
    live.page.evaluate("() => { window.watched = true; }")
    os.kill(broker_pid(cluster, master), signal.SIGKILL)
    live.until(
        "name => [...document.querySelectorAll('#p-events .row')].some(r => r.textContent.includes('MasterElected')"
        " && r.textContent.includes(name) && !r.textContent.includes('epoch 1'))",
        found["name"],
    )
    [election] = [e for e in live.data(f"elections?set={found['name']}")["elections"] if e["from"] == found["master"]]
    return {**election, "page_before": before}


def test_a_killed_master_is_watched_from_event_to_page(live: Screen, failover: dict[str, Any]) -> None:
    """The open page shows the election without being asked or loaded again: its offset passes the event's."""
    live.open("/now")
    live.until("n => +document.querySelector('[data-page-offset]').dataset.pageOffset > n", failover["offset"])
    assert live.offset() > failover["offset"] >= failover["page_before"]
    assert min(live.stamps()) > failover["offset"]
    live.until(
        "([name, label]) => document.querySelector(`.tile[data-name='${name}']`).ariaLabel.includes(label)",
        [failover["set"], f"master broker {failover['to']},"],
    )
    assert live.page.evaluate("() => window.watched"), "the page was loaded again"


def test_the_election_explains_itself_while_it_is_fresh(live: Screen, failover: dict[str, Any]) -> None:
    """The election's page tells what the log holds: winner, cause, and a waterfall from fault to acknowledgement."""
    live.open(f"/election/{failover['offset']}")
    assert f"elected broker {failover['to']} in place of broker {failover['from']}" in live.text("h1")
    assert "connection closed" in live.text("#p-trigger")
    live.until("() => document.querySelectorAll('#p-waterfall .wr.ack').length === 1")
    detail = live.data(f"elections/{failover['offset']}")
    rows: dict[str, str] = {}
    for row in live.texts("#p-waterfall .wr:not(.hd)"):
        rows.setdefault(row.split()[0], row)
    for phase, word in (("detect", "Detected"), ("commit", "Committed"), ("ack", "Acknowledged")):
        assert f"{detail['phases'][phase]:,} ms" in rows[word]
    assert f"{detail['phases']['total']:,} ms" in live.text(".headline .lead")


def test_what_if_is_answered_by_a_node(live: Screen, cluster: Started) -> None:
    """Ticking a master tells whom the node would elect; with all controllers but one gone as well, nobody can be.

    Who is ahead changes with every heartbeat, so the page is held against the answers it was given itself.
    """
    found = live.data("sets")["sets"][1]
    master, name = found["master"], found["name"]
    fail, heard = [f"broker/{name}/{master}"], list[Response]()

    def hear(response: Response) -> None:
        heard.append(response)

    live.page.on("response", hear)
    live.open("/whatif")
    live.page.get_by_label("Broker set", exact=True).select_option(name)
    live.page.locator(f'input[data-value="broker/{name}/{master}"]').check()
    live.until(
        "name => [...document.querySelectorAll('.wt tbody tr')].some(r => r.textContent.includes(name))",
        name,
    )
    row = live.text(".wt tbody tr")
    live.page.remove_listener("response", hear)
    answers = [one.json()["data"] for one in heard if (one.request.post_data_json or {}).get("fail") == fail]
    winners = {outcome["winner"] for answer in answers for outcome in answer["rows"]}
    assert winners
    assert winners <= {member["id"] for member in found["members"]} - {master}
    assert [winner for winner in winners if f"broker {winner}" in row]
    assert f"fail=broker/{name}/{master}" in live.hash()
    *failing, _ = [node["id"] for node in cluster.nodes if not gone(node["pid"])]  # One may be killed already.
    for node in failing:
        live.page.locator(f'input[data-value="node/{node}"]').check()
    live.says("The quorum is lost: 1 of 3 controllers are left")
    assert "no master" in live.text(".wt tbody tr")
    assert "no master" in (live.page.locator(f".tile[data-name='{name}']").get_attribute("aria-label") or "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_the_answered_what_if_is_pictured(
    chromium: Browser, live: Screen, gallery: Path, width: str, scheme: str
) -> None:
    """At both widths, light and dark: a recorded log, of which the other pictures are, has no node to ask."""
    found = live.data("sets")["sets"][1]
    opened = context(chromium, SIZES[width], scheme)
    shown = Screen(opened.new_page(), live.url)
    shown.open(f"/whatif?fail=broker/{found['name']}/{found['master']}")
    shown.page.locator(".wt tbody tr").first.wait_for()
    shown.page.locator("#p-outcome").scroll_into_view_if_needed()
    assert found["name"] in shown.text(".wt tbody tr")
    shown.picture(gallery / f"whatif-answered-{width}-{scheme}.png")
    opened.close()
    shown.forgive("502")
    shown.assert_quiet()


def test_soft_state_is_shown_live_and_not_in_the_past(live: Screen) -> None:
    """Heartbeats and lag are on the page while it is live; at a past offset the page says they are not in the log."""
    name = live.data("sets")["sets"][1]["name"]
    live.open(f"/set/{name}")
    live.until("() => /\\d+ ms/.test(document.querySelector('#p-members tbody').textContent)")
    live.open(f"/set/{name}?at={live.data('about')['end_offset'] - 1}")
    assert "not in the log" in live.text("#p-members .note")
    live.open(f"/now?at={live.data('about')['end_offset'] - 2}")
    assert "soft state" in live.text("#p-quorum")


def test_topics_that_brokers_announced_are_on_their_set_s_page(live: Screen, cluster: Started) -> None:
    """Brokers that name the nodes as their name server announce topics to each of them; the page shows what one knows,
    only live, and nothing of a set whose brokers announced none.
    """
    quiet, name = [found["name"] for found in live.data("sets")["sets"]]
    attributes = {"message.type": "FIFO"}
    told = said(topic("orders", perm=4, writeQueueNums=2, order=True, attributes=attributes), topic("returns"))
    fields = {"clusterName": "c", "brokerName": name, "brokerAddr": MASTER, "brokerId": 0, "haServerAddr": f"{MASTER}9"}
    for node in cluster.nodes:
        with suppress(ConnectionRefusedError), Remoting(node["rpc"]) as broker:  # One may be killed already.
            assert broker.ask(103, told, **fields).code == 0
    live.open(f"/set/{name}")
    live.page.locator("#p-topics tbody tr").first.wait_for()
    rows = live.texts("#p-topics tbody tr")
    assert [row.split() for row in rows] == [
        ["orders", "4", "2", "read", "ordered,", "message.type=FIFO"],
        ["returns", "4", "4", "read", "and", "write"],
    ]
    live.open(f"/set/{name}?at={live.data('about')['end_offset'] - 1}")
    assert live.texts("#p-topics") == []
    live.open(f"/set/{quiet}")
    assert live.texts("#p-topics") == []


def test_a_lease_expires_on_the_page(live: Screen, cluster: Started) -> None:
    """The open page shows what is left of a service's lease; when the service is killed, its key and its lease go from
    the page by themselves, and the key's own page tells why.
    """
    service = cluster.ready["services"][0]
    live.open("/keys?flat=1")
    live.until("key => [...document.querySelectorAll('.kv tbody th')].some(e => e.innerText === key)", service["key"])
    live.until("() => [...document.querySelectorAll('.lt tbody tr')].every(r => /\\d s/.test(r.cells[1].innerText))")
    live.page.evaluate("() => { window.watched = true; }")
    os.kill(service["pid"], signal.SIGKILL)
    live.until("key => ![...document.querySelectorAll('.kv tbody th')].some(e => e.innerText === key)", service["key"])
    live.until("key => !document.querySelector('.lt').innerText.includes(key)", service["key"])
    assert live.page.evaluate("() => window.watched"), "the page was loaded again"
    live.open(f"/key/{service['key'].replace('/', '%2F')}")
    assert "It is not there. Deleted" in live.text(".headline")
    assert "1 key went with it" in live.text("#p-history tbody tr")
    last = live.data(f"key?name={service['key']}")["changes"][0]
    live.open(f"/key/{service['key'].replace('/', '%2F')}?at={last['offset']}")
    assert live.text("h1") == service["key"]
    live.page.locator(".lt tbody tr").wait_for()
    assert "soft state" in live.text("#p-leases .note")


def test_an_offset_that_comes_to_be_written_is_shown(live: Screen, cluster: Started) -> None:
    """A page held at an offset beyond the end shows it, without another act, once the log has grown past it."""
    until(lambda: at_rest(live), "a log to which only services write, each its key once in ten seconds")
    wanted = live.data("about")["end_offset"] + len(cluster.ready["services"]) + 2
    live.open(f"/now?at={wanted}")
    live.says("is not written yet")
    found = live.data("sets")["sets"][1]
    follower = next(member for member in found["members"] if member["id"] != found["master"])
    os.kill(broker_pid(cluster, follower), signal.SIGKILL)
    live.until("() => !document.querySelector('#banner').textContent.includes('not written')")
    live.settled()
    assert live.stamps() == {wanted}
    live.forgive("416")


def test_a_killed_leader_is_told_with_its_cause(live: Screen, cluster: Started) -> None:
    """When the leading controller is killed, the open page names the next one, its term, and what it saw."""
    live.open("/now")
    quorum = live.data("quorum")
    [leader] = [node for node in cluster.nodes if node["id"] == quorum["leader"]]
    os.kill(leader["pid"], signal.SIGKILL)
    live.until(
        "old => { const b = document.querySelector('#p-quorum .why b'); return b && b.textContent !== `n${old}`; }",
        quorum["leader"],
    )
    said = live.text("#p-quorum .why")
    after = live.data("quorum")
    assert said.startswith(f"n{after['leader']} leads since")
    assert f"term {after['term']}" in said
    assert after["term"] > quorum["term"]
    assert whole(live.text("#dock .when i")) > after["offset"]
    live.open("/whatif")
    silent = live.page.locator("label", has_text="does not answer")
    silent.locator(f'input[data-value="node/{leader["id"]}"]').wait_for()
