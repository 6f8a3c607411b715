"""A view: a file of its own, its line in the catalogue, its replay, its row in the documentation."""

VIEW = '''"""The view ``nodes``: every controller node at its last start, by id."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Node
from quorate_projections.views.view import row_of, showing


class NodeRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The software a node runs, and since when."""

    node_id: int = 0
    version: str = ""
    started_ms: int = 0
    changed_offset: int = -1


def show(node: Node, before: NodeRow, stamp: Stamp) -> NodeRow:
    """The node, and the event that changed it last."""
    return row_of(NodeRow, node, changed_offset=stamp.offset)


VIEW = showing("nodes", "Controller nodes at their last start, by id.", NodeRow(), {"node": ("", show)})
'''
REPLAYED = """    def _NodeStarted(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["nodes"][str(e["node_id"])] = {
            "node_id": e["node_id"], "version": e["version"], "started_ms": at["ms"], "changed_offset": at["offset"],
        }  # fmt: skip

    def _VoterRebuilt(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["nodes"][str(e["node_id"])]["changed_offset"] = at["offset"]

    def _ControllerLeaderElected(self"""
WRITTEN = {"projections/quorate_projections/views/nodes.py": VIEW}
CHANGES = {
    "projections/quorate_projections/views/__init__.py": [
        ("    members,\n    routes,\n", "    members,\n    nodes,\n    routes,\n"),
        ("    topics.VIEW,\n", "    topics.VIEW,\n    nodes.VIEW,\n"),
    ],
    "tests/projections/replay.py": [
        ('"controller_terms", "audit",\n            )', '"controller_terms", "audit", "nodes",\n            )'),
        ("    def _ControllerLeaderElected(self", REPLAYED),
    ],
    "docs/projections.md": [
        (
            "| `audit` | offset |",
            "| `nodes` | node id | the software a node runs, and since when |\n| `audit` | offset |",
        )
    ],
}
FILES_MAX = 4
TESTS = ["tests/unit/projections/test_folding.py", "tests/unit/projections/test_answers.py"]
