"""Members in the browser: what is shown equals a replay at any offset; filtered, opened, told when they are gone."""

import random
from typing import Any

import pytest

from tests.browser.screen import Screen, whole
from tests.dashboard.replay import Replay

PAGE = 50


def shown(screen: Screen) -> list[list[str]]:
    """The rows of the table: name, state, roles."""
    cells = "r => [...r.cells].slice(0, 3).map(c => c.innerText.trim())"
    found: list[list[str]] = screen.page.eval_on_selector_all(".mb tbody tr", f"all => all.map({cells})")
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_at_any_offset_members_equal_a_replay(screen: Screen, facts: list[dict[str, Any]], seed: int) -> None:
    """At a past offset every stamp is that offset, and services and brokers are by name, as a replay has them."""
    chance = random.Random(seed)
    for offset in sorted(chance.randrange(300, len(facts)) for _ in range(3)):
        screen.open(f"/members?at={offset}")
        assert screen.stamps() == {offset}
        rows = Replay(facts, offset).member_rows()
        assert [row[0] for row in shown(screen)] == [row["name"] for row in rows[:PAGE]]
        for row, expected in zip(shown(screen), rows, strict=False):
            assert row[1].startswith(expected["state"])
            assert row[2] == ", ".join(expected["roles"])
        counts = {text.split()[0]: whole(text) for text in screen.texts("#p-members .chips button")}
        states = [row["state"] for row in rows]
        assert {word: counts.get(word, 0) for word in set(states)} == {word: states.count(word) for word in set(states)}
        assert "soft state" in screen.text("#p-members .note")


def test_a_role_a_state_and_words_filter(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Chips and the search narrow the list, stand in the address, and can be taken back."""
    rows = Replay(facts, len(facts)).member_rows()
    screen.open("/members")
    screen.page.locator(".chips").get_by_role("button", name="mqtt").click()
    screen.until("() => location.hash.includes('role=mqtt')")
    screen.settled()
    assert [row[0] for row in shown(screen)] == [row["name"] for row in rows if "mqtt" in row["roles"]]
    screen.page.get_by_label("Find a member").fill("rack=az-a")
    wanted = [row["name"] for row in rows if "mqtt" in row["roles"] and row["labels"]["rack"] == "az-a"]
    screen.until("n => document.querySelectorAll('.mb tbody tr').length === n", len(wanted))
    assert [row[0] for row in shown(screen)] == wanted
    screen.open("/members?state=fenced&q=nobody")
    assert "No member is meant by that." in screen.text("#p-members")


def test_more_members_than_a_page_are_turned_over(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Page after page, none twice and none left out."""
    names = [row["name"] for row in Replay(facts, len(facts)).member_rows()]
    screen.open("/members")
    seen = [row[0] for row in shown(screen)]
    while screen.page.get_by_role("link", name="More members").count():
        first = shown(screen)[0][0]
        screen.page.get_by_role("link", name="More members").click()
        screen.until("name => document.querySelector('.mb tbody th').innerText.trim() !== name", first)
        screen.settled()
        seen += [row[0] for row in shown(screen)]
    assert seen == names


def test_a_member_tells_every_event_about_it(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Its state and why, what it said of itself, its history; a broker leads to its set, one that left says so."""
    replay = Replay(facts, len(facts))
    screen.open("/members?role=journal")
    screen.page.get_by_role("link", name="journal-1", exact=True).click()
    screen.settled()
    assert screen.text("h1") == "journal-1"
    assert "has caught up and is given work" in screen.text(".headline .lead")
    assert "10.21.5.1:7070" in screen.text("#p-self")
    offsets = list(reversed(replay.of_members["journal-1"]))
    assert screen.texts("#p-history .row .ty") == [facts[offset]["type"] for offset in offsets]
    screen.open("/member/mqtt-4")
    assert "It is not there: member mqtt-4 is gone: drained" in screen.text(".headline")
    screen.open("/member/never")
    assert "There is no such member, and never was." in screen.text(".headline")
    screen.open("/member/push-03%3A1")
    screen.page.locator(".headline").get_by_role("link", name="push-03").click()
    screen.until("() => location.hash === '#/set/push-03'")
