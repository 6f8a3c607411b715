"""``quorate balance``: which masters and leaders of segments should move, so that none leads far more; and the moves.

Rules: the leader plans, by the rules of metadata/balance.py, whichever node is named. ``--dry-run`` prints its plan;
without it each move of that plan is asked for, one after the other, as ``elections transfer`` would. A move that is
refused by then is told, and the others are made; exit 1 when one was refused. Which members have too many clients is
told, and left to them.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from quorate.cli.client import Node, NodeError, add_node
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.freshness import PATIENCE_S
from quorate.cli.output import add_output, columns, complain, show
from quorate.errors import UsageError
from quorate.gateway.http.answers import Balance, Done, Quorum
from quorate.gateway.http.writing import REASON_MAX, ElectBody, SegmentElectBody
from quorate.metadata.balance import Move
from quorate.metadata.segment_balance import SegmentMove


class Made(msgspec.Struct, frozen=True):
    """A move that was asked for. ``refused``: why it was not made, or nobody knows whether it was; empty: it was."""

    move: Move | SegmentMove
    offset: int
    refused: str = ""


def _arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, and move nothing")


def run(options: Namespace) -> int:
    """Print the plan, or carry it out; the exit status."""
    node = Node(options.node, PATIENCE_S)
    plan = _of_leader(node)
    if options.dry_run:
        show(msgspec.to_builtins(plan), options.output, _planned(plan))
        return DONE
    moves: list[Move | SegmentMove] = [*plan.moves, *plan.segments]
    made = [_make(node, move) for move in moves]
    show(msgspec.to_builtins(made), options.output, _told(made))
    return REFUSED if any(one.refused for one in made) else DONE


def _of_leader(node: Node) -> Balance:
    """Its plan; where it cannot be asked, that of the node that answers, which is told."""
    plan = node.get("/v1/balance", Balance)
    if plan.by == "leader":
        return plan
    with suppress(NodeError):
        voters = node.get("/v1/quorum", Quorum, level="stale").voters
        for leader in (voter for voter in voters if voter.leader):
            of_leader = Node(leader.http, PATIENCE_S).get("/v1/balance", Balance)
            if of_leader.by == "leader":
                return of_leader
    complain(
        f"the plan of node {plan.node}, which follows: the leader, which knows whose disk is full, was not reached"
    )
    return plan


def _make(node: Node, move: Move | SegmentMove) -> Made:
    try:
        done = node.send("POST", *_request(move), Done)
    except (NodeError, UsageError) as error:  # What one node calls wrongly asked does not end the others.
        return Made(move, -1, str(error))
    return Made(move, done.offset)


def _request(move: Move | SegmentMove) -> tuple[str, ElectBody | SegmentElectBody]:
    """Where a move is asked for, and with which words: of a long sentence, as much as is taken."""
    why = move.why[:REASON_MAX]
    if isinstance(move, SegmentMove):
        return "/v1/segment-elections", SegmentElectBody(segment=move.segment, member=move.new, reason=why)
    return "/v1/elections", ElectBody(broker_set=move.broker_set, broker_id=move.new, reason=why)


def _planned(plan: Balance) -> Iterator[str]:
    moves: list[Move | SegmentMove] = [*plan.moves, *plan.segments]
    if not moves:
        yield "nothing to move"
    else:
        header = ("what", "from", "to", "rule", "because")
        yield from columns(header, [(*_ends(move), move.rule, move.why) for move in moves])
    yield from _loads("place", plan.before, plan.after)
    if plan.segments_before:
        yield from _loads("member", plan.segments_before, plan.segments_after)
    if plan.hand_over:
        yield ""
        yield from columns(
            ("has clients", "of them", "too many", "because"),
            [(one.member, one.clients, one.hand_over, one.why) for one in plan.hand_over],
        )


def _loads(what: str, before: dict[str, int], after: dict[str, int]) -> Iterator[str]:
    yield ""
    yield from columns((what, "leads", "then"), [(one, count, after.get(one, 0)) for one, count in before.items()])


def _told(made: list[Made]) -> Iterable[str]:
    if not made:
        return ["nothing to move"]
    rows = [(*_ends(one.move), one.refused or f"done; true from offset {one.offset}") for one in made]
    return columns(("what", "from", "to", "outcome"), rows)


def _ends(move: Move | SegmentMove) -> tuple[str, str, str]:
    what = move.segment if isinstance(move, SegmentMove) else move.broker_set
    return what, f"{move.old} ({move.from_place})", f"{move.new} ({move.to_place})"


COMMAND = Command(_arguments, run)
