"""Random histories of requests: mostly plausible, often at the edge, sometimes wrong.

The pristine model runs along, so that epochs, ids and masters in the requests are mostly the current ones. Now and
then a whole drama is played: a set in full health, every replica in sync, loses its master, or its master moves.
"""

import random
from collections.abc import Iterator
from typing import Any

from tests.model.model import Model, Request

SETS = ("a", "b")
OFFSETS = (-1, 0, 1_000, 2_000, 2**31 + 3_000, 2**32 + 1_000, 2**33)
EPOCHS = (-1, 0, 1)
KINDS = {
    1013: 10, 1003: 7, 904: 22, "dies": 10, 1002: 22, 1001: 14, 1011: 4, "learners": 1, 1012: 2, 1004: 3, 1006: 2,
    17: 7, 215: 1,
}  # fmt: skip


def history(seed: int, steps: int, settings: dict[str, bool] | None = None) -> list[Request]:
    """``steps`` requests; the same for the same seed."""
    chance, model = random.Random(seed), Model(settings)
    requests: list[Request] = []
    while len(requests) < steps:
        if chance.random() < 0.02:
            for request in _drama(chance, model):
                requests.append(request)
                model.step(request)
            continue
        (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
        request = {"code": kind, **_fill(kind, chance, model)}
        requests.append(request)
        model.step(request)
    return requests


def _drama(chance: random.Random, model: Model) -> Iterator[Request]:
    """Three replicas alive and in sync, differing in one thing; the master dies, and the controller elects; or it comes
    back at another address before it is given up.
    """
    name = chance.choice(SETS)
    heartbeat = {"code": 904, "cluster": "c", "broker_set": name}
    for number in (1, 2, 3):
        if number not in model.replicas.get(name, {}).get("ids", {}):
            code = f"10.0.0.{number}:1;17"
            yield {"code": 1013, "cluster": "c", "broker_set": name, "broker_id": number, "check_code": code}
            register = {"code": 1003, "cluster": "c", "broker_set": name, "broker_id": number}
            yield {**register, "address": f"10.0.0.{number}:1"}
        yield {**heartbeat, "broker_id": number, "epoch": 0, "max_offset": 0, "priority": 5}
    sync = model.sync[name]
    if sync["master"] is None:
        yield {"code": 1002, "broker_set": name, "broker_id": chance.choice((1, 2, 3)), "designate": False}
    yield {
        "code": 1001, "broker_set": name, "master": sync["master"], "master_epoch": sync["master_epoch"],
        "sync_state_set": [1, 2, 3], "sync_state_set_epoch": sync["set_epoch"],
    }  # fmt: skip
    epochs, offsets, priorities = chance.choice(((True, False, False), (False, True, True), (False, False, True)))
    for number in (1, 2, 3):
        epoch = sync["master_epoch"] - chance.choice((0, 1)) * epochs
        offset = chance.choice(OFFSETS) if offsets or epochs else OFFSETS[-1]
        priority = chance.choice((1, 5, 2**31 - 1)) if priorities else 5
        yield {**heartbeat, "broker_id": number, "epoch": epoch, "max_offset": offset, "priority": priority}
    moves = sync["master"] is not None and chance.random() < 0.3
    master = {"cluster": "c", "broker_set": name, "broker_id": sync["master"]}
    yield {"code": "dies", **master, "fence": not moves}
    if moves:
        yield {"code": 1003, **master, "address": f"10.0.1.{sync['master']}:{chance.choice((1, 2))}"}
    yield {"code": 1002, "broker_set": name, "broker_id": None, "designate": False}


def _fill(kind: Any, chance: random.Random, model: Model) -> dict[str, Any]:
    makers = {
        1013: _apply, 1003: _register, 904: _heartbeat, "dies": _dies, 1002: _elect, 1001: _alter, 1011: _clean,
        "learners": _learners, 1012: _next_id, 1004: _info, 1006: _data, 17: _put, 215: _delete,
    }  # fmt: skip
    return makers[kind](chance, model)


def _name(chance: random.Random) -> str:
    return chance.choice(SETS) if chance.random() < 0.98 else "unknown"


def _cluster(chance: random.Random) -> str:
    return "c" if chance.random() < 0.97 else "other"


def _member(chance: random.Random, model: Model, name: str, stray: float = 0.06) -> int:
    """A member's id, or now and then any other."""
    known = sorted(model.replicas.get(name, {}).get("ids", {}))
    return chance.choice(known) if known and chance.random() >= stray else chance.choice((1, 2, 3, 4, 9))


def _apply(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    number: int | None = model.replicas.get(name, {"next": 1})["next"]
    if chance.random() < 0.3:
        number = chance.choice((1, 2, 3, 5, 0, -1, None))
    code = f"10.0.0.{number}:{chance.choice((1, 1, 1, 2))};17" if chance.random() < 0.97 else None
    return {"cluster": _cluster(chance), "broker_set": name, "broker_id": number, "check_code": code}


def _register(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    number = _member(chance, model, name)
    address = f"10.0.0.{number}:{chance.choice((1, 1, 3))}"
    return {"cluster": _cluster(chance), "broker_set": name, "broker_id": number, "address": address}


def _heartbeat(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    now = model.sync.get(name, {}).get("master_epoch", 0)
    epochs = (now, now, now, now - 1, now + 1, now + 40, now + 10**6, now + 10**6 + 1, *EPOCHS)
    return {
        "cluster": _cluster(chance),
        "broker_set": name,
        "broker_id": _member(chance, model, name) if chance.random() < 0.99 else None,
        "epoch": chance.choice(epochs[:4]) if chance.random() < 0.8 else chance.choice(epochs),
        "max_offset": chance.choice(OFFSETS),
        "priority": chance.choice((1, 5, 2**31 - 1)),
    }


def _dies(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    number = _member(chance, model, name)
    master = model.sync.get(name, {}).get("master")
    if master is not None and chance.random() < 0.5:
        number = master
    return {"cluster": "c", "broker_set": name, "broker_id": number, "fence": chance.random() < 0.7}


def _elect(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    number: int | None = _member(chance, model, name)
    way = chance.random()
    if way < 0.4:
        return {"broker_set": name, "broker_id": None, "designate": False}
    return {"broker_set": name, "broker_id": number, "designate": way > 0.75}


def _alter(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    sync = model.sync.get(name) or {"master": 1, "master_epoch": 1, "set_epoch": 1, "cluster": "c", "set": set()}
    master = sync["master"] if sync["master"] is not None else 1
    members = model.replicas.get(name, {}).get("ids", {})
    alive = {number for number in members if model.alive(sync["cluster"], name, number)}
    wanted = {number for number in alive if chance.random() < 0.8} | {master}
    if chance.random() < 0.2:
        wanted = set(chance.sample((1, 2, 3, 4, 9), chance.randint(0, 3)))
    return {
        "broker_set": name,
        "master": master if chance.random() < 0.93 else chance.choice((1, 2, 3)),
        "master_epoch": sync["master_epoch"] + chance.choice((0,) * 14 + (1, -1)),
        "sync_state_set": sorted(wanted) if chance.random() < 0.98 else None,
        "sync_state_set_epoch": sync["set_epoch"] + chance.choice((0,) * 14 + (1, -1)),
    }


def _clean(chance: random.Random, model: Model) -> dict[str, Any]:
    name = _name(chance)
    ids = [str(_member(chance, model, name)) for _ in range(chance.randint(1, 2))]
    text = chance.choice((None, "", " ", "x", "1;;2", ";".join(ids) + ";", *[";".join(ids)] * 8))
    cluster = _cluster(chance) if chance.random() < 0.9 else None
    return {"cluster": cluster, "broker_set": name, "broker_ids": text, "clean_living": chance.random() < 0.4}


def _learners(chance: random.Random, _model: Model) -> dict[str, Any]:
    return {"broker_set": chance.choice(SETS), "broker_ids": sorted(chance.sample((1, 2, 3), chance.randint(0, 2)))}


def _next_id(chance: random.Random, _model: Model) -> dict[str, Any]:
    return {"cluster": _cluster(chance), "broker_set": _name(chance)}


def _info(chance: random.Random, _model: Model) -> dict[str, Any]:
    return {"broker_set": _name(chance)}


def _data(chance: random.Random, _model: Model) -> dict[str, Any]:
    return {"broker_sets": chance.choice((None, [], ["a"], ["b", "a"], ["a", "unknown"]))}


def _put(chance: random.Random, _model: Model) -> dict[str, Any]:
    changes = [
        {}, {"+message.type": "FIFO"}, {"+message.type": "NORMAL"}, {"-message.type": ""}, {"+message.type": "fifo"},
        {"+nothing": "1"}, {"message.type": "FIFO"}, {"+cleanup.policy": "COMPACTION"}, {"-cleanup.policy": ""},
        {"+reserve.time": "-1", "+queue.type": "BatchCQ"}, {"+reserve.time": "-2"}, {"+reserve.time": "7"},
    ]  # fmt: skip
    name = chance.choice((*["t"] * 16, "u", "%RETRY%g", "a b", "", "x" * 127, "x" * 128, "TBW102", "a/b"))
    return {
        "topic": name,
        "read_queues": chance.choice((4, 4, 8)),
        "write_queues": chance.choice((4, 4, 8)),
        "permission": chance.choice((6, 6, 4)),
        "filter_type": "SINGLE_TAG",
        "system_flags": 0,
        "order": chance.random() < 0.2,
        "attributes": chance.choice(changes),
    }


def _delete(chance: random.Random, _model: Model) -> dict[str, Any]:
    return {"topic": chance.choice(("t", "u", "%RETRY%g"))}
