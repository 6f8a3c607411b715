"""Moving through time and through the page: the time bar, the keys, permalinks, the order of focus."""

from playwright.sync_api import Browser, Route

from tests.browser.screen import Screen, whole
from tests.browsers import PHONE, context


def test_the_time_bar_moves_every_panel(screen: Screen) -> None:
    """Arrows on the slider step by event, and all panels follow to the very offset, which stands in the address."""
    end = screen.data("about")["end_offset"]
    screen.open("/now")
    slider = screen.page.get_by_role("slider", name="Offset shown on every panel")
    slider.focus()
    screen.press("ArrowLeft", "ArrowLeft")
    screen.until("n => document.querySelector('[role=slider]').ariaValueNow == n", end - 2)
    screen.settled()
    assert screen.stamps() == {end - 2}
    assert screen.hash() == f"#/now?at={end - 2}"
    slider.press("Home")
    screen.until("() => location.hash === '#/now?at=0'")
    slider.press("End")
    screen.until("() => location.hash === '#/now'")
    assert screen.settled().stamps() == {end}


def test_dragging_the_time_bar_shows_the_past(screen: Screen) -> None:
    """A press in the middle of the bar leads to an offset there, told by banner and stamps alike; Live leads back."""
    screen.open("/now")
    box = screen.page.locator(".track svg").bounding_box()
    assert box
    screen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 12)
    screen.until("() => location.hash.includes('at=')")
    screen.settled()
    [offset] = screen.stamps()
    assert f"as of offset {offset:,}" in screen.text("#banner")
    answer = screen.ask(f"health?at={offset}")
    density = screen.data("density?buckets=2")
    assert abs(answer["time"] - (density["from"] + density["to"]) / 2) < (density["to"] - density["from"]) / 40
    screen.page.get_by_role("button", name="Live", exact=True).click()
    screen.until("() => !location.hash.includes('at=')")


def test_steps_lead_from_election_to_election(screen: Screen) -> None:
    """Braces jump to the offset right after the election before or after the page's own."""
    offsets = [election["offset"] for election in screen.data("elections?limit=5")["elections"]]
    screen.open("/now")
    for offset in offsets[:3]:
        screen.press("{")
        screen.until("n => location.hash === `#/now?at=${n}`", offset + 1)
    screen.press("}")
    screen.until("n => location.hash === `#/now?at=${n}`", offsets[1] + 1)
    screen.press("Escape")
    screen.until("() => location.hash === '#/now'")


def test_playing_goes_forward_and_stops(screen: Screen) -> None:
    """Space plays event by event and space stops it."""
    screen.open("/now?at=500")
    screen.page.evaluate("() => document.activeElement.blur()")
    screen.press(" ")
    screen.until("() => +new URLSearchParams(location.hash.split('?')[1]).get('at') >= 504")
    screen.press(" ")
    screen.page.get_by_role("button", name="Play").wait_for()
    assert screen.settled().stamps() == {whole(screen.hash().split("at=")[1])}


def test_every_page_has_a_key(screen: Screen) -> None:
    """g and a letter lead to each page; the offset comes along."""
    screen.open("/now?at=700")
    keys = {
        "t": "timeline",
        "e": "elections",
        "s": "sets",
        "l": "log",
        "w": "whatif",
        "d": "diff",
        "r": "streams",
        "n": "now",
    }
    for key, page in keys.items():
        screen.press("g", key)
        screen.until("wanted => location.hash === wanted", f"#/{page}?at=700")
    screen.settled()


def test_rows_and_the_filter_are_reached_by_keys(screen: Screen) -> None:
    """Slash focuses the filter, Escape leaves it, j and k walk rows, Enter opens one."""
    screen.open("/sets")
    screen.press("/")
    assert screen.page.evaluate("() => document.activeElement.type") == "search"
    screen.page.keyboard.type("az-b pay")
    screen.until("() => [...document.querySelectorAll('.sets tbody tr')].every(r => r.textContent.includes('pay'))")
    assert "q=az-b+pay" in screen.hash()
    screen.press("Escape", "j", "j", "k")
    row = screen.page.evaluate("() => document.activeElement.dataset.key")
    screen.press("Enter")
    screen.until("name => location.hash === `#/set/${name}`", row)
    screen.settled()


def test_arrows_walk_the_map(screen: Screen) -> None:
    """One tile is in the order of focus; arrows move to its neighbours and Enter opens the set."""
    screen.open("/now")
    assert screen.page.locator('.tile[tabindex="0"]').count() == 1
    screen.page.locator('.tile[tabindex="0"]').focus()
    first = screen.page.evaluate("() => document.activeElement.dataset.name")
    screen.press("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown")
    name = screen.page.evaluate("() => document.activeElement.dataset.name")
    assert name != first
    assert screen.page.locator('.tile[tabindex="0"]').count() == 1
    screen.press("Enter")
    screen.until("name => location.hash === `#/set/${name}`", name)


def test_a_permalink_holds_the_offset(screen: Screen) -> None:
    """c copies an address that shows the same page at the same offset later, even if it was live when copied."""
    end = screen.data("about")["end_offset"]
    screen.open("/set/push-03")
    screen.press("c")
    screen.until("() => document.querySelector('#toast').classList.contains('on')")
    assert screen.copied() == f"{screen.url}#/set/push-03?at={end}"


def test_no_node_is_asked_before_the_page_knows_of_nodes(fresh: Screen) -> None:
    """What only nodes can answer is asked for once the service has said that it follows nodes: this one does not."""
    asked, held = list[str](), list[Route]()
    fresh.page.on("request", lambda request: asked.append(request.url))

    def hold(question: Route) -> None:
        held.append(question)

    fresh.page.route("**/api/about", hold)
    fresh.page.goto(f"{fresh.url}#/set/push-03")
    fresh.page.locator("#p-members tbody tr").first.wait_for()
    for question in held:
        question.continue_()
    fresh.settled()
    assert held
    assert not [url for url in asked if "api/announced" in url]


def test_help_names_every_key(screen: Screen) -> None:
    """The question mark opens a dialog with the keys; Escape closes it and stays where we were."""
    screen.open("/log")
    screen.press("?")
    dialog = screen.page.get_by_role("dialog")
    shown = " ".join(dialog.inner_text().split())
    for word in ("Timeline", "Streams", "previous, next election", "copy a link to this offset", "UTC or local time"):
        assert word in shown
    screen.press("Escape")
    dialog.wait_for(state="hidden")
    assert screen.hash() == "#/log"


def test_light_and_dark_and_local_time_are_a_key_away(fresh: Screen) -> None:
    """d turns the colours, u the zone of times, and both are remembered."""
    fresh.open("/now")
    background = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = fresh.page.evaluate(background)
    fresh.press("d")
    assert fresh.page.evaluate(background) != light
    fresh.press("u")
    fresh.until("() => document.querySelector('#zone').textContent === 'local'")
    fresh.page.reload()
    fresh.settled()
    assert fresh.page.evaluate(background) != light
    assert fresh.text("#zone") == "local"


def test_the_order_of_focus_is_the_order_of_the_page(fresh: Screen) -> None:
    """Tab goes skip link, brand, pages, tools, content, time bar; every stop has a name and a visible outline."""
    fresh.open("/now")
    stops = []
    for _ in range(80):
        fresh.press("Tab")
        stop = fresh.page.evaluate(
            "() => { const e = document.activeElement; if (e === document.body) return null;"
            " const part = e.closest('.top, main, .dock')?.className || e.closest('main') && 'main' || 'skip';"
            " const outline = getComputedStyle(e).outlineStyle;"
            " return [part, (e.getAttribute('aria-label') || e.textContent || '').trim(), outline]; }"
        )
        if stop is None:
            break
        stops.append(stop)
    parts = [part for part, _, _ in stops]
    assert parts[0] == "skip"
    assert sorted(set(parts), key=parts.index) == ["skip", "top", "main", "dock"]
    assert parts == sorted(parts, key=["skip", "top", "main", "dock"].index)
    assert all(name for _, name, _ in stops)
    assert all(outline != "none" for _, _, outline in stops)


def test_nothing_sticks_out_on_a_phone(chromium: Browser, recorded: str) -> None:
    """At 390 pixels no page scrolls sideways."""
    window = context(chromium, PHONE)
    shown = Screen(window.new_page(), recorded)
    for page in ("now", "timeline", "elections", "sets", "set/log-04", "log?sel=40", "whatif", "diff", "streams"):
        shown.open(f"/{page}")
        assert shown.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0], page
    window.close()
    shown.assert_quiet()


def test_nothing_is_hidden_behind_the_time_bar(screen: Screen) -> None:
    """Scrolled to its end, the last panel ends above the time bar."""
    screen.open("/elections")
    screen.page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    low, bar = screen.page.evaluate(
        "() => [document.querySelector('main').getBoundingClientRect().bottom,"
        " document.querySelector('.dock').getBoundingClientRect().top]"
    )
    assert low <= bar


def test_offsets_beyond_the_end_are_said_to_be(screen: Screen) -> None:
    """A link to an offset that is not written yet says where the log ends instead of failing."""
    end = screen.data("about")["end_offset"]
    screen.open(f"/now?at={end + 100}")
    screen.says("is not written yet")
    assert f"ends at {end:,}" in screen.text("#banner")
    screen.page.get_by_role("button", name="Show the newest").click()
    screen.until("() => location.hash === '#/now'")
    screen.settled()
    screen.errors = [error for error in screen.errors if "416" not in error]
