"""Make ``docs/gallery`` anew: ``python -m tests.browser.gallery`` (same sample log, same pictures)."""

import base64
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser import sample_log
from tests.browser.screen import Screen
from tests.browsers import FLAGS, PHONE, address, context
from tests.clusters import running
from tests.peers import PEERS

GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"
QUALITY = 78
PICTURES = {
    "now": ("/now", (1280, 860), "light"),
    "timeline": ("/timeline", (1280, 860), "dark"),
    "election": ("/election/{election}", (1280, 1240), "light"),
    "set": ("/set/push-03", (1280, 860), "light"),
    "log": ("/log?sel={election}", (1280, 860), "dark"),
    "past": ("/now?at=900", PHONE, "dark"),
    "phone": ("/election/{election}", PHONE, "light"),
    "members": ("/members?role=mqtt", PHONE, "light"),
    "shard": ("/shard/orders", PHONE, "dark"),
    "keys": ("/keys/%2Fservices%2F", PHONE, "light"),
}


def picture(browser: Browser, url: str, route: str, size: tuple[int, int], scheme: str) -> bytes:
    """One screen as WebP."""
    opened = context(browser, size, scheme)
    shown = Screen(opened.new_page(), url)
    shown.open("/now")
    elections = shown.data("elections?limit=200")["elections"]
    chosen = next(e["offset"] for e in elections if e["decided_by"] == "higher max offset")
    shown.open(route.format(election=chosen))
    shown.page.evaluate("() => document.fonts.ready.then(() => true)")
    session = opened.new_cdp_session(shown.page)
    taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    opened.close()
    return base64.b64decode(taken["data"])


def main() -> None:
    """Write every picture."""
    GALLERY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        log = Path(folder) / "sample.jsonl"
        sample_log.write(log)
        browser = playwright.chromium.launch(executable_path=str(PEERS / "chromium/chromium"), args=list(FLAGS))
        words = ["dashboard", "--log", str(log), "--port", "0", "-o", "json"]
        with running(words, Path(folder) / "dashboard") as started:
            for name, (route, size, scheme) in PICTURES.items():
                taken = picture(browser, address(started), route, size, scheme)
                (GALLERY / f"{name}.webp").write_bytes(taken)
                print(f"{name}: {len(taken):,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
