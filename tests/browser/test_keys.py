"""Keys and leases in the browser: what is shown equals a replay at any offset; found, paged, opened by keyboard."""

import random
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser

from quorate.events import FeatureLevelChanged, KeyPut
from tests.browser import sample_log
from tests.browser.screen import Screen, whole
from tests.browsers import address, context
from tests.clusters import running
from tests.dashboard.replay import Replay

MANY = 200_000


def first_cells(screen: Screen, table: str) -> list[str]:
    """What heads each row of a table."""
    return screen.texts(f"{table} tbody th")


def test_keys_are_found_a_segment_at_a_time(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Segments with their counts lead down to the keys; the path leads up again; names of any bytes stay whole."""
    replay = Replay(facts, len(facts))
    screen.open("/keys")
    assert first_cells(screen, ".kv") == ["/config/", "/services/", "~FF%00raw"]
    below = [sum(name.startswith(part) for name in replay.keys) for part in ("/config/", "/services/")]
    assert [whole(text) for text in screen.texts(".kv td.mute")] == below
    screen.page.get_by_role("link", name="/services/", exact=True).click()
    screen.settled()
    screen.page.locator(".kv").get_by_role("link", name="/services/pay/").click()
    screen.settled()
    assert first_cells(screen, ".kv") == [name for name in sorted(replay.keys) if name.startswith("/services/pay/")]
    screen.page.locator(".path").get_by_role("link", name="All keys").click()
    screen.until("() => location.hash === '#/keys'")
    screen.open("/keys/%2Fconfig%2F")
    assert "/config/größe name" in first_cells(screen, ".kv")
    assert "whoever reads the log reads it" in screen.text("#p-keys")


@pytest.mark.parametrize("seed", [1, 2])
def test_at_any_offset_keys_and_leases_equal_a_replay(screen: Screen, facts: list[dict[str, Any]], seed: int) -> None:
    """At a past offset every stamp is that offset, and keys, values, revisions and leases are those of a replay."""
    chance = random.Random(seed)
    for offset in sorted(chance.randrange(300, len(facts)) for _ in range(3)):
        screen.open(f"/keys?flat=1&as=base64&at={offset}")
        assert screen.stamps() == {offset}
        replay = Replay(facts, offset)
        rows = screen.page.eval_on_selector_all(
            ".kv tbody tr",
            "all => all.map(r => [r.dataset.key.slice(1), ...[...r.cells].map(c => c.innerText.trim())])",
        )
        expected = replay.key_rows()
        assert [row[0] for row in rows] == [key["name"] for key in expected]
        for row, key in zip(rows, expected, strict=True):
            data = b64decode(key["value"])
            start = b64encode(data[:160]).decode() + ("…" if len(data) > 160 else "")
            assert row[2] == (start or "empty")
            assert [whole(row[4]), whole(row[5]), row[6], row[8]] == [
                key["mod_revision"], key["version"], key["lease"], key["by"],
            ]  # fmt: skip
        leases = replay.lease_rows()
        assert first_cells(screen, ".lt") == [lease["lease"] for lease in leases]
        assert screen.texts(".lt tbody td:last-child") == [", ".join(lease["names"]) or "none" for lease in leases]


def test_a_key_tells_its_value_its_lease_and_its_history(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """Each change is a row with its offset, author and value; why a key went is told in words."""
    replay = Replay(facts, len(facts))
    name = next(n for n, changes in replay.of_keys.items() if len(changes) > 3 and replay.keys[n]["lease"])
    screen.open("/keys?flat=1")
    screen.page.get_by_role("link", name=name, exact=True).first.click()
    screen.settled()
    assert screen.text("h1") == name
    assert screen.text("#p-value pre") == b64decode(replay.keys[name]["value"]).decode()
    changes = replay.of_keys[name][::-1]
    assert [whole(text) for text in first_cells(screen, ".kh")] == [change["offset"] for change in changes]
    assert screen.texts(".kh td:nth-child(3)") == [change["what"] for change in changes]
    assert "ended: not heard for 10 s; 1 key went with it" in screen.text(".kh td.wrap")
    screen.page.locator(".lt tbody th").wait_for()  # It is asked for when the key is there.
    assert first_cells(screen, ".lt") == [replay.keys[name]["lease"]]
    gone = next(change["lease"] for change in changes if change["what"] == "deleted")
    screen.page.locator(".kh").get_by_role("link", name=gone).first.click()
    screen.settled()
    assert "It is not there: lease" in screen.text("#p-leases")
    assert "No key goes with this lease" in screen.text("#p-keys")


def test_a_value_is_text_hexadecimal_or_base64(screen: Screen) -> None:
    """What is no text is told in hexadecimal; a reader may have either; nothing of a value is markup."""
    screen.open("/key/%2Fconfig%2Fkey.der")
    assert screen.text("#p-value pre").startswith("00 01 02 03")
    assert "The beginning of 75.0 KiB." in screen.text("#p-value")
    screen.page.locator("#p-value").get_by_role("button", name="Base64").click()
    screen.until("() => document.querySelector('#p-value pre').textContent.startsWith('AAECAw')")
    assert "as=base64" in screen.hash()
    screen.open("/key/~FF%2500raw")
    assert screen.text("#p-value pre") == r"<b>left\u202eright</b>"
    screen.page.locator("#p-value").get_by_role("button", name="Hex").click()
    screen.until("() => document.querySelector('#p-value pre').textContent.startsWith('3c 62 3e')")
    screen.open("/key/%2Fconfig%2Fempty")
    assert "The value is empty" in screen.text("#p-value")


def test_what_is_not_there_is_said_to_be_so(screen: Screen, facts: list[dict[str, Any]]) -> None:
    """A key that never was, one that was deleted, one before its time, and a search that finds nothing."""
    screen.open("/key/%2Fnever")
    assert "There is no such key, and never was." in screen.text(".headline")
    screen.open("/key/%2Fconfig%2Fold")
    assert "It is not there. Deleted" in screen.text(".headline")
    deleted = next(f["offset"] for f in facts if f["type"] == "KeyDeleted" and f["event"]["key"] == "/config/old")
    screen.open(f"/key/%2Fconfig%2Fold?at={deleted}")
    assert screen.text("#p-value pre") == "1"
    screen.open("/keys?at=20")
    assert "No key is stored at this offset." in screen.text("#p-keys")
    assert "No lease is granted." in screen.text("#p-leases")
    screen.open("/keys?q=nothing-like-this")
    assert "No key matches" in screen.text("#p-keys")


def test_keys_are_searched_and_opened_by_keyboard(screen: Screen) -> None:
    """`g k` opens the screen, `/` its search, `j` and Enter a row."""
    screen.open("/now")
    screen.page.evaluate("() => document.activeElement.blur()")
    screen.press("g", "k")
    screen.until("() => location.hash === '#/keys'")
    screen.settled()
    screen.press("/")
    screen.page.keyboard.type("PAY/3")
    screen.until(
        "() => [...document.querySelectorAll('.kv tbody th')].map(e => e.innerText).join() === '/services/pay/3'"
    )
    screen.press("Escape")
    screen.press("j", "Enter")
    screen.until("() => location.hash.startsWith('#/key/%2Fservices%2Fpay%2F3')")
    assert screen.settled().text("h1") == "/services/pay/3"


@pytest.fixture
def many(chromium: Browser, tmp_path: Path) -> Iterator[Screen]:
    """A window on a log with 200,000 keys."""
    log = tmp_path / "many.jsonl"
    sample = sample_log.SampleLog(1)
    sample.begin(["a"])
    sample.emit(FeatureLevelChanged(old=1, new=2), "user/a")
    for number in range(MANY):
        sample.emit(KeyPut(key=f"/k/{number % 1000:03d}/{number:06d}", value=b"%d" % number, lease=0, following=0), "a")
    log.write_bytes(b"".join(line + b"\n" for line in sample.lines()))
    with running(["dashboard", "--log", str(log), "--port", "0", "-o", "json"], tmp_path / "dashboard") as started:
        opened = context(chromium)
        yield Screen(opened.new_page(), address(started))
        opened.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_thousand_keys_are_a_page(many: Screen) -> None:
    """Counted without being read: an answer is a page, whatever is below; the last is as near as the first."""
    many.open("/keys")
    assert whole(many.text("#p-keys .note")) == MANY
    for path, rows in (
        ("keys", 1),
        ("keys?prefix=/k/", 100),
        ("keys?flat=1&from=/k/999/199999", 1),
        ("keys?q=199999", 0),
    ):
        body = msgspec.json.encode(many.data(path))
        assert len(body) < 60_000, path
        assert len(many.data(path)["entries"]) == rows, path
    many.open("/keys/%2Fk%2F")
    assert len(first_cells(many, ".kv")) == 100
    many.page.get_by_role("link", name="More keys").click()
    many.until("() => document.querySelector('.kv tbody th')?.innerText === '/k/100/'")
    many.open("/key/%2Fk%2F999%2F199999")
    assert many.text("#p-value pre") == "199999"
    many.assert_quiet()
