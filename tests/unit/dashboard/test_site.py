"""The page's files fit together: every page can be reached, and what pages ask for is what the service answers."""

import re
from pathlib import Path

from quorate_spark.dashboard.answering import Panels
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.site import ASSETS

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = {path: path.read_text() for path in sorted((ASSETS / "js").rglob("*.js"))}
APP = SCRIPTS[ASSETS / "js/app.js"]
PAGES = {path.stem for path in SCRIPTS if path.parent.name == "pages"}
NAV = dict(re.findall(r'\["(\w+)", "[\w ]+", "(\w)"\]', APP))
PANELS = set(Panels(Settings()).routes)
OTHERS = {"announced", "streams", "whatif"}
"""Answers that are no panels: of the serving store and the projections, and of a node."""


def test_every_page_can_be_reached() -> None:
    """Each file of a page is imported under its name, is among the pages, and has a place in the menu or below one."""
    assert set(re.findall(r'^import \* as (\w+) from "./pages/\1.js";$', APP, re.MULTILINE)) == PAGES
    (known,) = re.findall(r"^const PAGES = \{ __proto__: null, (.*) \};$", APP, re.MULTILINE)
    (below,) = re.findall(r"^const PARENT = \{ (.*) \};$", APP, re.MULTILINE)
    parents = dict(re.findall(r'(\w+): "(\w+)"', below))
    assert set(known.split(", ")) == PAGES == {*NAV, *parents}
    assert set(parents.values()) <= NAV.keys()


def test_every_page_of_the_menu_has_a_documented_key() -> None:
    """One letter each, and the table of keys lists them in the order of the menu."""
    assert len(set(NAV.values())) == len(NAV)
    assert f"`g` then `{' '.join(NAV.values())}`" in (ROOT / "docs/dashboard.md").read_text()


def test_what_is_asked_for_is_answered_and_what_is_answered_is_asked_for() -> None:
    """Pages ask for panels that are there, and no panel is there for nobody."""
    asked = {name for text in SCRIPTS.values() for name in re.findall(r'path: ["`](\w+)', text)}
    assert asked - OTHERS == PANELS


def test_every_panel_has_a_judge() -> None:
    """The module of each panel is imported by a test, which compares it with a plain replay."""
    panels = {path.stem for path in (ASSETS.parent / "panels").glob("[a-z]*.py")} - {"view"}
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    lists = re.findall(r"from quorate_spark\.dashboard\.panels import ([\w, ]+)", tests)
    judged = {*", ".join(lists).split(", "), *re.findall(r"from quorate_spark\.dashboard\.panels\.(\w+) import", tests)}
    assert panels - judged == set()
