"""Sessions in the browser: what is shown equals a replay at any offset; filtered, opened, page after page."""

import random
from typing import Any

import pytest

from tests.browser.screen import Screen, whole
from tests.dashboard.replay import Replay

PAGE = 50


def shown(screen: Screen) -> list[list[str]]:
    """The first three columns of the table: client, state, member."""
    cells = "r => [...r.cells].slice(0, 3).map(c => c.innerText.trim())"
    found: list[list[str]] = screen.page.eval_on_selector_all(".mb tbody tr", f"all => all.map({cells})")
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_at_any_offset_sessions_equal_a_replay(screen: Screen, facts: list[dict[str, Any]], seed: int) -> None:
    """At a past offset every stamp is that offset; clients are by name with their state and member, and are counted."""
    chance = random.Random(seed)
    for offset in sorted(chance.randrange(450, len(facts)) for _ in range(3)):
        screen.open(f"/sessions?at={offset}")
        assert screen.stamps() == {offset}
        rows = Replay(facts, offset).session_rows()
        assert [row[:2] for row in shown(screen)] == [[row["client"], row["state"]] for row in rows[:PAGE]]
        for row, expected in zip(shown(screen), rows, strict=False):
            assert row[2] == expected["member"] + ("" if expected["there"] else " not there")
        counts = {text.split()[0]: whole(text) for text in screen.texts("#p-sessions .chips button")}
        states = [row["state"] for row in rows]
        assert counts == {word: states.count(word) for word in set(states)}


def test_a_state_and_words_filter(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Chips and the search narrow the list, stand in the address, and say how many were looked at."""
    rows = Replay(facts, len(facts)).session_rows()
    screen.open("/sessions")
    screen.page.locator(".chips").get_by_role("button", name="away").click()
    screen.until("() => location.hash.includes('state=away')")
    screen.settled()
    away = [row["client"] for row in rows if row["state"] == "away"]
    assert [row[0] for row in shown(screen)] == away[:PAGE]
    screen.open("/sessions")
    screen.page.get_by_label("Find a session").fill("site/3")
    wanted = [row["client"] for row in rows if any("site/3" in name for name in row["filters"])]
    wanted += [row["client"] for row in rows if row["subscriptions"] > 3 and int(row["client"][-2:]) % 7 == 3]
    screen.until("n => document.querySelectorAll('.mb tbody tr').length === n", len(set(wanted)))
    assert [row[0] for row in shown(screen)] == sorted(set(wanted))
    assert f"{len(rows)} sessions looked at." in screen.text("#p-sessions .foot")
    screen.open("/sessions?q=nobody")
    assert "No session is meant by that." in screen.text("#p-sessions")
    screen.open("/sessions?at=300")
    assert "No client had a session at this offset." in screen.text("#p-sessions")


def test_more_sessions_than_a_page_are_turned_over(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Page after page, none twice and none left out."""
    clients = [row["client"] for row in Replay(facts, len(facts)).session_rows()]
    screen.open("/sessions")
    seen = [row[0] for row in shown(screen)]
    screen.page.get_by_role("link", name="More sessions").click()
    screen.until("name => document.querySelector('.mb tbody th').innerText.trim() !== name", seen[0])
    screen.settled()
    assert len(clients) > PAGE
    assert [*seen, *(row[0] for row in shown(screen))] == clients


def test_a_session_tells_all_of_itself(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Who has the client and since when, what it subscribed to, its will, and every event about it."""
    screen.open("/sessions?q=sensor/05")
    screen.page.get_by_role("link", name="sensor/05", exact=True).click()
    screen.settled()
    assert screen.text("h1") == "sensor/05"
    assert "Connected to mqtt-5" in screen.text(".headline .lead")
    assert screen.texts("#p-subscriptions tbody th") == ["alarms/+", "commands/05/#"]
    assert "lost/05" in screen.text("#p-will")
    assert "gone" in screen.text("#p-will")
    mine = [
        row["offset"] for row in facts if row["event"].get("client") == "sensor/05" and row["type"] != "WillHandedOver"
    ]
    assert screen.texts("#p-history .row .ty") == [facts[offset]["type"] for offset in reversed(mine)]
    screen.open("/session/never")
    assert "There is no such session, and never was." in screen.text(".headline")
