"""The page as tests read it: what it says, at which offset, and what it asked the service for.

Rules: nothing waits for time to pass, only for something to be there, with a generous deadline.
"""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import ConsoleMessage, Error, Page
from playwright.sync_api import TimeoutError as NotInTimeError

DEADLINE_MS = 30_000
NUMBER = re.compile(r"[\d,]+")


def whole(text: str) -> int:
    """The first whole number in a text, thousands grouped or not. Raises AssertionError when there is none."""
    found = NUMBER.search(text)
    assert found, f"no number in {text!r}"
    return int(found.group().replace(",", ""))


class Screen:
    """One browser window on one dashboard."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        page.set_default_timeout(DEADLINE_MS)
        page.on("console", self._said)
        page.on("pageerror", self._threw)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(f"{message.type}: {message.text}")

    def _threw(self, error: Error) -> None:
        self.errors.append(f"uncaught: {error.message}")

    def assert_quiet(self) -> None:
        """Fails when the page said an error or a warning."""
        assert not self.errors, self.errors

    def forgive(self, status: str) -> None:
        """Forget what the browser itself said of answers with this status, which the test brought about."""
        self.errors = [error for error in self.errors if status not in error]

    def open(self, route: str) -> "Screen":
        """Go to an address of the page (``/now?at=7``) and wait until everything on it is there."""
        if self.page.url.startswith(self.url):
            self.page.evaluate("route => { location.hash = route; }", route)
        else:
            self.page.goto(f"{self.url}#{route}")
        return self.settled()

    def settled(self) -> "Screen":
        """Wait until every panel shows what the address asks for."""
        self.page.wait_for_function(
            "() => { const main = document.querySelector('main');"
            " return main?.dataset.address === location.hash && main.getAttribute('aria-busy') === 'false'"
            " && !document.querySelector('.skeleton'); }"
        )
        return self

    def picture(self, path: Path) -> None:
        """Keep a picture of the whole window. Fails when there is nothing on it, or it is wider than the window."""
        self.page.evaluate("() => document.fonts.ready.then(() => true)")
        self.page.screenshot(path=path, animations="disabled")
        assert path.stat().st_size > 10_000
        size = self.page.viewport_size
        assert size is not None
        assert self.page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]

    def says(self, text: str) -> None:
        """Wait until this is on the page. Fails with what is there instead."""
        try:
            self.page.get_by_text(text).wait_for()
        except NotInTimeError:
            shown = " ".join(self.page.locator("main").inner_text().split())
            raise AssertionError(f"{self.hash()} does not say {text!r} but {shown!r}; {self.errors}") from None

    def until(self, condition: str, argument: object = None) -> None:
        """Wait until a JavaScript function is true of ``argument``."""
        self.page.wait_for_function(condition, arg=argument)

    def text(self, selector: str) -> str:
        """What the first such element says, in one line."""
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def texts(self, selector: str) -> list[str]:
        """What all such elements say."""
        return [" ".join(found.split()) for found in self.page.locator(selector).all_inner_texts()]

    def names(self, selector: str) -> list[str]:
        """The accessible labels of such elements."""
        found: list[str] = self.page.eval_on_selector_all(selector, "all => all.map(e => e.getAttribute('aria-label'))")
        return found

    def passes(self, offset: int) -> "Screen":
        """Wait until a page that follows the log shows what is so after this event."""
        self.until("n => +document.querySelector('[data-page-offset]')?.dataset.pageOffset > n", offset)
        return self.settled()

    def history_of_key(self, name: str, offset: int) -> list[int]:
        """The newest changes of a key, by their offsets, on its own page once that shows this event: fifty at most."""
        self.open(f"/key/{quote(name, safe='')}").passes(offset)
        return [whole(text) for text in self.texts(".kh tbody th")]

    def stamps(self) -> set[int]:
        """The offsets printed on the panels."""
        found: list[int] = self.page.eval_on_selector_all(
            ".stamp[data-offset]", "all => all.map(e => +e.dataset.offset)"
        )
        return set(found)

    def offset(self) -> int:
        """The page's offset, as the time bar tells it."""
        return whole(self.text("#dock .when i"))

    def hash(self) -> str:
        """The address after ``#``."""
        found: str = self.page.evaluate("() => location.hash")
        return found

    def press(self, *keys: str) -> "Screen":
        """Keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def copied(self) -> str:
        """What is on the clipboard."""
        found: str = self.page.evaluate("() => navigator.clipboard.readText()")
        return found

    def ask(self, path: str) -> dict[str, Any]:
        """Ask the service itself; the whole answer."""
        with urllib.request.urlopen(f"{self.url}api/{path}", timeout=30) as reply:
            found: dict[str, Any] = json.load(reply)
        return found

    def data(self, path: str) -> Any:
        """The data of an answer."""
        return self.ask(path)["data"]
