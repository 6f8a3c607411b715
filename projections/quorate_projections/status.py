"""``quorate projections status``: how far and how fresh the workers are; exit 1 when one is not ready."""

import json
from argparse import ArgumentParser, Namespace
from typing import Any, Final

import msgspec

from quorate.asking import Request, UnreachedError, addresses, exchange
from quorate.errors import QuorateError
from quorate.tables import columns
from quorate_projections.materialized_views import Health

DONE: Final = 0
REFUSED: Final = 1
TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 1024 * 1024
HEADER: Final = ("WORKER", "READY", "OFFSET", "END", "LAG", "AGE_MS", "REWINDS", "GENERATION", "CLUSTER", "WHY NOT")


class AskError(QuorateError):
    """A worker that does not answer, or not as one."""


def arguments(parser: ArgumentParser) -> None:
    """The worker to ask."""
    parser.add_argument("--at", default="127.0.0.1:9951", metavar="HOST:PORT,…", help="workers; default: %(default)s")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")


def ask(address: str) -> Health:
    """A worker's own account. Raises AskError."""
    try:
        _, body = exchange(address, Request("GET", "/ready"), TIMEOUT_S, ANSWER_BYTES_MAX)
        return msgspec.json.decode(body, type=Health)
    except UnreachedError as error:
        raise AskError(str(error).removeprefix("node ")) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AskError(f"{address}: {error}") from error


def run(options: Namespace) -> int:
    """Ask each and print what they say."""
    answers: list[tuple[str, Health | str]] = []
    for address in addresses(options.at, "--at"):
        try:
            answers.append((address, ask(address)))
        except AskError as error:
            answers.append((address, str(error)))
    if options.output == "json":
        print(json.dumps([_plain(address, health) for address, health in answers]))
    else:
        print("\n".join(columns(HEADER, [_cells(address, health) for address, health in answers])))
    return DONE if all(isinstance(health, Health) and health.ready for _, health in answers) else REFUSED


def _plain(address: str, health: Health | str) -> dict[str, Any]:
    fields = {"ready": False, "reason": health} if isinstance(health, str) else msgspec.to_builtins(health)
    return {"worker": address, **fields}


def _cells(address: str, health: Health | str) -> tuple[str, ...]:
    if isinstance(health, str):
        return (address, "no", *["-"] * 7, health)
    values = (health.offset, health.end_offset, health.lag, health.age_ms, health.rewinds)
    told = tuple("-" if value is None else str(value) for value in values)
    return (address, "yes" if health.ready else "no", *told, health.generation, health.cluster_id, health.reason or "-")
