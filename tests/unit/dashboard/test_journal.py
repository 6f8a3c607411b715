"""Shards and segments at any offset, against a plain replay; pages, levels, search, and what is to go."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate_spark.dashboard.panels import diff, journal
from quorate_spark.dashboard.panels.view import View
from tests.dashboard.lives import plain, told
from tests.dashboard.replay import Replay
from tests.unit.dashboard.test_members import EVENTS, SEEDS, SHARES, both
from tests.unit.dashboard.test_service import DOCS, SECTION, differing


def paged(seen: View, limit: int, q: str = "", level: str = "") -> list[dict[str, Any]]:
    """All pages of shards."""
    rows, start = list[dict[str, Any]](), ""
    while True:
        answer = plain(journal.shards(seen, q, level, start, limit))
        assert len(answer["shards"]) <= limit
        rows += answer["shards"]
        if answer["next"] is None:
            assert answer["total"] == len(rows)
            return rows
        start = answer["next"]


@given(SEEDS, SHARES, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_shards_are_what_a_replay_says(seed: int, share: float, limit: int) -> None:
    """At every offset, also amid a decision, page after page: each shard with its level, and all of them counted."""
    seen, replay = both(seed, share)
    rows = paged(seen, limit)
    assert replay.differences("shards", {"shards": rows}) == []
    answer = plain(journal.shards(seen, "", "", "", 50))
    assert answer["levels"] == {word: sum(row["level"] == word for row in rows) for word in journal.KEPT}
    assert answer["segments"] == len(replay.segments) == sum(row["segments"] for row in rows)
    risky = [row for row in rows if row["why"]]
    assert ("red" in answer["sentence"]) == any(row["level"] == "red" for row in rows)
    assert ("yellow" in answer["sentence"]) == bool(risky and all(row["level"] != "red" for row in rows))
    assert ("There is no shard" in answer["sentence"]) == (not rows)
    assert all(bool(row["why"]) == (row["level"] in {"yellow", "red"}) for row in rows)


@given(SEEDS, SHARES, st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_segments_are_what_a_replay_says(seed: int, share: float, limit: int) -> None:
    """The newest first, each once: its copies, who leads and why, and what is at risk; with the last events."""
    seen, replay = both(seed, share)
    for name in ("orders", "pay.ments", "never"):
        rows, below = list[dict[str, Any]](), None
        while True:
            answer = plain(journal.shard(seen, name, below, limit))
            rows += answer["segments"]
            if (below := answer["next"]) is None:
                break
        if name not in replay.shards:
            assert (answer["shard"], rows) == (None, [])
            continue
        assert rows == replay.segment_rows(name)
        assert answer["shard"]["name"] == name
        offsets = [event["offset"] for event in plain(journal.shard(seen, name, None, limit))["changes"]]
        about = {f"shard/{name}", f"segment/{rows[0]['name']}" if rows else ""}
        spool = seen.log.spool
        every = [at for at in range(seen.offset) if spool.key_names.texts[spool.keys[at]] in about]
        assert offsets == every[::-1][: journal.CHANGES_MAX]


@given(SEEDS, SHARES, st.sampled_from(["", *journal.KEPT]))
@settings(max_examples=30, deadline=None)
def test_a_level_and_words_leave_those_that_are_meant(seed: int, share: float, level: str) -> None:
    """Words are looked for in the name, the leader and the labels; all of them must hold."""
    seen, replay = both(seed, share)
    for q in ("", "ORDERS", "ments s1", "nobody"):
        expected = [
            row["name"]
            for row in replay.shard_rows()
            if level in ("", row["level"])
            and all(word in f"{row['name']} {row['leader']} {row['spread']}".lower() for word in q.lower().split())
        ]
        assert [row["name"] for row in paged(seen, 1, q, level)] == expected


def test_the_lives_reach_every_level() -> None:
    """Laws about what never comes are no laws."""
    seen = [both(seed, share)[1] for seed in range(12) for share in (0.3, 0.6, 0.8, 1.0)]
    levels = {row["level"] for replay in seen for row in replay.shard_rows()}
    assert levels == set(journal.KEPT)


@given(SEEDS, SHARES, SHARES)
@settings(max_examples=25, deadline=None)
def test_a_diff_tells_of_shards_segments_and_sessions(seed: int, share: float, earlier: float) -> None:
    """Those that came, went or differ between two offsets, and no others."""
    seen, replay = both(seed, share)
    start = round(earlier * seen.offset)
    former = Replay(told(seed, EVENTS), start)
    answer = plain(diff.diff(seen, seen.log.history.at(start), limit=10_000))
    for kind, was, has in (
        ("shard", former.shards, replay.shards),
        ("segment", former.segments, replay.segments),
        ("session", former.sessions, replay.sessions),
    ):
        changed = {one["name"]: one["change"] for one in answer["changed"] if one["kind"] == kind}
        assert changed == {
            name: "added" if name not in was else "removed" if name not in has else "changed"
            for name in was.keys() | has.keys()
            if was.get(name) != has.get(name)
        }


def test_the_documented_shards_are_the_real_ones() -> None:
    """The examples in the docs have the very fields of shards and segments."""
    seen = next(
        both(seed, 1.0)[0] for seed in range(12)
        if both(seed, 1.0)[1].shards and both(seed, 1.0)[1].segments
    )  # fmt: skip
    name = next(iter(seen.state.model.segments))
    real = {
        "shards": plain(journal.shards(seen, "", "", "", 9)),
        "shard": plain(journal.shard(seen, name, None, 9)),
    }
    sections = {path: text for _, path, text in SECTION.findall(DOCS.read_text() + "\n##")}
    for panel, data in real.items():
        example = json.loads(sections[panel].partition("```json\n")[2].partition("```")[0])
        assert not list(differing(example, data, panel))
