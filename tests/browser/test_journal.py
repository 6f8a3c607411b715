"""The journal in the browser: what is shown equals a replay at any offset; filtered, opened, page after page."""

import random
from typing import Any

import pytest

from tests.browser.screen import Screen, whole
from tests.dashboard.replay import Replay

PAGE = 50
WORDS = {
    "red": "no leader, or too few in sync", "yellow": "under-replicated", "green": "whole", "deleting": "to be deleted",
}  # fmt: skip


def shown(screen: Screen) -> list[list[str]]:
    """The first four columns of the table: name, state, number of segments, what is at risk."""
    cells = "r => [...r.cells].slice(0, 4).map(c => c.innerText.trim())"
    found: list[list[str]] = screen.page.eval_on_selector_all(".mb tbody tr", f"all => all.map({cells})")
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_at_any_offset_shards_equal_a_replay(screen: Screen, facts: list[dict[str, Any]], seed: int) -> None:
    """At a past offset every stamp is that offset; shards are by name with their level, and all of them are counted."""
    chance = random.Random(seed)
    for offset in sorted(chance.randrange(450, len(facts)) for _ in range(3)):
        screen.open(f"/journal?at={offset}")
        assert screen.stamps() == {offset}
        rows = Replay(facts, offset).shard_rows()
        assert [(row[0], row[1], whole(row[2])) for row in shown(screen)] == [
            (row["name"], WORDS[row["level"]], row["segments"]) for row in rows[:PAGE]
        ]
        counts = screen.texts("#p-journal .chips button")
        levels = [row["level"] for row in rows]
        assert sorted(counts) == sorted(f"{WORDS[level]} {levels.count(level)}" for level in set(levels))


def test_a_level_and_words_filter(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Chips and the search narrow the list, stand in the address, and can be taken back."""
    rows = Replay(facts, len(facts)).shard_rows()
    screen.open("/journal")
    assert screen.text(".headline .lead").startswith("Storage is red; ")
    screen.page.locator(".chips").get_by_role("button", name=WORDS["red"]).click()
    screen.until("() => location.hash.includes('level=red')")
    screen.settled()
    assert [row[0] for row in shown(screen)] == [row["name"] for row in rows if row["level"] == "red"]
    assert "audit" in [row[0] for row in shown(screen)]
    screen.open("/journal")
    screen.page.get_by_label("Find a shard").fill("invoices")
    screen.until("() => document.querySelectorAll('.mb tbody tr').length === 1")
    screen.open("/journal?q=nobody")
    assert "No shard is meant by that." in screen.text("#p-journal")
    screen.open("/journal?at=300")
    assert "There was no shard at this offset." in screen.text("#p-journal")


def test_more_shards_than_a_page_are_turned_over(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Page after page, none twice and none left out."""
    names = [row["name"] for row in Replay(facts, len(facts)).shard_rows()]
    screen.open("/journal")
    seen = [row[0] for row in shown(screen)]
    while screen.page.get_by_role("link", name="More shards").count():
        first = shown(screen)[0][0]
        screen.page.get_by_role("link", name="More shards").click()
        screen.until("name => document.querySelector('.mb tbody th').innerText.trim() !== name", first)
        screen.settled()
        seen += [row[0] for row in shown(screen)]
    assert len(names) > PAGE
    assert seen == names


def test_a_shard_tells_its_segments(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """The newest first: copies with who leads and who is in sync, why that one leads; each leads to its events."""
    rows = Replay(facts, len(facts)).segment_rows("orders")
    screen.open("/journal?q=orders")
    screen.page.get_by_role("link", name="orders", exact=True).click()
    screen.settled()
    assert screen.text("h1") == "orders"
    assert screen.texts("#p-segments tbody th") == [row["name"] for row in rows]
    for text, row in zip(screen.texts("#p-segments tbody tr"), rows, strict=True):
        assert WORDS[row["level"]] in text
        assert (row["why"] or "it led first") in text
        for copy in row["copies"]:
            assert copy["member"] in text
    assert any("registered anew" in row["why"] or "is fenced" in row["why"] for row in rows)
    assert screen.texts("#p-history .row .ty")[0].startswith("Segment")
    screen.page.locator("#p-segments").get_by_role("link", name="orders/0", exact=True).click()
    screen.settled()
    assert screen.hash().endswith("q=key:segment/orders/0")
    screen.open("/shard/never")
    assert "There is no such shard, and never was." in screen.text(".headline")
