"""Pictures of every screen at both widths, light and dark: build output to look at (``.run/gallery``).

``docs/gallery`` holds a few of them, made by ``python -m tests.browser.gallery``.
"""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.screen import Screen
from tests.browsers import PHONE, WIDE, context

ROOT = Path(__file__).resolve().parents[2]
SCREENS = {
    "now": "/now",
    "past": "/now?at=900",
    "timeline": "/timeline",
    "elections": "/elections",
    "sets": "/sets",
    "set": "/set/push-03",
    "members": "/members?role=mqtt",
    "member": "/member/journal-1",
    "journal": "/journal",
    "shard": "/shard/orders",
    "sessions": "/sessions",
    "session": "/session/sensor%2F05",
    "keys": "/keys/%2Fservices%2F",
    "key": "/key/%2Fservices%2Fpay%2F2",
    "log": "/log?q=set:log-04",
    "whatif": "/whatif",
    "diff": "/diff?from=800&to=1000",
    "streams": "/streams",
}
SIZES = {"1280": WIDE, "390": PHONE}


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        ("1280", "light"),
        ("390", "dark"),
        pytest.param("1280", "dark", marks=pytest.mark.slow),
        pytest.param("390", "light", marks=pytest.mark.slow),
    ],
)
def test_every_screen_is_pictured(chromium: Browser, recorded: str, gallery: Path, width: str, scheme: str) -> None:
    """Each screen renders without an error, fits its width, and is kept as a picture."""
    opened = context(chromium, SIZES[width], scheme)
    shown = Screen(opened.new_page(), recorded)
    screens = {**SCREENS, "election": f"/election/{election_of(shown)}", "record": f"/log?sel={election_of(shown)}"}
    for name, route in screens.items():
        shown.open(route)
        shown.picture(gallery / f"{name}-{width}-{scheme}.png")
    opened.close()
    shown.assert_quiet()


def election_of(screen: Screen) -> int:
    """The newest election that the offset decided: the one with the most to tell."""
    found = screen.data("elections?limit=200")["elections"]
    offsets = [e["offset"] for e in found if e["decided_by"] == "higher max offset" and e["alive"] > 1]
    return int(offsets[0] if offsets else found[0]["offset"])


def test_the_gallery_is_small_and_linked() -> None:
    """The pictures of the documentation are below 600 KB together, and each is linked from the README."""
    pictures = sorted((ROOT / "docs" / "gallery").iterdir())
    assert len(pictures) >= 5
    assert sum(path.stat().st_size for path in pictures) < 600_000
    readme = (ROOT / "README.md").read_text()
    assert not [path.name for path in pictures if f"docs/gallery/{path.name}" not in readme]
