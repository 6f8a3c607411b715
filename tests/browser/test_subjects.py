"""Subjects of schemas in the browser, on the screen of keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from quorate.events import ConfigChange, ConfigChanged, FeatureLevelChanged, SchemaAdded, SchemaRegistered
from tests.browser import sample_log
from tests.browser.screen import Screen
from tests.browsers import address, context
from tests.clusters import running

ID, MANY = 1_000_001, 60


@pytest.fixture
def screen(chromium: Browser, tmp_path: Path) -> Iterator[Screen]:
    """A window on a log with more subjects than a page holds."""
    log = tmp_path / "subjects.jsonl"
    sample = sample_log.SampleLog(1)
    sample.begin(["a"])
    sample.emit(FeatureLevelChanged(old=1, new=2), "user/a")
    sample.emit(SchemaAdded(schema_id=ID, schema_type="AVRO", schema='"int"'), "user/a")
    for number in range(MANY):
        name = f"<b>{number:02d}</b>"
        sample.emit(SchemaRegistered(subject=name, version=1, schema_id=ID, compatibility="BACKWARD"), "user/b")
    own = ConfigChange(name="compatibility", old=None, new="FULL")
    sample.emit(ConfigChanged(scope="subject/<b>00</b>", changes=(own,)), "user/a")
    log.write_bytes(b"".join(line + b"\n" for line in sample.lines()))
    with running(["dashboard", "--log", str(log), "--port", "0", "-o", "json"], tmp_path / "dashboard") as started:
        opened = context(chromium)
        shown = Screen(opened.new_page(), address(started))
        yield shown
        shown.assert_quiet()
        opened.close()


def test_subjects_are_listed_with_what_the_next_schema_is_checked_by(screen: Screen) -> None:
    """A page of them by name, its rows as the service tells them; nothing of a name is markup; the next page is a link
    away, and where only some keys are meant there are none.
    """
    told = screen.data("subjects")
    screen.open("/keys")
    names = screen.texts(".sj tbody th")
    assert names == [one["subject"] for one in told["subjects"]]
    first, second = (screen.texts(f".sj tbody tr:nth-child({row}) td") for row in (1, 2))
    assert (first[:4], second[:4]) == (["1", str(ID), "1", "FULL"], ["1", str(ID), "1", "BACKWARD as for all"])
    assert (first[5], first[6]) == (f"@{told['subjects'][0]['offset']:,}", "user/b")
    screen.page.get_by_role("link", name="More subjects").click()
    screen.until("n => document.querySelectorAll('.sj tbody tr').length === n", MANY - len(names))
    screen.open("/keys?at=3")
    assert "No schema is registered at this offset." in screen.text("#p-subjects")
    screen.open("/keys?q=x")
    assert not screen.page.locator("#p-subjects").count()
