"""Subjects of schemas at any offset, against a plain replay; pages; the level by which the next schema is checked."""

import json
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.events import ConfigChange, ConfigChanged, SchemaAdded, SchemaDeleted, SchemaRegistered
from quorate_spark.dashboard.panels import subjects
from quorate_spark.dashboard.panels.view import View
from tests.dashboard import lives
from tests.dashboard.lives import plain, view
from tests.unit.dashboard.test_keys import logged
from tests.unit.dashboard.test_service import DOCS, SECTION, differing

EVENTS = 500
SEEDS = 12
both = partial(lives.both, EVENTS)


def paged(seen: View, limit: int) -> list[dict[str, Any]]:
    """All pages of an answer."""
    rows, start = list[dict[str, Any]](), ""
    while True:
        answer = plain(subjects.subjects(seen, start, limit))
        assert len(answer["subjects"]) <= limit
        rows += answer["subjects"]
        if answer["next"] is None:
            assert answer["total"] == len(rows)
            return rows
        start = answer["next"]


@given(st.integers(0, SEEDS - 1), st.floats(0, 1), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_subjects_are_what_a_replay_says(seed: int, share: float, limit: int) -> None:
    """At every offset, page after page: each subject by name, with its newest version, and who changed it when."""
    seen, replay = both(seed, share)
    assert replay.differences("subjects", {"subjects": paged(seen, limit)}) == []


def test_the_lives_reach_subjects() -> None:
    """Laws about what never comes are no laws: several subjects, hidden versions, a subject that has no other."""
    replays = [both(seed, share)[1] for seed in range(SEEDS) for share in (0.3, 0.6, 1.0)]
    assert any(len(one.subject_rows()) > 1 for one in replays)
    assert any(len(one.subject_rows()) < len(one.subjects) for one in replays)
    assert any(row["versions"] < len(one.subjects[row["subject"]]) for one in replays for row in one.subject_rows())


def test_the_level_in_force_is_the_subject_s_own_or_that_of_all() -> None:
    """As the registry checks by it: set for the subject, else for all, else Confluent's; a deleted version is none."""

    def level(scope: str, name: str, old: str | None, new: str | None) -> ConfigChanged:
        return ConfigChanged(scope=scope, changes=(ConfigChange(name=name, old=old, new=new),))

    log = logged(
        SchemaAdded(schema_id=1_000_001, schema_type="AVRO", schema='"int"'),
        SchemaRegistered(subject="a b", version=1, schema_id=1_000_001, compatibility="BACKWARD"),
        SchemaRegistered(subject="c", version=1, schema_id=1_000_001, compatibility="BACKWARD"),
        level("cluster", "schemas.compatibility", None, "FULL"),
        level("subject/c", "compatibility", None, "NONE"),
        SchemaDeleted(subject="a b", versions=(1,), permanent=False),
    )
    end = log.tip.offset
    seen = {
        at: [(row["compatibility"], row["own"]) for row in paged(view(log, at), 9)] for at in range(end - 3, end + 1)
    }
    assert list(seen.values()) == [
        [("BACKWARD", False), ("BACKWARD", False)],
        [("FULL", False), ("FULL", False)],
        [("FULL", False), ("NONE", True)],
        [("NONE", True)],
    ]


def test_the_documented_subjects_are_the_real_ones() -> None:
    """The example in the docs has the very fields of the answer."""
    seen = next(filter(lambda seen: paged(seen, 9), (both(seed, 1.0)[0] for seed in range(SEEDS))))
    sections = {path: text for _, path, text in SECTION.findall(DOCS.read_text() + "\n##")}
    example = json.loads(sections["subjects"].partition("```json\n")[2].partition("```")[0])
    assert not list(differing(example, plain(subjects.subjects(seen, "", 9)), "subjects"))
