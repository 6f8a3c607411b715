"""How fresh an answer must be, as arguments: what every read command shares (docs/reads.md)."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import Protocol, TypeVar

from quorate.cli.client import TIMEOUT_S, Node
from quorate.cli.command import number

PAGE = 500
PATIENCE_S = 15.0
"""Of a question about the past: a replay may take longer than an answer about now."""


def add_freshness(parser: ArgumentParser) -> None:
    """``--linearizable``, ``--at-least``, ``--stale``, ``--at``: one of them, or the command's own default."""
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--linearizable", action="store_true", help="everything committed before the question")
    level.add_argument("--stale", action="store_true", help="what the node itself has applied; needs no quorum")
    level.add_argument("--at-least", type=int, metavar="N", help="wait until the node has applied the events before N")
    level.add_argument("--at", type=int, metavar="N", help="the past: as it was after the events before offset N")


def asked_node(options: Namespace, address: str = "") -> Node:
    """The node to ask, at this address instead of the one named."""
    return Node(address or options.node, TIMEOUT_S if options.at is None else PATIENCE_S)


def asks(options: Namespace) -> bool:
    """Was a level asked for?"""
    return options.stale or options.linearizable or options.at_least is not None or options.at is not None


def freshness(options: Namespace, default: str | None = None) -> dict[str, object]:
    """The query parameters that say so; where nothing was said, this default (None: the node's own)."""
    if options.at is not None:
        return {"at": options.at}
    if options.at_least is not None:
        return {"level": "at_least", "min_offset": options.at_least}
    return {"level": "stale" if options.stale else "linearizable" if options.linearizable else default}


class Page(Protocol):
    """A page of a list; ``next``: behind what the one after it begins, None if it is the last."""

    @property
    def next(self) -> object:
        """To be asked for as ``after``."""


P = TypeVar("P", bound=Page)


def pages(options: Namespace, path: str, kind: type[P], default: str | None = None, **asked: object) -> Iterator[P]:
    """Every page of a list that is asked for so; ``default``: how fresh, where nothing was said."""
    node, after = asked_node(options), None
    while True:
        page = node.get(path, kind, limit=PAGE, after=after, **asked, **freshness(options, default))
        yield page
        after = page.next
        if after is None:
            return


def add_revision(parser: ArgumentParser) -> None:
    """``--revision``, and ``--at`` for the same: a revision is the offset of the last event that is reflected."""
    revision = parser.add_mutually_exclusive_group()
    revision.add_argument(
        "--revision", type=number(), default=0, metavar="N", help="as of this revision (default: now)"
    )
    revision.add_argument(
        "--at", dest="revision", type=_reflecting, metavar="N", help="as it was after the events before offset N"
    )


def _reflecting(offset: str) -> int:
    """The revision after the events before an offset; no key was there after the first, and 0 is now."""
    try:
        return max(number()(offset) - 1, 1)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"expected an offset, not {offset[:40]!r}") from None
