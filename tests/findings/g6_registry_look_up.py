"""G6: the schema registry refuses a look-up as if it were a write."""

from pathlib import Path

from tests.findings.tree import Seen, cluster


def look(tree: Path) -> Seen:
    """The newest schema of the first subject is looked up; a path that is not there is asked for."""
    with cluster(tree, 1) as alone:
        (node,) = alone.nodes
        alone.start()
        subject = node.ask("GET", "/subjects").body[0]
        schema = node.ask("GET", f"/subjects/{subject}/versions/latest").body["schema"]
        found = node.ask("POST", f"/subjects/{subject}", {"schema": schema}).status
        shape = node.ask("GET", "/schemas/ids/123456").body
        return Seen(found != 200, f"a look-up is answered {found}; an unknown id {shape}"[:200])
