"""A panel: a pure function, its route, a page that shows it, its replay, its example in the documentation."""

PANEL = '''"""Topics, by name."""

import msgspec

from quorate_spark.dashboard.panels.view import View


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """One topic."""

    name: str
    read_queues: int
    write_queues: int


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/topics."""

    topics: list[TopicRow]


def topics(view: View) -> Topics:
    """As of the view."""
    found = view.state.model.topics
    return Topics(
        topics=[
            TopicRow(name=name, read_queues=found[name].read_queues, write_queues=found[name].write_queues)
            for name in sorted(found)
        ]
    )
'''
PAGE = """/** Topics, by name. */
import { num, plural } from "../format.js";
import { html } from "../html.js";
import { panel } from "../panel.js";

export const needs = () => ({ topics: { path: "topics" } });

const number = n => html`<td class="n">${num(n)}</td>`;
const queues = t => html`${number(t.read_queues)}${number(t.write_queues)}`;
const row = t => html`<tr data-key="${t.name}"><th scope="row">${t.name}</th>${queues(t)}</tr>`;
const head = html`<tr><th>Name</th><th class="n">Read queues</th><th class="n">Write queues</th></tr>`;
const table = d => html`<table class="rows"><thead>${head}</thead><tbody>${d.topics.map(row)}</tbody></table>`;

export function render(view) {
  const about = { id: "topics", title: "Topics", need: "topics", note: d => plural(d.topics.length, "topic") };
  return html`<h1 class="hide">Topics</h1>${panel(view, about, table)}`;
}
"""
TEST = '''"""The panel of topics against a plain replay."""

import pytest

from quorate_spark.dashboard.panels.topics import topics
from tests.dashboard.lives import folded, life, plain, told, view
from tests.dashboard.replay import Replay


@pytest.mark.parametrize("seed", range(4))
def test_topics_are_what_a_replay_says(seed: int) -> None:
    """At several offsets each topic has the queues that the last event about it gave it."""
    log = folded(life(seed, 260))
    for offset in (0, 100, 260):
        known = Replay(told(seed, 260), offset).topics
        wanted = [
            {"name": name, "read_queues": known[name]["read_queues"], "write_queues": known[name]["write_queues"]}
            for name in sorted(known)
        ]
        assert plain(topics(view(log, offset)))["topics"] == wanted
        assert bool(wanted) == bool(offset)
'''
EXAMPLE = """### GET /api/topics

Topics, by name.

```json
{"topics": [{"name": "orders", "read_queues": 8, "write_queues": 8}]}
```

### GET /api/timeline"""
WRITTEN = {
    "spark/quorate_spark/dashboard/panels/topics.py": PANEL,
    "spark/quorate_spark/dashboard/assets/js/pages/topics.js": PAGE,
    "tests/unit/dashboard/test_topics.py": TEST,
}
CHANGES = {
    "spark/quorate_spark/dashboard/answering.py": [
        ("    timeline,\n)", "    timeline,\n    topics,\n)"),
        (
            '            "seek": (frozenset({"t"}), self._seek),\n',
            (
                '            "seek": (frozenset({"t"}), self._seek),\n'
                '            "topics": (frozenset(), lambda view, _: topics.topics(view)),\n'
            ),
        ),
    ],
    "spark/quorate_spark/dashboard/assets/js/app.js": [
        (
            'import * as whatif from "./pages/whatif.js";\n',
            'import * as topics from "./pages/topics.js";\nimport * as whatif from "./pages/whatif.js";\n',
        ),
        ("whatif, diff, streams };", "whatif, diff, streams, topics };"),
        ('["streams", "Streams", "r"]]', '["streams", "Streams", "r"], ["topics", "Topics", "o"]]'),
    ],
    "docs/dashboard.md": [
        ("### GET /api/timeline", EXAMPLE),
        ("d r` | Now,", "d r o` | Now,"),
        ("What if, Diff, Streams |", "What if, Diff, Streams, Topics |"),
    ],
}
FILES_MAX = 6
TESTS = [
    "tests/unit/dashboard/test_topics.py",
    "tests/unit/dashboard/test_service.py",
    "tests/unit/dashboard/test_site.py",
]
