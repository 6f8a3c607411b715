"""The controller's rules once more, as plainly as they can be said: dictionaries, loops, no cleverness.

Rules: written from the published behaviour of the RocketMQ 5.3 controller alone; imports nothing from quorate and
knows nothing of how quorate decides. Where the two differ, that behaviour decides, not this file. Each safe deviation
from Java is a setting of its own, so that both worlds can be compared.

Liveness is what a test says: a heartbeat makes an id alive, ``dies`` makes it dead; nothing expires by itself.
"""

import re
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

SAFE: dict[str, bool] = {
    "unclean": False,  # May a replica outside the sync state set be elected?
    "offsets_64_bit": True,  # Java compares maxOffset by an int difference.
    "single_bump": True,  # Java: each failed controller election takes an epoch, also when nothing changed.
    "epoch_floor": True,  # Java ignores the epochs that heartbeats report.
    "first_election_checked": True,  # Java elects whoever asks first, known or not.
    "learners_excluded": True,  # Java elects asynchronous learners too.
    "clean_living_keeps_others": True,  # Java drops the whole set under -l, whatever ids are given.
    "no_half_known_set": True,  # Java can forget the sync state of a set and keep its replicas.
    "no_failed_first_election": True,  # Java: a set that never had a master can lose it, and then never gets one.
    "living_keeps_address": True,  # Java takes the last address that registers.
    "moved_master_elected": True,  # Java's replicas never hear of their master's new address.
    "positive_ids": True,  # Java lets a broker take 0 or a negative id in a set that exists.
}
JAVA: dict[str, bool] = dict.fromkeys(SAFE, False)

EPOCH_JUMP_MAX = 1_000_000

SYSTEM_TOPICS = {
    "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
}  # fmt: skip
ATTRIBUTES: dict[str, Callable[[str], bool]] = {
    "message.type": lambda value: value in {"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"},
    "cleanup.policy": lambda value: value in {"DELETE", "COMPACTION"},
    "queue.type": lambda value: value in {"BatchCQ", "SimpleCQ"},
    "reserve.time": lambda value: re.fullmatch(r"-?\d+", value) is not None and int(value) >= -1,
}
FIXED_ATTRIBUTES = {"cleanup.policy", "queue.type"}


def answer(code: int, remark: str | None = None, **fields: Any) -> Answer:
    """A code (-1 = refused, by a code the reference does not give), a remark (None = not compared), what it says."""
    return {"code": code, "remark": remark, "fields": fields}


class Model:
    """The whole controller: tables of replicas, of sync states, of live brokers, of topics."""

    def __init__(self, settings: dict[str, bool] | None = None) -> None:
        self.settings = {**SAFE, **(settings or {})}
        self.replicas: dict[str, dict[str, Any]] = {}
        self.sync: dict[str, dict[str, Any]] = {}
        self.live: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.learners: dict[str, set[int]] = {}
        self.topics: dict[str, dict[str, Any]] = {}

    def step(self, request: Request) -> Answer:
        """One request to the leader, one answer."""
        handlers: dict[Any, Callable[[Request], Answer]] = {
            1012: self.next_broker_id,
            1013: self.apply_broker_id,
            1003: self.register,
            904: self.heartbeat,
            "dies": self.dies,
            "learners": self.name_learners,
            1002: self.elect,
            1001: self.alter,
            1004: self.replica_info,
            1006: self.sync_state_data,
            1011: self.clean,
            17: self.put_topic,
            215: self.delete_topic,
        }
        return handlers[request["code"]](request)

    def dump(self) -> dict[str, Any]:
        """The entities, in an order that does not depend on history."""
        sets: dict[str, Any] = {}
        for name in sorted(self.replicas.keys() | self.sync.keys()):
            replicas, sync = self.replicas.get(name, {}), self.sync.get(name, {})
            sets[name] = {
                "cluster": replicas.get("cluster") or sync.get("cluster"),
                "next_broker_id": replicas.get("next"),
                "replicas": {
                    number: {key: who[key] for key in ("address", "check_code", "given_up")}
                    for number, who in sorted(replicas.get("ids", {}).items())
                },
                "master": sync.get("master"),
                "master_epoch": sync.get("master_epoch"),
                "sync_state_set": sorted(sync.get("set", ())),
                "sync_state_set_epoch": sync.get("set_epoch"),
            }
        return {"broker_sets": sets, "topics": {name: self.topics[name] for name in sorted(self.topics)}}

    # What is known.

    def known(self, name: str) -> bool:
        """Is this broker set there, as registration, election and the rest see it?"""
        return name in self.sync and name in self.replicas

    def alive(self, cluster: str, name: str, number: int | None) -> bool:
        """Is there a live entry under exactly this identity?"""
        return number is not None and (cluster, name, number) in self.live

    def address(self, name: str, number: int | None) -> str | None:
        """The address stored for an id; None when the id is unknown."""
        who = self.replicas.get(name, {}).get("ids", {}).get(number)
        return who["address"] if who else None

    # 1012, 1013, 1003: getting an id and an address.

    def next_broker_id(self, request: Request) -> Answer:
        """1012: what id comes next; nothing is reserved."""
        known = self.replicas.get(request["broker_set"])
        return answer(0, next_broker_id=known["next"] if known else 1)

    def apply_broker_id(self, request: Request) -> Answer:
        """1013: take an id, recognised by its check code when it comes twice."""
        name, number, check_code = request["broker_set"], request["broker_id"], request["check_code"]
        if number is None or check_code is None:
            return answer(1)
        known = self.replicas.get(name)
        if self.settings["positive_ids"] and number < 1:
            return answer(2014)
        if known is None:
            if number != self.first_id():
                return answer(
                    2014,
                    f"Broker-set: {name} hasn't been registered in controller, "
                    f"but broker try to apply brokerId: {number}",
                )
        elif number in known["ids"] and known["ids"][number]["check_code"] != check_code:
            return answer(2014, f"Fail to apply brokerId: {number} in broker-set: {name}")
        if known is None or not self.known(name):
            self.replicas[name] = known = {"cluster": request["cluster"], "next": 1, "ids": {}}
            self.sync[name] = {
                "cluster": request["cluster"], "master": None, "master_epoch": 0, "set": set(), "set_epoch": 0,
                "failed_with": None,
            }  # fmt: skip
        if number not in known["ids"]:
            known["ids"][number] = {
                "address": check_code.split(";")[0], "check_code": check_code, "given_up": False, "registered": False,
            }  # fmt: skip
            known["next"] += 1
        return answer(0)

    def first_id(self) -> int:
        """The only id a new broker set may begin with."""
        return 1

    def register(self, request: Request) -> Answer:
        """1003: a broker says where it serves; it learns the master as it was before."""
        name, number = request["broker_set"], request["broker_id"]
        if not self.known(name):
            return answer(2010, f"Broker-set: {name} hasn't been registered in controller")
        if number not in self.replicas[name]["ids"]:
            return answer(2010, f"BrokerId: {number} hasn't been registered in broker-set: {name}")
        sync = self.sync[name]
        fields: dict[str, Any] = {
            "sync_state_set": sorted(sync["set"]), "body_epoch": sync["set_epoch"],
            "master": None, "master_address": None, "master_epoch": None, "sync_state_set_epoch": None,
        }  # fmt: skip
        if self.tells_master(request["cluster"], name, sync["master"]):
            fields["master"] = sync["master"]
            fields["master_address"] = self.address(name, sync["master"])
            fields["master_epoch"] = sync["master_epoch"]
            fields["sync_state_set_epoch"] = sync["set_epoch"]
        who = self.replicas[name]["ids"][number]
        moves = who["registered"] and who["address"] != request["address"]
        if moves and self.keeps_address(name, number):
            return answer(2014, f"BrokerId: {number} of broker-set: {name} is alive at {who['address']}")
        who["address"], who["registered"] = request["address"], True
        others = [one for one, other in self.replicas[name]["ids"].items() if one != number and other["registered"]]
        if moves and others and sync["master"] == number and self.settings["moved_master_elected"]:
            sync["master_epoch"] = self.next_epoch(name)
            sync["set_epoch"] += 1
            sync["set"], sync["failed_with"] = {number}, None
        return answer(0, **fields)

    def keeps_address(self, name: str, number: int) -> bool:
        """Is it heard, and not given up, so that nobody else can be it?"""
        given_up = self.replicas[name]["ids"][number]["given_up"]
        alive = self.alive(self.sync[name]["cluster"], name, number)
        return self.settings["living_keeps_address"] and alive and not given_up

    def tells_master(self, cluster: str, name: str, master: int | None) -> bool:
        """Is the master part of a registration's answer filled in?"""
        return master is not None and self.alive(cluster, name, master)

    # 904 and silence.

    def heartbeat(self, request: Request) -> Answer:
        """904: alive; what it reports is taken when (epoch, maxOffset) grew."""
        if request["broker_id"] is None:
            return answer(2005, "Heart beat with empty brokerId")
        who = (request["cluster"], request["broker_set"], request["broker_id"])
        fresh = {key: request[key] for key in ("epoch", "max_offset", "priority")}
        old = self.live.get(who)
        if old is not None and (fresh["epoch"], fresh["max_offset"]) <= (old["epoch"], old["max_offset"]):
            fresh["epoch"], fresh["max_offset"] = old["epoch"], old["max_offset"]
        self.live[who] = fresh
        known = self.replicas.get(request["broker_set"], {"cluster": None, "ids": {}})
        if known["cluster"] == request["cluster"] and request["broker_id"] in known["ids"]:
            known["ids"][request["broker_id"]]["given_up"] = False
        return answer(0, "Heart beat success")

    def dies(self, request: Request) -> Answer:
        """Its channel closed or its heartbeat expired: the entry is gone; perhaps the controller gives it up."""
        gone = self.live.pop((request["cluster"], request["broker_set"], request["broker_id"]), None)
        known = self.replicas.get(request["broker_set"])
        if gone is not None and request["fence"] and known is not None and known["cluster"] == request["cluster"]:
            self.give_up(request["broker_set"], request["broker_id"])
        return answer(0)

    def give_up(self, name: str, number: int) -> None:
        """Once, until it is heard again; for a master another is elected in the same decision."""
        member = self.replicas.get(name, {}).get("ids", {}).get(number)
        if member is None or member["given_up"]:
            return
        member["given_up"] = True
        if self.succeeded(name, number):
            self.elect({"broker_set": name, "broker_id": None, "designate": False})

    def succeeded(self, name: str, number: int) -> bool:
        """Is another elected when this one is given up?"""
        return self.known(name) and bool(self.sync[name]["master"] == number)

    def name_learners(self, request: Request) -> Answer:
        """An operator says who copies asynchronously: stock heartbeats do not."""
        self.learners[request["broker_set"]] = set(request["broker_ids"])
        return answer(0)

    # 1002: elections.

    def elect(self, request: Request) -> Answer:
        """1002: by a broker (its id), by an operator (a designated id) or by the controller itself (no id)."""
        name, asker = request["broker_set"], request["broker_id"]
        if asker == -1:  # The header's default: nobody.
            asker = None
        if not self.known(name):
            return answer(2010, "Broker hasn't been registered")
        sync = self.sync[name]
        if self.settings["first_election_checked"] and self.asks_as_stranger(name, asker):
            return answer(-1)
        chosen = self.choose(name, asker, request["designate"])
        if chosen is not None and chosen == sync["master"]:
            return answer(
                2011,
                f"The old master {chosen} is still alive, not need to elect new master for broker {name}",
                **self.master_fields(name),
                members=None,
            )
        if chosen is not None:
            sync["master_epoch"] = self.next_epoch(name)
            sync["set_epoch"] += 1
            sync["master"], sync["set"], sync["failed_with"] = chosen, {chosen}, None
            members = {number: who["address"] for number, who in self.replicas[name]["ids"].items()}
            return answer(0, **self.master_fields(name), members=members)
        if asker is not None:
            return answer(2012, "Failed to elect a new master")
        inputs = self.inputs(name)
        never_had_one = self.settings["no_failed_first_election"] and sync["master_epoch"] == 0
        if not never_had_one and not (self.settings["single_bump"] and sync["failed_with"] == inputs):
            sync["master_epoch"], sync["master"], sync["failed_with"] = self.next_epoch(name), None, inputs
        return answer(2004, "Old master has down and failed to elect a new broker master")

    def asks_as_stranger(self, name: str, asker: int | None) -> bool:
        """Does somebody want to be the first master who holds no id of the set?"""
        first = self.sync[name]["master_epoch"] == 0
        return first and asker is not None and asker not in self.replicas[name]["ids"]

    def master_fields(self, name: str) -> dict[str, Any]:
        """What the answers 0 and 2011 say of the master."""
        sync = self.sync[name]
        return {
            "master": sync["master"], "master_address": self.address(name, sync["master"]),
            "master_epoch": sync["master_epoch"], "sync_state_set": sorted(sync["set"]),
            "sync_state_set_epoch": sync["set_epoch"],
        }  # fmt: skip

    def choose(self, name: str, asker: int | None, designate: bool) -> int | None:
        """Who shall be master; None when nobody may."""
        sync, members = self.sync[name], self.replicas[name]["ids"]
        if sync["master_epoch"] == 0 and asker is not None:
            return None if self.is_learner(name, asker) else asker
        preferred = asker if designate else None
        found = self.policy(name, sync["set"], preferred)
        if found is None and self.settings["unclean"]:
            found = self.policy(name, set(members), preferred)
        return found

    def policy(self, name: str, pool: set[int], preferred: int | None) -> int | None:
        """One try among ``pool``: the old master stays; the preferred or nobody; else the one that is furthest."""
        sync = self.sync[name]
        if sync["master"] in pool and preferred in (None, sync["master"]):
            kept: int = sync["master"]
            if self.alive(sync["cluster"], name, kept):
                return kept  # A learner too: to stay is not to be elected.
        alive = [number for number in sorted(pool) if self.electable(sync["cluster"], name, number)]
        if not alive:
            return None
        if preferred is not None:
            return preferred if preferred in alive else None
        best = alive[0]
        for number in alive[1:]:
            if self.beats(self.report(name, number), self.report(name, best)):
                best = number
        return best

    def report(self, name: str, number: int) -> dict[str, Any]:
        """What a live member says of itself, so far as it is believed."""
        sync = self.sync[name]
        entry = self.live[sync["cluster"], name, number]
        if self.settings["epoch_floor"] and not self.plausible(sync, entry["epoch"]):
            return {**entry, "epoch": -1}
        return entry

    def plausible(self, sync: dict[str, Any], epoch: int) -> bool:
        """Is a reported epoch near enough to the set's own to be believed?"""
        return bool(epoch - sync["master_epoch"] <= EPOCH_JUMP_MAX)

    def electable(self, cluster: str, name: str, number: int) -> bool:
        """Alive, and no learner."""
        return self.alive(cluster, name, number) and not self.is_learner(name, number)

    def is_learner(self, name: str, number: int) -> bool:
        """Is it kept from office as a learner?"""
        return self.settings["learners_excluded"] and number in self.learners.get(name, ())

    def beats(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Is ``one`` to be preferred: higher epoch, then higher offset, then lower priority number?"""
        if one["epoch"] != other["epoch"]:
            return bool(one["epoch"] > other["epoch"])
        if one["max_offset"] != other["max_offset"]:
            return self.offset_beats(one["max_offset"], other["max_offset"])
        return bool(one["priority"] < other["priority"])

    def offset_beats(self, one: int, other: int) -> bool:
        """Is offset ``one`` further? Java asks the low 32 bits of the difference."""
        difference = one - other
        if not self.settings["offsets_64_bit"]:
            difference = (difference + 2**31) % 2**32 - 2**31
        return difference > 0

    def next_epoch(self, name: str) -> int:
        """One more than the highest epoch that counts."""
        sync = self.sync[name]
        highest: int = sync["master_epoch"]
        if self.settings["epoch_floor"]:
            for number in self.replicas[name]["ids"]:
                entry = self.live.get((sync["cluster"], name, number))
                if entry and self.plausible(sync, entry["epoch"]):
                    highest = max(highest, entry["epoch"])
        return highest + 1

    def inputs(self, name: str) -> Any:
        """What a failed election depends on: while this stays, another one would fail likewise."""
        sync = self.sync[name]
        members = sorted(self.replicas[name]["ids"].keys() | sync["set"])
        alive = tuple(number for number in members if self.alive(sync["cluster"], name, number))
        kept_out = tuple(number for number in members if self.is_learner(name, number))
        return alive, kept_out, tuple(members), tuple(sorted(sync["set"]))

    # 1001: the master reports who is in sync.

    def alter(self, request: Request) -> Answer:
        """1001: eight checks, in this order."""
        name = request["broker_set"]
        if not self.known(name):
            return answer(2013, "Broker metadata is not existed")
        if request["sync_state_set"] is None:
            return answer(1)
        for check in (self.alter_equal, self.alter_master, self.alter_epoch, self.alter_set_epoch, self.alter_members):
            refusal = check(request, self.sync[name])
            if refusal:
                return refusal
        sync = self.sync[name]
        sync["set"] = set(request["sync_state_set"])
        sync["set_epoch"] += 1
        return answer(0, sync_state_set=sorted(sync["set"]), sync_state_set_epoch=sync["set_epoch"])

    def alter_equal(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        """Nothing would change."""
        if set(request["sync_state_set"]) != sync["set"]:
            return None
        return answer(2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet")

    def alter_master(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        """It is not the master who reports."""
        if sync["master"] is not None and sync["master"] == request["master"]:
            return None
        current, said = ("null" if number is None else number for number in (sync["master"], request["master"]))
        return self.rejected(2002, f"the current leader is:{{{current}}}, not {{{said}}}")

    def alter_epoch(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        """The master reports from another term of office."""
        if sync["master_epoch"] == request["master_epoch"]:
            return None
        return self.rejected(
            2000, f"the current master epoch is:{{{sync['master_epoch']}}}, not {{{request['master_epoch']}}}"
        )

    def alter_set_epoch(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        """The master starts from another set than the current one."""
        if sync["set_epoch"] == request["sync_state_set_epoch"]:
            return None
        asked = request["sync_state_set_epoch"]
        return self.rejected(2001, f"the current syncStateSet epoch is:{{{sync['set_epoch']}}}, not {{{asked}}}")

    def alter_members(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        """Each id in turn known and alive, and the master among them."""
        name, wanted = request["broker_set"], sorted(set(request["sync_state_set"]))
        for number in wanted:
            if number not in self.replicas[name]["ids"]:
                return self.rejected(2003, f"the replicas {{{number}}} don't exist")
            if not self.alive(sync["cluster"], name, number):
                return self.rejected(2006, f"the replicas {{{number}}} don't alive")
        if request["master"] not in wanted:
            return self.rejected(2013, f"the newSyncStateSet don't contains origin leader {{{request['master']}}}")
        return None

    def rejected(self, code: int, why: str) -> Answer:
        """Java's sentence around the reason."""
        return answer(code, f"Rejecting alter syncStateSet request because {why}")

    # 1004, 1006: reading.

    def replica_info(self, request: Request) -> Answer:
        """1004: the recorded master, dead or alive."""
        if not self.known(request["broker_set"]):
            return answer(2008, "Broker metadata is not existed")
        return answer(0, **self.master_fields(request["broker_set"]))

    def sync_state_data(self, request: Request) -> Answer:
        """1006: who is in sync and who is not, with liveness."""
        if not request["broker_sets"]:
            return answer(1, "not set any response code")
        table: dict[str, Any] = {}
        for name in request["broker_sets"]:
            if not self.known(name):
                continue
            sync = self.sync[name]
            rows = [
                (number, who["address"], self.alive(sync["cluster"], name, number))
                for number, who in sorted(self.replicas[name]["ids"].items())
            ]
            table[name] = {
                "in_sync": [row for row in rows if row[0] in sync["set"]],
                "not_in_sync": [row for row in rows if row[0] not in sync["set"]],
                **{key: value for key, value in self.master_fields(name).items() if key != "sync_state_set"},
            }
        return answer(0, table=table)

    # 1011: forgetting.

    def clean(self, request: Request) -> Answer:
        """1011: forget some ids or the whole set."""
        name, ids_text = request["broker_set"], (request["broker_ids"] or "").strip()
        living, numbers = request["clean_living"], None
        if not living and not ids_text and self.sync.get(name, {}).get("master") is not None:
            return answer(2009, f"Broker {name} is still alive, clean up failure")
        if ids_text and (not living or self.settings["clean_living_keeps_others"]):
            try:
                numbers = self.parse_ids(ids_text)
            except ValueError:
                return answer(2009)  # The remark ends with Java's own exception.
        if numbers and not living and any(self.alive(request["cluster"], name, number) for number in numbers):
            return answer(2009)
        if not self.known(name):
            return answer(2009, f"Broker {name} is not existed,clean broker data failure.")
        self.forget(name, numbers)
        return answer(0)

    def parse_ids(self, text: str) -> list[int]:
        """``1;2;3`` as Java splits and parses it: empty parts at the end do not count. Raises ValueError."""
        parts = text.split(";")
        while parts and not parts[-1]:
            parts.pop()
        if any(not re.fullmatch(r"[+-]?[0-9]+", part) for part in parts):
            raise ValueError(text)
        return [int(part) for part in parts]

    def forget(self, name: str, numbers: list[int] | None) -> None:
        """Take the ids, or the set, out of both tables."""
        if not numbers:
            self.replicas.pop(name, None)
            self.sync.pop(name, None)
            return
        for number in numbers:
            self.replicas[name]["ids"].pop(number, None)
            self.sync[name]["set"].discard(number)
        if not self.replicas[name]["ids"]:  # Java may keep a stranger's sync state here; nobody can see it.
            self.replicas.pop(name)
            self.sync.pop(name)
            return
        if not self.sync[name]["set"] and not self.settings["no_half_known_set"]:
            self.sync.pop(name)

    # 17, 215: topics. Codes are not compared: what matters is whether it was done.

    def put_topic(self, request: Request) -> Answer:
        """17: create or update."""
        name, old = request["topic"], self.topics.get(request["topic"])
        if not re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", name) or name in SYSTEM_TOPICS:
            return answer(-1)
        attributes = self.new_attributes(old["attributes"] if old else None, request["attributes"])
        if attributes is None:
            return answer(-1)
        keys = ("read_queues", "write_queues", "permission", "filter_type", "system_flags", "order")
        fresh = {**{key: request[key] for key in keys}, "attributes": attributes}
        self.topics[name] = fresh
        return answer(0, changed=fresh != old)

    def new_attributes(self, old: dict[str, str] | None, changes: dict[str, str]) -> dict[str, str] | None:
        """The attributes after ``+key`` and ``-key``; None when one of the changes may not be."""
        after = dict(old or {})
        for signed, value in changes.items():
            sign, key = signed[:1], signed[1:]
            if sign not in "+-" or key not in ATTRIBUTES or (sign == "-" and old is None):
                return None
            if old is not None and key in FIXED_ATTRIBUTES:
                return None
            if sign == "-":
                if after.pop(key, None) is None:
                    return None
            elif not ATTRIBUTES[key](value):
                return None
            else:
                after[key] = value
        return after

    def delete_topic(self, request: Request) -> Answer:
        """215: forget; what is not there is forgotten already."""
        return answer(0, changed=self.topics.pop(request["topic"], None) is not None)
