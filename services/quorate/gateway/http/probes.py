"""``/livez``, ``/readyz``, ``/quorumz``: three questions a machine asks, each with the reason in the answer.

Rules: *live* is about this process alone (no restart because a neighbour is down); *ready* about whether clients should
come here; *quorum* about the cluster, proved by a linearizable read.
"""

import msgspec

from quorate.controller import ReadView
from quorate.gateway.fresh import Freshness, NotFresh
from quorate.gateway.http.answers import Check
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.messages import Response
from quorate.gateway.http.routing import Call


def verdict(checks: dict[str, bool], reason: str = "") -> Response:
    """200 when everything holds, else 503; the message names what does not, and the reason where one is known."""
    failing = [name for name, holds in checks.items() if not holds]
    message = "ok" if not failing else "not so: " + ", ".join(failing) + (f" ({reason})" if reason else "")
    return Response(503 if failing else 200, msgspec.json.encode(Check(ok=not failing, checks=checks, message=message)))


class Probes:
    """The handlers."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context

    def live(self, call: Call) -> None:
        """GET /livez."""
        call.respond(verdict({"running": self._context.alive()}))

    def ready(self, call: Call) -> None:
        """GET /readyz."""
        context = self._context
        checks = {
            "running": context.alive(),
            "log": context.serving(),
            "cluster": context.controller.offset > 0,
            "leader": context.controller.leader_id is not None,
            "caught up": context.engine.caught_up,
            "state": context.agrees(),
        }
        call.respond(verdict(checks, context.waits_for()))

    def quorum(self, call: Call) -> None:
        """GET /quorumz."""

        def seen(view: ReadView | NotFresh) -> None:
            call.respond(verdict({"linearizable read": isinstance(view, ReadView)}))

        self._context.fresh.read(Freshness(), seen)
