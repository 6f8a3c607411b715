"""Sessions at any offset, against a plain replay; pages, search, one with its history."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate_spark.dashboard.panels import sessions
from quorate_spark.dashboard.panels.sessions import SessionQuery
from quorate_spark.dashboard.panels.view import View
from tests.dashboard.lives import plain, told
from tests.unit.dashboard.test_members import EVENTS, SEEDS, SHARES, both
from tests.unit.dashboard.test_service import DOCS, SECTION, differing

CLIENTS = ("c", "sensor/1 ü", "d", "never")


def paged(seen: View, limit: int, **asked: Any) -> list[dict[str, Any]]:
    """All pages of an answer."""
    rows, start = list[dict[str, Any]](), ""
    while True:
        answer = plain(sessions.sessions(seen, SessionQuery(limit=limit, start=start, **asked)))
        assert len(answer["sessions"]) <= limit
        rows += answer["sessions"]
        if answer["next"] is None:
            return rows
        start = answer["next"]


@given(SEEDS, SHARES, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_sessions_are_what_a_replay_says(seed: int, share: float, limit: int) -> None:
    """At every offset, page after page: each client with its member, its subscriptions, since when it is gone; and all
    of them counted.
    """
    seen, replay = both(seed, share)
    rows = paged(seen, limit)
    assert replay.differences("sessions", {"sessions": rows}) == []
    answer = plain(sessions.sessions(seen, SessionQuery()))
    assert answer["states"] == {word: sum(row["state"] == word for row in rows) for word in sessions.WHERE}
    assert answer["total"] == len(rows)
    assert answer["subscriptions"] == sum(row["subscriptions"] for row in rows)
    assert (answer["wills"], answer["looked"]) == (len(replay.wills), None)
    waiting = [replay.wills[number] for number in sorted(replay.wills)][: sessions.WAITING_MAX]
    assert answer["waiting"] == [{**told, "there": replay._fit(told["member"], life)} for told, life in waiting]


@given(SEEDS, SHARES, st.sampled_from(["", *sessions.WHERE]), st.sampled_from(["", "store.1", "mqtt@h"]))
@settings(max_examples=30, deadline=None)
def test_a_filter_leaves_those_that_are_meant(seed: int, share: float, state: str, member: str) -> None:
    """A state, a member, and words in client, member or filters: all of them must hold."""
    seen, replay = both(seed, share)
    for q in ("", "SENSOR", "sensor ü", "nobody"):
        expected = [
            row["client"]
            for row in replay.session_rows()
            if state in ("", row["state"])
            and member in ("", row["member"])
            and all(
                any(word in text.lower() for text in (row["client"], row["member"], *texts(replay, row)))
                for word in q.lower().split()
            )
        ]
        assert [row["client"] for row in paged(seen, 1, q=q, state=state, member=member)] == expected


def texts(replay: Any, row: dict[str, Any]) -> list[str]:
    """All filters of a session."""
    return list(replay.sessions[row["client"]]["filters"])


@given(SEEDS, SHARES, st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_a_session_s_history_is_every_event_about_it(seed: int, share: float, limit: int) -> None:
    """Newest first, each once; with its subscriptions and its will; one that is gone, or never was, is told so."""
    seen, replay = both(seed, share)
    for client in CLIENTS:
        offsets, before = list[int](), None
        while True:
            answer = plain(sessions.session(seen, client, before, limit))
            offsets += [event["offset"] for event in answer["changes"]]
            if (before := answer["next"]) is None:
                break
        mine = ("SessionOpened", "SubscriptionsChanged", "SessionDisconnected", "WillDecided", "SessionEnded")
        rows = [r for r in told(seed, EVENTS)[: seen.offset] if r["type"] in mine and r["event"]["client"] == client]
        assert offsets == [row["offset"] for row in reversed(rows)]
        found = replay.sessions.get(client)
        assert (answer["session"] is None) == (found is None)
        if found is not None:
            filters = found["filters"]
            assert [(one["filter"], one["qos"]) for one in answer["subscriptions"]] == [
                (name, filters[name]["qos"]) for name in sorted(filters)
            ]
            assert (answer["will"] or {"topic": None})["topic"] == found["will"]


def test_the_lives_reach_every_state() -> None:
    """Laws about what never comes are no laws."""
    rows = [
        row for seed in range(12) for share in (0.4, 0.7, 1.0) for row in both(seed, share)[1].session_rows()
    ]  # fmt: skip
    assert {row["state"] for row in rows} == set(sessions.WHERE)
    assert {bool(row["filters"]) for row in rows} == {row["there"] for row in rows} == {True, False}
    assert {row["will"] is None for row in rows} == {True, False}


def test_a_search_says_where_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at so many sessions, and the next page begins with the first that it did not look at."""
    seen = next(view for seed in range(12) if len((view := both(seed, 1.0)[0]).state.model.sessions) >= 2)
    monkeypatch.setattr(sessions, "LOOKED_MAX", 1)
    clients = sorted(seen.state.model.sessions)
    answer = plain(sessions.sessions(seen, SessionQuery(q="nobody at all")))
    assert (answer["sessions"], answer["looked"], answer["next"]) == ([], 1, clients[1])
    assert len(paged(seen, 1)) == len(clients)
    with pytest.raises(UsageError, match="16 words"):
        sessions.sessions(seen, SessionQuery(q="w " * 17))


def test_the_documented_sessions_are_the_real_ones() -> None:
    """The examples in the docs have the very fields of sessions, subscriptions and wills."""
    seen, client = next(
        (view, name)
        for seed in range(12)
        for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
        for view in (both(seed, share)[0],)
        for name, found in view.state.model.sessions.items()
        if found.will and found.subscriptions
    )
    real = {
        "sessions": plain(sessions.sessions(seen, SessionQuery())),
        "session": plain(sessions.session(seen, client, None, 9)),
    }
    sections = {path: text for _, path, text in SECTION.findall(DOCS.read_text() + "\n##")}
    for panel, data in real.items():
        example = json.loads(sections[panel].partition("```json\n")[2].partition("```")[0])
        assert not list(differing(example, data, panel))
