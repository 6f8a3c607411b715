"""Elections in words: of what kind, by which rule, who won and why, and where each of the others fell.

Rules: the page, the command line and the demonstration say the same. A name that is not known here is said as it is:
a newer build may have written it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.events import Candidate, ElectionFailed, MasterElected
from quorate.model.words import plural, size

AnyElection = MasterElected | ElectionFailed

_KINDS: Final[Mapping[str, str]] = {
    "connection closed": "master’s connection closed",
    "heartbeat expired": "master fell silent",
    "shut down": "master shut down",
    "admin": "asked by an operator",
    "broker": "asked by a broker",
    "inactive master scan": "a replica came back",
    "balance": "evened out",
}
_ASKERS: Final[Mapping[str, str]] = {
    "master lost": "the controller, which lost its master",
    "broker": "a broker",
    "admin": "an operator",
    "inactive master scan": "the controller, which looks for sets without one",
    "balance": "the controller, which evens out who leads",
}
_RULES: Final[Mapping[str, str]] = {
    "first election": "first to ask",
    "designated": "named by the operator",
    "address changed": "the master moved",
    "only candidate": "only one left to stand",
    "higher epoch": "highest epoch",
    "higher max offset": "highest offset",
    "higher priority": "best priority",
    "lower broker id": "lowest broker id",
    "": "nobody may stand",
    # Of what-if alone:
    "offsets unknown": "the offset decides, and offsets of that moment are not in the log",
    "no quorum": "without a quorum nobody can be elected",
    "nobody eligible": "nobody who is alive may be elected",
    "master lives": "the master lives",
}
_APPOINTED: Final[Mapping[str, str]] = {
    "first election": "The set never had a master, and this broker asked first.",
    "designated": "An operator named it, and it was alive and in the sync set.",
    "address changed": (
        "The master came back at another address and stays; its replicas follow it there only in a new epoch."
    ),
}
_WON: Final[Mapping[str, str]] = {
    "only candidate": "was the only one that could stand",
    "higher epoch": "had the highest epoch of those that could stand",
    "higher max offset": "had the highest offset of those that could stand in its epoch",
    "higher priority": "had the best priority of those that could stand at its offset",
    "lower broker id": "had the lowest id of those that could stand, all else equal",
}


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One question that candidates were asked, in the order of the rules."""

    id: str
    name: str
    out_by: str
    """The verdict of who fell here."""
    decided: bool = False
    """Here the winner was found."""


_IN_SYNC, _ALIVE = "In sync set", "Alive"
_COLUMNS: Final = (
    (Column(id="alive", name=_ALIVE, out_by="not alive"), ""),
    (Column(id="sync", name=_IN_SYNC, out_by="not in sync state set"), ""),
    (Column(id="learner", name="No learner", out_by="learner"), ""),
    (Column(id="named", name="Asked for", out_by="not asked for"), "old master is alive"),
    (Column(id="epoch", name="Highest epoch", out_by="lower epoch"), "higher epoch"),
    (Column(id="offset", name="Highest offset", out_by="lower max offset"), "higher max offset"),
    (Column(id="priority", name="Best priority", out_by="lower priority"), "higher priority"),
    (Column(id="lowest", name="Lowest id", out_by="higher broker id"), "lower broker id"),
)
"""With the rule that decides there."""
_COMPARED: Final = ("epoch", "offset", "priority")
"""Nobody is, where one was named."""


def columns(event: AnyElection) -> list[Column]:
    """What candidates of this election were asked; where it says nothing a question is left out."""
    rule, fell = event.decided_by if isinstance(event, MasterElected) else "", {c.out_by for c in event.candidates}
    named = rule in _APPOINTED
    asked = {
        "learner": "learner" in fell or any(candidate.learner for candidate in event.candidates),
        "named": named or "not asked for" in fell,
        "lowest": rule == "lower broker id",
        **dict.fromkeys(_COMPARED, not named),
    }
    shown = [(column, by) for column, by in _COLUMNS if asked.get(column.id, True)]
    if rule == "only candidate":  # The last question at which another fell.
        deciding = [column for column, _ in shown if column.out_by in fell][-1:]
    else:
        deciding = [column for column, by in shown if rule and (by == rule or (named and column.id == "named"))]
    return [msgspec.structs.replace(column, decided=column in deciding) for column, _ in shown]


def kind_words(kind: str) -> str:
    """What there was an election for: its evidence, or its trigger where there is none."""
    return _KINDS.get(kind, kind)


def asker(trigger: str) -> str:
    """Who asked for it."""
    return _ASKERS.get(trigger, trigger)


def rule_words(decided_by: str) -> str:
    """The rule that decided; empty where nobody was elected."""
    return _RULES.get(decided_by, decided_by)


def whatif_words(rule: str, unclean: bool, loses_bytes: int | None) -> str:
    """By which rule it would be, and what an unclean winner would lose."""
    lost = "what it had not copied" if loses_bytes is None else size(loses_bytes)
    return rule_words(rule) + (f"; loses {lost}" if unclean else "")


def headline(event: AnyElection) -> str:
    """What happened to the set."""
    name, old = event.broker_set, event.old_master
    match event:
        case ElectionFailed():
            lost = ": again nobody could be elected" if old is None else " lost its master and nobody could follow"
            return name + lost
        case MasterElected(old_master=None):
            news = "has a master again" if event.old_sync_state_set else "got its first master"
            return f"{name} {news}, broker {event.master}"
        case MasterElected(decided_by="address changed"):
            return f"{name} keeps broker {event.master}, which moved"
        case MasterElected(trigger="admin"):
            return f"{name} was handed from broker {old} to broker {event.master}"
        case MasterElected(trigger="balance"):
            return f"{name} was moved from broker {old} to broker {event.master} for balance"
        case _:
            return f"{name} elected broker {event.master} in place of broker {old}"


def because(event: AnyElection) -> str:
    """Why that one, or why nobody."""
    alive = sum(candidate.alive for candidate in event.candidates)
    of, were = plural(len(event.candidates), "candidate"), "one was" if alive == 1 else f"{alive} were"
    if isinstance(event, ElectionFailed):
        return f"Of {of} {were} alive, but none of the living may be elected." if alive else f"None of {of} was alive."
    rule = event.decided_by
    if rule == "designated" and event.trigger == "balance":
        return "The controller named it to even out who leads, and it was alive and in the sync set."
    won = _WON.get(rule, f"won: {rule_words(rule)}")
    return _APPOINTED.get(rule, f"Of {of} {were} alive; broker {event.master} {won}.")


def caveat(event: AnyElection, policy: bool | None) -> str:
    """What is to be known about it, mostly nothing. ``policy``: were unclean elections allowed? None: not known."""
    if isinstance(event, MasterElected):
        risk = "Unclean: the winner was not in the sync set and may lack acknowledged messages."
        return risk if event.unclean else ""
    passed = _IN_SYNC if any(candidate.alive for candidate in event.candidates) else _ALIVE
    unclean = "not set in the log" if policy is None else "on" if policy else "off"
    return (
        f"No candidate passed “{passed}”. Unclean election is {unclean}, "
        "so the controller elects nobody rather than lose acknowledged messages."
    )


def verdict(candidate: Candidate, event: AnyElection) -> str:
    """Why a candidate stands where it stands."""
    if candidate.verdict == "elected" and isinstance(event, MasterElected):
        return f"elected: {rule_words(event.decided_by)}"
    return f"out: {_out(candidate, event)}"


def _out(candidate: Candidate, event: AnyElection) -> str:
    match candidate.out_by:
        case "not alive":
            return "it is the master that was lost" if candidate.broker_id == event.old_master else "fenced"
        case "not in sync state set":
            behind = max(one.max_offset for one in event.candidates) - candidate.max_offset
            told = candidate.max_offset >= 0 and behind > 0
            return "not in the sync set" + (f", {size(behind)} behind" if told else "")
        case "learner":
            return "a learner is never elected"
        case "not asked for":
            return "another was asked for"
        case "higher broker id":
            return "as good, but a higher id"
        case _:
            winners = [one for one in event.candidates if one.verdict == "elected"]
            return _beaten(candidate, winners[0]) if winners else candidate.out_by


def _beaten(candidate: Candidate, winner: Candidate) -> str:
    match candidate.out_by:
        case "lower epoch":
            return f"epoch {candidate.epoch}, broker {winner.broker_id} has {winner.epoch}"
        case "lower max offset":
            return f"{size(winner.max_offset - candidate.max_offset)} behind broker {winner.broker_id}"
        case "lower priority":
            return f"priority {candidate.priority:,}, broker {winner.broker_id} has {winner.priority:,}"
        case _:
            return candidate.out_by
