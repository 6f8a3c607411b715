"""Can everybody read and work it? Contrast of the palette and of what is on screen; names, roles, headings, labels.

Theory: WCAG 2.2, level AA: text 4.5 : 1 (3 : 1 from 24 px, or 18.7 px bold), marks and controls 3 : 1 (1.4.3, 1.4.11).
"""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.screen import Screen
from tests.browsers import context

TOKENS = Path(__file__).resolve().parents[2] / "spark/quorate_spark/dashboard/assets/css/tokens.css"
GROUNDS = ("paper", "sheet", "well")
TEXTS = ("ink", "ink-2", "ink-3", "ok", "warn", "bad", "time")
TEXT_PAIRS = [
    *((text, ground) for text in TEXTS for ground in GROUNDS),
    *(("ink", fill) for fill in ("ok-fill", "warn-fill", "time-fill")),
    *(("ink-2", fill) for fill in ("ok-fill", "time-fill")),
    ("on-bad", "bad-fill"),
    ("paper", "ink"),
    ("paper", "time"),
]
MARK_PAIRS = [
    *((mark, ground) for mark in ("ok", "warn", "bad", "time", "edge", "bad-fill") for ground in ("paper", "sheet")),
    ("ok-dot", "paper"),
    ("warn-dot", "paper"),
]
PAGES = (
    "now",
    "timeline",
    "elections",
    "sets",
    "set/push-03",
    "members",
    "member/mqtt-1",
    "journal",
    "shard/orders",
    "sessions",
    "session/sensor%2F00",
    "keys",
    "key/%2Fservices%2Fpay%2F2",
    "log?sel=900",
    "whatif",
    "diff",
    "streams",
)


def tokens() -> dict[str, tuple[str, str]]:
    """Light and dark of every colour, as the page's own file has them."""
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", TOKENS.read_text())
    return {name: (light, dark) for name, light, dark in found}


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Between 1 and 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_the_palette_keeps_its_contrast(scheme: int) -> None:
    """Every pair of text and ground that the page uses has 4.5 : 1, every mark without text 3 : 1."""
    colours = {name: pair[scheme] for name, pair in tokens().items()}
    assert len(colours) >= 20
    weak = [
        f"{one} on {other}: {ratio:.2f}"
        for pairs, least in ((TEXT_PAIRS, 4.5), (MARK_PAIRS, 3.0))
        for one, other in pairs
        if (ratio := contrast(colours[one], colours[other])) < least
    ]
    assert not weak


HERE = Path(__file__).parent
MEASURE = (HERE / "measure.js").read_text()
AUDIT = (HERE / "audit.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_on_screen_can_be_read_and_named(chromium: Browser, recorded: str, scheme: str) -> None:
    """On every page, newest and past, every text has its contrast and every control, picture and table its name."""
    opened = context(chromium, scheme=scheme)
    shown = Screen(opened.new_page(), recorded)
    election = shown.data("elections?limit=1")["elections"][0]["offset"]
    for route in (*PAGES, f"election/{election}", "now?at=700"):
        shown.open(f"/{route}")
        seen, weak = measured(shown)
        assert seen > 20, route
        assert not weak, route
        assert not shown.page.evaluate(AUDIT), route
    opened.close()
    shown.assert_quiet()


def measured(screen: Screen) -> tuple[int, list[str]]:
    """How many texts are on screen, and those whose contrast is too weak."""
    found: Any = screen.page.evaluate(MEASURE)
    return found[0], found[1]


def test_the_measure_finds_what_is_too_weak(fresh: Screen) -> None:
    """The check itself bites: grey on grey, a nameless button and an id used twice are found."""
    fresh.open("/now")
    fresh.page.evaluate(
        "() => { const p = document.createElement('p'); p.textContent = 'hardly there';"
        " p.style.color = '#bbb'; p.id = 'nav';"
        " document.querySelector('main').prepend(p, document.createElement('button')); }"
    )
    assert [text for text in measured(fresh)[1] if text.startswith("hardly there")]
    faults = " ".join(fresh.page.evaluate(AUDIT))
    assert "no name: <button>" in faults
    assert "id twice: nav" in faults


def test_a_state_is_told_without_colour(screen: Screen) -> None:
    """Tiles of different states differ in their name, and legend and table pair each colour with a shape and a word."""
    screen.open("/now")
    labels = {label.split(": ")[1].split(",")[0] for label in screen.names(".tile")}
    assert {"no master", "in full sync", "flapping"} <= labels
    shapes = screen.page.eval_on_selector_all(".legend use", "all => all.map(e => e.getAttribute('href'))")
    assert len(shapes) == len(set(shapes)) == len(screen.texts(".legend button"))
