"""Which function answers which path; the table is also the interface's description (openapi.py).

Rules: one ``Route`` line per call. A pattern's ``{name}`` takes one segment, a final ``{name...}`` all that are left.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from quorate.errors import InvariantBrokenError, StorageError
from quorate.gateway.http.messages import UNMADE, HttpError, Request, Response, failure
from quorate.gateway.http.server import Respond

Method = Literal["GET", "POST", "PUT", "DELETE"]


class Call(msgspec.Struct, frozen=True):
    """A request on its way: what the pattern found in the path, and where the answer goes."""

    request: Request
    found: dict[str, str]
    respond: Respond

    def fail(self, error: HttpError) -> None:
        """End it with an error."""
        self.respond(failure(error))

    def settle(self, make: Callable[[], Response]) -> None:
        """End it with what ``make`` returns or raises; what is no HttpError is raised again when it is answered."""
        try:
            response = make()
        except HttpError as error:
            response = failure(error)
        except (StorageError, InvariantBrokenError):
            self.fail(HttpError("internal", "this node has failed"))
            raise
        except Exception:
            self.respond(UNMADE)
            raise
        self.respond(response)

    def integer(self, name: str, default: int, low: int | None = None, high: int | None = None) -> int:
        """A number of the query string. Raises HttpError ``invalid``."""
        text = self.request.query.get(name, "")
        try:
            value = int(text) if text else default
        except ValueError:
            raise HttpError("invalid", f"{name}: {text[:40]!r} is no number") from None
        if (low is not None and value < low) or (high is not None and value > high):
            raise HttpError("invalid", f"{name}: {value} is out of range")
        return value


class Route(msgspec.Struct, frozen=True):
    """One call of the interface."""

    method: Method
    pattern: str
    handler: Callable[[Call], None]
    summary: str
    answer: Any = None
    """Type of the answer; None: described by its words only."""
    body: Any = None
    query: Sequence[str] = ()
    status: int = 200


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._patterns = [(route, tuple(part for part in route.pattern.split("/") if part)) for route in routes]

    def __call__(self, request: Request, respond: Respond) -> None:
        """Answer, exactly once."""
        allowed = set()
        for route, pattern in self._patterns:
            parameters = match(pattern, request.path)
            if parameters is None:
                continue
            if request.method == route.method or (request.method == "HEAD" and route.method == "GET"):
                call(route, Call(request, parameters, respond))
                return
            allowed.add(route.method)
        if allowed:
            allow = ", ".join(sorted(allowed))
            response = failure(HttpError("method_not_allowed", f"allowed here: {allow}"))
            respond(msgspec.structs.replace(response, headers=(("allow", allow),)))
        else:
            respond(failure(HttpError("not_found", "there is nothing at this path; see /openapi.json")))


def call(route: Route, it: Call) -> None:
    """Run a handler; an HttpError it raises is its answer."""
    try:
        route.handler(it)
    except HttpError as error:
        it.fail(error)


def match(pattern: Sequence[str], path: Sequence[str]) -> dict[str, str] | None:
    """What the pattern's names stand for in this path; None: it is another path."""
    parameters: dict[str, str] = {}
    for position, part in enumerate(pattern):
        if part.endswith("...}"):
            rest = path[position:]
            return {**parameters, part[1:-4]: "/".join(rest)} if rest else None
        if position >= len(path):
            return None
        if part.startswith("{"):
            parameters[part[1:-1]] = path[position]
        elif part != path[position]:
            return None
    return parameters if len(path) == len(pattern) else None
