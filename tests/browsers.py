"""A headless Chromium, its windows, and the page of a living cluster in one."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, sync_playwright

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


@contextmanager
def headless() -> Iterator[Browser]:
    """Chromium; without it the test is skipped by its name. Meanwhile no other loop can run in this thread."""
    program = peer("chromium") / "chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=list(FLAGS))
        yield browser
        browser.close()


def context(browser: Browser, size: tuple[int, int] = WIDE, scheme: str = "light") -> BrowserContext:
    """A window of its own."""
    made = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    made.grant_permissions(["clipboard-read", "clipboard-write"])
    return made


def address(started: Started) -> str:
    """The address a dashboard said it has."""
    url: str = started.ready["url"]
    return url


@contextmanager
def showing(browser: Browser, cluster: Started) -> Iterator[Screen]:
    """A window on a dashboard that follows all nodes of this cluster. Fails when the page said an error."""
    nodes = ",".join(node["kafka"] for node in cluster.nodes)
    words = ["dashboard", "--nodes", nodes, "--port", "0", "-o", "json"]
    with running(words, cluster.folder.with_name("dashboard")) as started:
        opened = context(browser)
        shown = Screen(opened.new_page(), address(started))
        yield shown
        opened.close()
        shown.assert_quiet()
