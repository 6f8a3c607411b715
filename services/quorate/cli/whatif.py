"""``quorate whatif``: who would be master if these failed? Answered by a node, by the rules it decides with.

Rules: nothing is proposed. Exit 1 when a broker set would be left without a master, or the controllers without a
quorum.
"""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterable

import msgspec

from quorate.cli.client import Node, add_node
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.freshness import PATIENCE_S
from quorate.cli.output import add_output, columns, show
from quorate.errors import UsageError
from quorate.gateway.http.answers import WhatIfAnswer
from quorate.gateway.http.travel import WhatIfBody
from quorate.metadata.whatif import SetRow
from quorate.model.election_words import whatif_words


def _arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser)
    fail = "node/ID or broker/SET/ID fails; may be repeated"
    parser.add_argument("--fail", action="append", default=[], metavar="NAME", help=fail)
    parser.add_argument(
        "--kill", action="append", default=[], metavar="SET:ID", help="the same as --fail broker/SET/ID"
    )
    parser.add_argument("--at", type=int, metavar="N", help="in the state after the events before offset N")
    parser.add_argument(
        "--unclean",
        action=BooleanOptionalAction,
        default=None,
        help="replicas that are not in sync may be elected, or not (default: as configured)",
    )


def victims(texts: Iterable[str]) -> list[str]:
    """``broker-a:1`` → ``broker/broker-a/1``. Raises UsageError."""
    words = []
    for text in texts:
        name, colon, number = text.rpartition(":")
        if not colon or not name or not number.isdecimal():
            raise UsageError(f"--kill {text}: expected SET:ID")
        words.append(f"broker/{name}/{number}")
    return words


def run(options: Namespace) -> int:
    """Ask a node who would be master if these failed; the exit status."""
    fail = [*options.fail, *victims(options.kill)]
    if not fail and options.unclean is None:
        raise UsageError("what fails? --fail node/ID, --fail broker/SET/ID or --kill SET:ID")
    body = WhatIfBody(at=options.at, fail=fail, unclean=options.unclean)
    answer = Node(options.node, PATIENCE_S).send("POST", "/v1/whatif", body, WhatIfAnswer)
    show(msgspec.to_builtins(answer), options.output, _table(answer))
    lost = any(row.kind == "no master" for row in answer.rows)
    return REFUSED if lost or not answer.quorum.survives else DONE


def _table(answer: WhatIfAnswer) -> Iterable[str]:
    quorum = answer.quorum
    left = f"{len(quorum.voters_left)} of {len(quorum.voters)} controllers"
    yield f"At offset {answer.offset}: the quorum {'holds' if quorum.survives else 'is lost'}, {left}."
    if answer.rows:
        yield ""
        header = ("set", "master", "would be", "rule", "why")
        yield from columns(header, [(*_row(row), row.explanation) for row in answer.rows])


def _row(row: SetRow) -> tuple[object, ...]:
    then = " or ".join(map(str, row.winners)) or (row.after.master or "nobody")
    return row.set, row.master, then, whatif_words(row.rule, row.unclean, row.loses_bytes)


COMMAND = Command(_arguments, run)
