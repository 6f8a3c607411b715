"""``quorate balance``: which masters should move, so that no place leads far more than another; and the moves.

Rules: a node plans, by the rules of metadata/balance.py. ``--dry-run`` prints its plan; without it each move of that
plan is asked for, one after the other, as ``elections transfer`` would. A move that is refused by then is told, and the
others are made; exit 1 when one was refused.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator

import msgspec

from quorate.cli.client import Node, NodeError, add_node
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.freshness import PATIENCE_S
from quorate.cli.output import add_output, columns, show
from quorate.gateway.http.answers import Balance, Done
from quorate.gateway.http.writing import ElectBody
from quorate.metadata.balance import Move


class Made(msgspec.Struct, frozen=True):
    """A move that was asked for. ``refused``: why it was not made, or nobody knows whether it was; empty: it was."""

    move: Move
    offset: int
    refused: str = ""


def _arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, and move nothing")


def run(options: Namespace) -> int:
    """Print the plan, or carry it out; the exit status."""
    node = Node(options.node, PATIENCE_S)
    plan = node.get("/v1/balance", Balance)
    if options.dry_run:
        show(msgspec.to_builtins(plan), options.output, _planned(plan))
        return DONE
    made = [_make(node, move) for move in plan.moves]
    show(msgspec.to_builtins(made), options.output, _told(made))
    return REFUSED if any(one.refused for one in made) else DONE


def _make(node: Node, move: Move) -> Made:
    body = ElectBody(broker_set=move.broker_set, broker_id=move.new, reason=move.why)
    try:
        done = node.send("POST", "/v1/elections", body, Done)
    except NodeError as error:
        return Made(move, -1, str(error))
    return Made(move, done.offset)


def _planned(plan: Balance) -> Iterator[str]:
    if not plan.moves:
        yield "nothing to move"
    else:
        header = ("set", "from", "to", "rule", "because")
        yield from columns(header, [(*_ends(move), move.rule, move.why) for move in plan.moves])
    yield ""
    places = [(place, count, plan.after.get(place, 0)) for place, count in plan.before.items()]
    yield from columns(("place", "leads", "then"), places)


def _told(made: list[Made]) -> Iterable[str]:
    if not made:
        return ["nothing to move"]
    rows = [(*_ends(one.move), one.refused or f"done; true from offset {one.offset}") for one in made]
    return columns(("set", "from", "to", "outcome"), rows)


def _ends(move: Move) -> tuple[str, str, str]:
    return move.broker_set, f"{move.old} ({move.from_place})", f"{move.new} ({move.to_place})"


COMMAND = Command(_arguments, run)
