"""Asks a node who would be master if these failed; it answers with the very function it decides with."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.model.election_words import whatif_words
from quorate_spark.dashboard.asking import ApiError
from quorate_spark.dashboard.model import State
from quorate_spark.dashboard.panels.sets import label

FAIL_MAX: Final = 20_000


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question: ``fail`` holds ``node/<id>``, ``broker/<set>/<id>``, ``zone/<name>``, ``host/<name>``."""

    fail: list[str]
    at: int | None = None
    unclean: bool | None = None


class NodeWhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A node's answer."""

    offset: int
    time_ms: int
    node: int | None = None
    quorum: msgspec.Raw
    rows: msgspec.Raw


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The data of POST /api/whatif."""

    quorum: msgspec.Raw
    rows: list[dict[str, object]]
    """The node's, each with ``why``: its rule, and what may be lost, in words."""
    fail: list[str]
    """The nodes and brokers that were said to fail."""


def question(body: bytes) -> WhatIf:
    """The body of the request. Raises ApiError."""
    try:
        asked = msgspec.json.decode(body, type=WhatIf)
    except msgspec.DecodeError as error:
        raise ApiError("invalid", str(error)) from error
    if len(asked.fail) > FAIL_MAX:
        raise ApiError("invalid", f"fail: at most {FAIL_MAX}")
    return asked


class _Judged(msgspec.Struct, frozen=True):
    """What a row of a node is put into words by."""

    rule: str
    unclean: bool
    loses_bytes: int | None


def worded(rows: msgspec.Raw) -> list[dict[str, object]]:
    """The rows of a node's answer, whatever they hold, with their words."""
    judged = msgspec.json.decode(rows, type=list[_Judged])
    told = [whatif_words(row.rule, row.unclean, row.loses_bytes) for row in judged]
    whole = msgspec.json.decode(rows, type=list[dict[str, object]])
    return [{**row, "why": why} for row, why in zip(whole, told, strict=True)]


def spelled_out(asked: WhatIf, state: State, zones: Mapping[int, str]) -> list[str]:
    """Zones and hosts as the nodes and brokers in them. Raises ApiError for one nobody knows."""
    words: dict[str, None] = {}
    places = _places(state) if any(word.startswith(("zone/", "host/")) for word in asked.fail) else {}
    for word in dict.fromkeys(asked.fail):
        kind, _, name = word.partition("/")
        if kind in ("node", "broker") and name:
            words[word] = None
        elif kind in ("zone", "host") and name:
            within = list(places.get(word, ()))
            if kind == "zone":
                within += [f"node/{number}" for number, zone in sorted(zones.items()) if zone == name]
            if not within:
                raise ApiError("invalid", f"fail: nothing is in {word[:80]!r}")
            words.update(dict.fromkeys(within))
        else:
            raise ApiError("invalid", f"fail: {word[:80]!r} is no node, broker, zone or host")
    return list(words)


def _places(state: State) -> dict[str, list[str]]:
    """Every zone and host with the brokers in it: one walk over the sets, however many words ask."""
    found = defaultdict[str, list[str]](list)
    for _, broker_set in sorted(state.sets.items()):
        labels = state.model.configs.get(f"broker-set/{broker_set.name}")
        for member in broker_set.members if labels is not None else ():
            for kind in ("zone", "host"):
                found[f"{kind}/{label(labels, kind, member.id)}"].append(f"broker/{broker_set.name}/{member.id}")
    return found
