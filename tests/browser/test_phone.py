"""The page on a phone, 390 pixels wide: nothing of it is cut; and a figure that is amber says above what."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route

from tests.browser.screen import Screen
from tests.browser.test_gallery import SCREENS, election_of
from tests.browsers import PHONE, context

CUT = (Path(__file__).parent / "cut.js").read_text()


@pytest.fixture(name="phone")
def _phone(chromium: Browser, recorded: str) -> Iterator[Screen]:
    opened = context(chromium, PHONE)
    shown = Screen(opened.new_page(), recorded)
    yield shown
    opened.close()
    shown.assert_quiet()


def test_no_column_and_no_menu_is_cut(phone: Screen) -> None:
    """On every screen the whole menu and every cell of every table stand between the edges."""
    phone.open("/now")
    election = election_of(phone)
    for name, route in {**SCREENS, "election": f"/election/{election}", "record": f"/log?sel={election}"}.items():
        phone.open(route)
        phone.page.evaluate("() => document.fonts.ready.then(() => true)")
        assert phone.page.evaluate(CUT) == [], name
        assert phone.page.locator("#nav a:visible").count() == 12, name


def test_a_row_on_a_phone_names_its_columns(phone: Screen) -> None:
    """Where the head of a table is not shown, each cell says its own heading."""
    phone.open("/sets")
    assert not phone.page.locator(".rows.sets thead").is_visible()
    said = phone.page.eval_on_selector_all(
        ".rows.sets tbody tr:first-child td", "all => all.map(e => getComputedStyle(e, '::before').content)"
    )
    heads = phone.page.eval_on_selector_all(".rows.sets thead th", "all => all.map(e => e.textContent)")
    assert [text.strip('" ') for text in said] == heads[1:]


def test_what_is_cut_is_found(phone: Screen) -> None:
    """The check itself bites."""
    phone.open("/now")
    phone.page.evaluate(
        "() => { const p = document.createElement('p'); p.textContent = 'too wide'; p.style.width = '500px';"
        " document.querySelector('main').prepend(p); }"
    )
    assert [text for text in phone.page.evaluate(CUT) if text.endswith("too wide")]


def test_an_amber_figure_names_its_threshold(phone: Screen) -> None:
    """A reader 2,000 events behind is amber; the cell and its title say above how many. One 900 behind is not."""

    def far_behind(route: Route) -> None:
        answer: Any = json.loads(route.fetch().text())
        [stream, *_] = answer["data"]["streams"]
        answer["data"]["streams"] = [
            {**stream, "name": name, "lag": lag} for name, lag in (("far", 2000), ("near", 900))
        ]
        route.fulfill(json=answer)

    phone.page.route("**/api/streams*", far_behind)
    phone.open("/streams")
    found = phone.page.wait_for_function(  # Both at one moment: the page goes on, and what it is pushed is not faked.
        "() => { const cells = [...document.querySelectorAll('#p-streams td.warn-t')];"
        " return cells.length && cells.map(cell => [cell.innerText.split(/\\s+/).join(' '), cell.title]); }"
    )
    assert found.json_value() == [["2,000 (over 1,000)", "Amber above 1,000 events"]]
