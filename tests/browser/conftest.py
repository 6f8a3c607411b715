"""What browser tests share: one Chromium, one sample log behind one web service, and windows that hear errors."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser import sample_log
from tests.browser.screen import Screen
from tests.browsers import address, context, headless
from tests.clusters import running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One headless Chromium for all tests; its tests are skipped by name where there is none."""
    with headless() as browser:
        yield browser


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
