"""Keys and leases at any offset, against a plain replay; pages, segments and searches, against a plain list."""

import asyncio
import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate.events import (
    ClusterCreated,
    Event,
    KeyDeleted,
    KeyPut,
    LeaseEnded,
    LeaseGranted,
    NodeAddresses,
    Stamp,
    Voter,
    encode,
    ordered_name,
)
from quorate.model.words import lease_of
from quorate_spark.dashboard.live import facts_since
from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.model import Leader
from quorate_spark.dashboard.panels import diff, events, keys, leases
from quorate_spark.dashboard.panels.values import shown, value
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.soft import SoftState
from quorate_spark.dashboard.soft_state import LeaseSoft, Soft
from quorate_spark.dashboard.spool import Fact
from tests.dashboard.lives import FLAPPING, log_of, plain, told, view
from tests.dashboard.replay import Replay, raw
from tests.unit.dashboard.test_service import DOCS, SECTION, differing

EVENTS = 500
SEEDS = st.integers(0, 11)
SHARES = st.floats(0, 1)
ADDRESSES = NodeAddresses(rpc="h:1", raft="h:2", kafka="h:3", http="h:4")


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the replay has it; its value is short, and was not cut."""
    found = {name: row[name] for name in row if name not in ("kind", "shown")}
    if found["value"] is not None:
        assert not found["value"]["cut"]
        found["value"] = found["value"]["base64"]
    return found


@given(SEEDS, SHARES)
@settings(max_examples=40, deadline=None)
def test_keys_are_what_a_replay_says(seed: int, share: float) -> None:
    """At every offset each key has the value, revisions, version, lease, time and author of the events before it."""
    log = log_of(seed, EVENTS)
    seen, replay = view(log, round(share * log.tip.offset)), Replay(told(seed, EVENTS), round(share * log.tip.offset))
    answer = plain(keys.keys(seen, "", "", "", None, flat=True, limit=1_000))
    assert [whole(row) for row in answer["entries"]] == replay.key_rows()
    assert (answer["total"], answer["next"], answer["looked"]) == (len(replay.keys), None, None)
    for row in replay.lease_rows():
        held = plain(keys.keys(seen, "", "", "", lease_of(row["lease"]), flat=False, limit=1_000))
        assert [one["name"] for one in held["entries"]] == row["names"]


@given(SEEDS, SHARES, st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_a_key_s_history_is_every_event_of_it(seed: int, share: float, limit: int) -> None:
    """Page after page, newest first: each put and deletion before the offset, once, with its author and its time."""
    log = log_of(seed, EVENTS)
    offset = round(share * log.tip.offset)
    seen, replay = view(log, offset), Replay(told(seed, EVENTS), offset)
    for name in ("/a", "/b/c", "%00", "~FF~7E", "/never"):
        changes, before = [], None
        while True:
            answer = plain(keys.key(seen, name, before, limit))
            assert (answer["key"] and whole(answer["key"])) == replay.keys.get(name)
            changes += answer["changes"]
            if (before := answer["next"]) is None:
                break
        texts = [change.pop("text") for change in changes]
        assert [whole(change) for change in changes] == list(reversed(replay.of_keys.get(name, [])))
        assert all(texts)


@given(SEEDS, SHARES, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_leases_are_what_a_replay_says(seed: int, share: float, limit: int) -> None:
    """Page after page, each lease with its time, who asked for it, what was written down, and its keys."""
    log = log_of(seed, EVENTS)
    offset = round(share * log.tip.offset)
    seen, replay = view(log, offset), Replay(told(seed, EVENTS), offset)
    rows, start = [], 0
    while True:
        answer = plain(leases.leases(seen, start, None, limit))
        rows += answer["leases"]
        if answer["next"] is None:
            break
        start = lease_of(answer["next"]) or 0
    expected = replay.lease_rows()
    assert [{name: row[name] for name in row if name not in ("key", "keys", "names")} for row in rows] == [
        {name: row[name] for name in row if name != "names"} for row in expected
    ]
    assert [(row["keys"], [one["name"] for one in row["names"]]) for row in rows] == [
        (len(row["names"]), row["names"][: leases.KEYS_SHOWN]) for row in expected
    ]
    assert answer["total"] == len(expected)


def test_the_lives_reach_keys_and_leases() -> None:
    """Laws about what never comes are no laws: keys under leases, deleted ones, leases that are there."""
    replays = [Replay(told(seed, EVENTS), EVENTS) for seed in range(12)]
    assert sum(len(one.keys) for one in replays) > 20
    assert sum(bool(row["lease"]) for one in replays for row in one.keys.values()) > 2
    assert sum(change["what"] == "deleted" for one in replays for of in one.of_keys.values() for change in of) > 20
    assert sum(len(one.leases) for one in replays) > 5


# -- made-up keys


def logged(*events: Event) -> FoldedLog:
    """A log of these, a second apart."""
    voters = (Voter(id=1, dir_uuid="u", addresses=ADDRESSES),)
    born = ClusterCreated(cluster_id="c", voters=voters, feature_level=2)
    log = FoldedLog()
    log.take([
        Fact(Stamp(offset=offset, term=1, time_ms=1_000 * offset, principal="me", cause=""), event, encode(event))
        for offset, event in enumerate((born, *events))
    ])  # fmt: skip
    return log


def put(name: bytes, data: bytes = b"v", lease: int = 0, following: int = 0) -> KeyPut:
    """The event."""
    return KeyPut(key=ordered_name(name), value=data, lease=lease, following=following)


NAMES = st.lists(st.binary(max_size=6).map(lambda data: bytes(b"/ab\xff"[byte % 4] for byte in data)), unique=True)


def paged(log: FoldedLog, prefix: bytes, q: str, *, flat: bool, limit: int) -> list[tuple[bytes, int]]:
    """All pages of an answer: keys (0), and segments with how many keys they hold."""
    seen, start, found = view(log, log.tip.offset), "", list[tuple[bytes, int]]()
    while True:
        answer = keys.keys(seen, ordered_name(prefix), start, q, None, flat=flat, limit=limit)
        assert len(answer.entries) <= limit
        for one in answer.entries:
            found.append((raw(one.name), 0) if isinstance(one, keys.KeyRow) else (raw(one.prefix), one.keys))
        if answer.next is None:
            return found
        start = answer.next


@given(NAMES, st.sampled_from([b"", b"/", b"/a", b"a/", b"\xff"]), st.integers(1, 5))
@settings(deadline=None)
def test_segments_hold_every_key_once(names: list[bytes], prefix: bytes, limit: int) -> None:
    """Over all pages, in order: a key alone in its segment stands for itself, a segment for the keys that it counts."""
    log = logged(*map(put, names))
    found = paged(log, prefix, "", flat=False, limit=limit)
    below = sorted(name for name in names if name.startswith(prefix))
    held = [[name] if not count else [one for one in below if one.startswith(name)] for name, count in found]
    assert [name for part in held for name in part] == below
    for (name, count), part in zip(found, held, strict=True):
        inner = name[len(prefix) + 1 :]
        if count:
            assert len(part) == count > 1
            assert inner.count(b"/") == 1
            assert inner.endswith(b"/")
        elif b"/" in inner:
            segment = name[: name.index(b"/", len(prefix) + 1) + 1]
            assert sum(one.startswith(segment) for one in below) == 1


@given(
    NAMES, st.sampled_from([b"", b"/", b"a"]), st.sampled_from(["", "a", "B", "/ b", "a/b", "ab a"]), st.integers(1, 5)
)
@settings(deadline=None)
def test_a_search_finds_what_holds_all_words(names: list[bytes], prefix: bytes, q: str, limit: int) -> None:
    """Page after page gives each key below the prefix that holds every word, in either case, once and in order."""
    log = logged(*map(put, names))
    found = [name for name, _ in paged(log, prefix, q, flat=True, limit=limit)]
    words = q.lower().encode().split()
    assert found == sorted(n for n in names if n.startswith(prefix) and all(word in n.lower() for word in words))


def test_a_search_looks_at_so_many_keys_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys there are, one question looks at a bounded number; the next goes on where it ended."""
    monkeypatch.setattr(keys, "LOOKED_MAX", 10)
    log = logged(*(put(b"k%03d" % number) for number in range(95)))
    seen = view(log, log.tip.offset)
    first = keys.keys(seen, "", "", "k09", None, flat=False, limit=100)
    assert (first.entries, first.looked, first.next) == ([], 10, "k010")
    assert [name for name, _ in paged(log, b"", "k09", flat=False, limit=100)] == [
        b"k090",
        b"k091",
        b"k092",
        b"k093",
        b"k094",
    ]


def test_a_page_behind_a_very_long_name_has_a_short_address() -> None:
    """A name may be longer than an address: the page after it is found by as little of the next name as parts them."""
    log = logged(put(b"a" * 100_000), put(b"a" * 10 + b"b"), put(b"c"))
    seen = view(log, log.tip.offset)
    answer = keys.keys(seen, "", "", "", None, flat=True, limit=1)
    assert answer.next == "a" * 10 + "b"
    assert keys.keys(seen, "", "b", "", None, flat=True, limit=1).total == 3


@pytest.mark.parametrize("wrong", ["%", "ä", "%2f", "~41", "a b"])
def test_a_text_of_no_key_is_refused(wrong: str) -> None:
    """A name that the log could not have is said to be none, wherever it is asked for."""
    seen = view(logged(), 1)
    for asked in (
        lambda: keys.keys(seen, wrong, "", "", None, flat=False, limit=1),
        lambda: keys.keys(seen, "", wrong, "", None, flat=False, limit=1),
        lambda: keys.key(seen, wrong, None, 1),
    ):
        with pytest.raises(UsageError):
            asked()


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), st.integers(1, 20))
def test_a_value_is_text_or_it_is_not(data: bytes, most: int) -> None:
    """UTF-8 without control characters is text, hidden characters escaped; all else is bytes; both may be cut."""
    found = plain(value(data, most))
    head = data[:most]
    assert (found["size"], found["base64"], found["cut"]) == (len(data), b64encode(head).decode(), len(data) > most)
    try:
        whole_ = data.decode()
    except UnicodeDecodeError:
        whole_ = "\x00"
    if not any((ord(char) < 32 and char not in "\t\n\r") or ord(char) == 127 for char in whole_):
        assert found["text"] is not None
        if whole_.isprintable() and whole_.isascii():
            assert found["text"] == whole_[:most]
    elif not found["cut"]:
        assert found["text"] is None


def test_what_hides_or_turns_around_is_shown_as_its_escape() -> None:
    """A value, or a name, cannot show itself as another: marks of direction and of no width are written out."""
    assert plain(value("a\u202eb\tc\n\u200b".encode(), 99))["text"] == "a\\u202eb\tc\n\\u200b"
    assert shown("a\u202eb".encode()) == "a\\u202eb"
    assert shown(b"\xff\x00") == "~FF%00"


def test_a_key_that_went_with_its_lease_says_so() -> None:
    """A deletion that a lease's end brought is told in its words; one by hand is not."""
    log = logged(
        LeaseGranted(lease=-1, ttl_s=5),
        put(b"a", lease=-1),
        put(b"b"),
        KeyDeleted(key="a", lease=-1, following=1),
        LeaseEnded(lease=-1, reason="expired", keys=1, silent_ms=5_100),
        KeyDeleted(key="b", lease=0, following=0),
    )
    seen = view(log, log.tip.offset)
    held, alone = (plain(keys.key(seen, name, None, 9))["changes"][0] for name in ("a", "b"))
    assert held["text"] == "lease ffffffffffffffff ended: not heard for 5.1 s; 1 key went with it"
    assert (held["what"], held["revision"], alone["text"]) == ("deleted", 5, "key b was deleted")
    answer = plain(leases.leases(seen, 0, -1, 9))
    assert (answer["leases"], answer["last"]["offset"]) == ([], 5)
    cut = plain(keys.key(view(log, 5), "a", None, 9))["changes"][0]  # Before the decision is here to its end.
    assert (cut["text"], cut["revision"]) == ("key a was deleted", 5)


def test_within_a_decision_a_key_has_its_time() -> None:
    """At an offset amid a decision, whose revision is not there yet, a key put by it is told all the same."""
    log = logged(put(b"a", following=2), put(b"b", following=1), put(b"c"))
    row = plain(keys.keys(view(log, 2), "", "", "", None, flat=True, limit=9))["entries"][0]
    assert (row["mod_revision"], row["t"], row["by"]) == (3, 1_000, "me")


def test_what_is_left_of_a_lease_is_told_of_now_only() -> None:
    """The leader's word is laid over the facts; without it, and in the past, the field is absent."""
    log = logged(LeaseGranted(lease=7, ttl_s=5), LeaseGranted(lease=8, ttl_s=5))
    seen = view(log, log.tip.offset)
    live = leases.leases(
        View(log, log.tip, 0, FLAPPING, Soft(polled=1, leases={7: LeaseSoft(left_ms=9, polled=1)})), 0, None, 9
    )
    assert [row.get("live") for row in plain(live)["leases"]] == [{"left_ms": 9, "polled": 1}, None]
    assert not [row for row in plain(leases.leases(seen, 0, None, 9))["leases"] if "live" in row]


def test_a_diff_tells_of_keys_and_leases() -> None:
    """Keys and leases that events between the two offsets name, and only if they differ in the end."""
    log = logged(
        put(b"same"), put(b"old"), put(b"was"),
        put(b"old", b"\xff"), KeyDeleted(key="was", lease=0, following=0), put(b"brief"),
        KeyDeleted(key="brief", lease=0, following=0), LeaseGranted(lease=-2, ttl_s=5), put(b"new", lease=-2),
    )  # fmt: skip
    answer = plain(diff.diff(view(log, log.tip.offset), log.history.at(4)))
    told_ = {(one["kind"], one["name"]): one for one in answer["changed"]}
    assert {key: one["change"] for key, one in told_.items()} == {
        ("key", "new"): "added", ("key", "old"): "changed", ("key", "was"): "removed",
        ("lease", "fffffffffffffffe"): "added",
    }  # fmt: skip
    fields = {one["field"]: (one["before"], one["after"]) for one in told_["key", "old"]["fields"]}
    assert fields == {"value": ("v", "1 B that are no text"), "revision": (2, 4), "version": (1, 2)}


def test_what_browsers_are_pushed_holds_the_beginning_of_a_long_value() -> None:
    """Lists and pushed facts cut a long value and say so; the event alone is told whole."""
    log = logged(put(b"a", b"x" * 5_000))
    seen = view(log, log.tip.offset)
    pushed = json.loads(facts_since(seen, 1).decode().split("data: ")[1])["events"][0]
    assert (len(pushed["value"]["value"]), pushed["cut"]) == (4 * -(-events.VALUE_BYTES // 3), True)
    assert pushed["text"] == "key a is now 4.88 KiB"
    (alone,) = plain(events.one(seen, 1))["events"]
    assert (alone["value"]["value"], alone["cut"]) == (b64encode(b"x" * 5_000).decode(), False)


@pytest.mark.parametrize("lease", [0x694D77AA9E38260F, -(1 << 53), (1 << 53) - 1, 7])
def test_a_number_that_a_browser_would_round_is_told_as_text(lease: int) -> None:
    """Leases have 64 bits; read as JavaScript reads numbers, the one that is told is still the very one."""
    log = logged(put(b"a", lease=lease))
    (told_,) = json.loads(msgspec.json.encode(events.one(view(log, log.tip.offset), 1)), parse_int=float)["events"]
    assert told_["value"]["lease"] == (str(lease) if abs(lease) > (1 << 53) - 1 else lease)
    assert (told_["value"]["key"], told_["value"]["value"]) == ("a", b64encode(b"v").decode())


def test_a_number_within_a_list_is_told_as_text_too() -> None:
    """What brokers say of themselves has 64 bits."""
    read = json.loads(
        msgspec.json.encode(events._readable({"offsets": ({"max_offset": (1 << 53) + 1},)})), parse_int=float
    )
    assert read == {"offsets": [{"max_offset": str((1 << 53) + 1)}]}


def test_the_leader_is_asked_for_what_is_left() -> None:
    """Only the leases of the page are asked for, of the leader; what it does not know stays unknown."""
    log, asked = logged(LeaseGranted(lease=7, ttl_s=5)), list[str]()

    async def told_(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        return web.json_response(
            {"leases": [{"lease": "0000000000000007", "left_ms": 4_000}, {"lease": "8", "left_ms": None}]}
        )

    async def run() -> tuple[dict[int, LeaseSoft], dict[int, LeaseSoft]]:
        app = web.Application()
        app.router.add_get("/v1/leases", told_)
        async with TestServer(app) as server:
            node = msgspec.structs.replace(
                log.tip.nodes[1],
                addresses=NodeAddresses(rpc="", raft="", kafka="", http=f"{server.host}:{server.port}"),
            )
            leader = Leader(node_id=1, term=1, offset=0, since=0, previous=None, cause="", silent_for_ms=0)
            state = msgspec.structs.replace(log.tip, nodes=log.tip.nodes.set(1, node), leader=leader)
            soft = SoftState(Settings(), lambda: state, lambda: 5, dict)
            known = await soft.leases([7, 8])
            await server.close()
            unknown = await soft.leases([7])
            await soft.close()
            return known, unknown

    known, unknown = asyncio.run(run())
    assert known == {7: LeaseSoft(left_ms=4_000, polled=5)}
    assert unknown == {}
    assert asked == ["/v1/leases?level=stale&ids=0000000000000007,0000000000000008"]


def test_the_documented_keys_and_leases_are_the_real_ones() -> None:
    """The examples in the docs have the very fields of entries, changes and leases."""
    log = logged(
        LeaseGranted(lease=7, ttl_s=5),
        put(b"/s/p/1"),
        put(b"/s/p/2"),
        put("/s/ä".encode(), lease=7),
        KeyDeleted(key="/s/p/2", lease=0, following=0),
        put(b"/s/p/3"),
    )
    seen = view(log, log.tip.offset)
    real = {
        "keys": plain(keys.keys(seen, "/s/", "", "", None, flat=False, limit=9)),
        "key": plain(keys.key(seen, "/s/p/2", None, 1)),
        "leases": plain(leases.leases(seen, 0, 7, 9)),
    }
    sections = {path: text for _, path, text in SECTION.findall(DOCS.read_text() + "\n##")}
    for name, data in real.items():
        example = json.loads(sections[name].partition("```json\n")[2].partition("```")[0])
        for part in ("entries", "changes", "leases"):
            pairs = zip(example.get(part, ()), data.get(part, ()), strict=True)
            assert not [fault for one, other in pairs for fault in differing(one, other, f"{name}.{part}")]
        assert not list(differing(example, data, name))
