"""Run one history through two things and say where they first part."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.model.model import Answer, Request

UNCOMPARED = {2004, 2012}
"""Refusals whose fields Java leaves empty and ours need not."""


class Stepping(Protocol):
    """The model, a mutant of it, or the subject."""

    def step(self, request: Request) -> Answer:
        """One request."""

    def dump(self) -> dict[str, Any]:
        """The entities."""


Make = Callable[[], Stepping]


def disagreement(model: Stepping, subject: Stepping, requests: Sequence[Request]) -> tuple[int, str] | None:
    """The first step after which answers or entities differ, and how; None when they agree to the end."""
    for at, request in enumerate(requests):
        expected, found = model.step(request), subject.step(request)
        if difference := _answers(request, expected, found):
            return at, f"{request}\n  {difference}"
        if model.dump() != subject.dump():
            return at, f"{request}\n  model   {model.dump()}\n  quorate {subject.dump()}"
    return None


def smallest(model: Make, subject: Make, requests: Sequence[Request]) -> str:
    """The disagreement of the shortest history found by leaving requests out, for people to read."""
    found = disagreement(model(), subject(), requests)
    if found is None:
        return "they agree"
    kept, before = list(requests[: found[0] + 1]), 0
    while len(kept) != before:  # Until no single request can be left out.
        before = len(kept)
        for at in reversed(range(len(kept))):
            fewer = kept[:at] + kept[at + 1 :]
            if disagreement(model(), subject(), fewer):
                kept = fewer
    last = disagreement(model(), subject(), kept)
    return "\n".join([*map(str, kept), f"differs: {last and last[1]}"])


def _answers(request: Request, expected: Answer, found: Answer) -> str | None:
    done, did = expected["code"] == 0, found["code"] == 0
    if expected["code"] == -1:  # The model only says that it is refused.
        return None if not did else f"model refuses, quorate {found}"
    if expected["code"] != found["code"]:
        return f"model {expected}\n  quorate {found}"
    if not done and expected["remark"] is not None and expected["remark"] != found["remark"]:
        return f"model {expected}\n  quorate {found}"
    if expected["code"] not in UNCOMPARED and expected["fields"] != found["fields"]:
        return f"model {expected}\n  quorate {found}"
    return None
