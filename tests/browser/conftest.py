"""What browser tests share: one Chromium, one sample log behind one web service, and windows that hear errors."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser import sample_log
from tests.browser.screen import Screen
from tests.clusters import Started, running
from tests.peers import peer

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE = (1280, 800)
PHONE = (390, 844)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One headless Chromium for all tests; its tests are skipped by name where there is none."""
    program = peer("chromium") / "chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample log of 24 sets."""
    path = tmp_path_factory.mktemp("sample") / "sample.jsonl"
    sample_log.write(path)
    return path


@pytest.fixture(scope="session")
def facts(log: Path) -> list[dict[str, Any]]:
    """The sample log as plain JSON, for replays of the tests' own."""
    return [json.loads(line) for line in log.read_bytes().splitlines()]


@pytest.fixture(scope="session")
def recorded(log: Path) -> Iterator[str]:
    """Where a dashboard shows that log."""
    with running(["dashboard", "--log", str(log), "--port", "0", "-o", "json"], log.parent / "dashboard") as started:
        yield address(started)


def address(started: Started) -> str:
    """The address a dashboard said it has."""
    url: str = started.ready["url"]
    return url


def context(browser: Browser, size: tuple[int, int] = WIDE, scheme: str = "light") -> BrowserContext:
    """A window of its own."""
    made = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    made.grant_permissions(["clipboard-read", "clipboard-write"])
    return made


@pytest.fixture(scope="session")
def window(chromium: Browser, recorded: str) -> Iterator[Screen]:
    """The sample log in a wide window that stays open."""
    opened = context(chromium)
    yield Screen(opened.new_page(), recorded)
    opened.close()


@pytest.fixture
def screen(window: Screen) -> Iterator[Screen]:
    """That window; the test fails if the page says an error."""
    window.errors.clear()
    yield window
    window.assert_quiet()


@pytest.fixture
def fresh(chromium: Browser, recorded: str) -> Iterator[Screen]:
    """A window of the test's own, for what others should not remember."""
    opened = context(chromium)
    shown = Screen(opened.new_page(), recorded)
    yield shown
    opened.close()
    shown.assert_quiet()


@pytest.fixture(scope="session")
def gallery() -> Path:
    """Where pictures go."""
    root = Path(__file__).resolve().parents[2]
    path = Path(os.environ.get("QUORATE_GALLERY", root / ".run" / "gallery"))
    path.mkdir(parents=True, exist_ok=True)
    return path
