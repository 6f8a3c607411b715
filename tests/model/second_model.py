"""A second model of the controller's rules, written blind: by who had never seen ``decide``, nor the first model.

Its sources were the researched behaviour of the RocketMQ 5.3 controllers (cited as §2.6 and so on), our documents
(docs/rules.md, ADRs 16 and 43, what the settings say of themselves, ``deviations.toml``) and a list of the fields of
requests and answers; nothing of quorate is imported. Where those are silent it chose what Java makes likely. At the
first comparison it found two defects of ours; four readings of its own were settled otherwise and are marked so.

State is kept as Java keeps it (§2, "State per broker-set"), in two tables that can come apart (§3.1, event 5):

* ``replica_table`` (``BrokerReplicaInfo``): set -> {cluster, next_broker_id, replicas}
  a replica is {address, check_code, given_up}, by id
* ``sync_table`` (``SyncStateInfo``): set -> {master, master_epoch, sync_state_set, sync_state_set_epoch, failed_inputs}
* ``live_table`` (§2.5, soft state of the leader): (cluster, set, id) -> {epoch, max_offset, priority}
* ``learners``: set -> ids an operator named;  ``topics``: name -> configuration
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

SAFE: dict[str, bool] = {
    "unclean": False,
    "offsets_64_bit": True,
    "single_bump": True,
    "epoch_floor": True,
    "first_election_checked": True,
    "learners_excluded": True,
    "clean_living_keeps_others": True,
    "no_half_known_set": True,
    "no_failed_first_election": True,
    "living_keeps_address": True,
    "moved_master_elected": True,
    "positive_ids": True,
}
JAVA: dict[str, bool] = dict.fromkeys(SAFE, False)

MAX_EPOCH_JUMP = 1_000_000  # the setting max_epoch_jump
TOPIC_QUEUES_MAX = 1024  # the setting topic_queues_max
INT_MAX = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
FIRST_BROKER_ID = 1  # §2.3
NOBODY = -1  # §2.6: the default of 1002's brokerId, the controller's own trigger

TOPIC_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
JAVA_LONG = re.compile(r"[+-]?\d+")
SYSTEM_TOPICS = {
    "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
}  # fmt: skip
ENUM_ATTRIBUTES = {
    # MIXED is a value RocketMQ knows, but allow_mixed_message_type is off
    "message.type": {"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"},
    "cleanup.policy": {"DELETE", "COMPACTION"},
    "queue.type": {"BatchCQ", "SimpleCQ"},
}
UNCHANGEABLE = {"cleanup.policy", "queue.type"}

REJECTING = "Rejecting alter syncStateSet request because "


def answer(code: int, remark: str | None = None, fields: dict[str, Any] | None = None) -> Answer:
    """A code (-1: refused, whatever the code), a remark (None: not compared), and what is said."""
    return {"code": code, "remark": remark, "fields": {} if fields is None else fields}


def text(value: object) -> str:
    """What Java's ``%s`` writes."""
    return "null" if value is None else str(value)


def shown(replica: dict[str, Any]) -> dict[str, Any]:
    """What is compared of a replica; that it registered shows only in what may happen to it."""
    return {key: value for key, value in replica.items() if key != "registered"}


def narrow(number: int) -> int:
    """Java's ``(int)`` of a long: the low 32 bits, signed (§2.7, defects)."""
    return (number + 2**31) % 2**32 - 2**31


def java_long(digits: str) -> int | None:
    """``Long.valueOf``: an optional sign and digits, no blanks, within 64 bits; None where Java throws."""
    if JAVA_LONG.fullmatch(digits) is None:
        return None
    return int(digits) if LONG_MIN <= int(digits) <= LONG_MAX else None


def java_split(listed: str) -> list[str]:
    """``String.split(";")``: empty strings at the end are dropped; a string without a ``;`` is returned whole."""
    parts = listed.split(";")
    while len(parts) > 1 and parts[-1] == "":
        parts.pop()
    return [] if parts == [""] and listed != "" else parts


class SecondModel:
    """The controller's leader as one object: ``step`` answers a request and changes the state, ``dump`` shows it."""

    def __init__(self, settings: dict[str, bool] | None = None) -> None:
        """The settings given override SAFE."""
        given = {} if settings is None else settings
        unknown = set(given) - set(SAFE)
        if unknown:
            raise ValueError(f"unknown settings: {sorted(unknown)}")
        self.settings: dict[str, bool] = {**SAFE, **given}
        self.replica_table: dict[str, dict[str, Any]] = {}
        self.sync_table: dict[str, dict[str, Any]] = {}
        self.live_table: dict[tuple[str | None, str, int], dict[str, int]] = {}
        self.learners: dict[str, set[int]] = {}
        self.topics: dict[str, dict[str, Any]] = {}
        self.handlers: dict[int | str, Callable[[Request], Answer]] = {
            1012: self.next_broker_id,
            1013: self.apply_broker_id,
            1003: self.register_broker,
            904: self.heartbeat,
            "dies": self.dies,
            "learners": self.name_learners,
            1002: self.elect_master,
            1001: self.alter_sync_state_set,
            1004: self.replica_info,
            1006: self.sync_state_data,
            1011: self.clean_broker_data,
            17: self.put_topic,
            215: self.delete_topic,
        }

    def step(self, request: Request) -> Answer:
        """One request; codes that are not registered are answered 3 (§1.4)."""
        handler = self.handlers.get(request["code"])
        if handler is None:
            return answer(3, f" request type {request['code']} not supported")
        return handler(request)

    def dump(self) -> dict[str, Any]:
        """All that is durable. A set without replicas is not shown: it has no cluster and no counter."""
        broker_sets: dict[str, Any] = {}
        for name, known in sorted(self.replica_table.items()):
            sync = self.sync_table.get(name)
            broker_sets[name] = {
                "cluster": known["cluster"],
                "next_broker_id": known["next_broker_id"],
                "replicas": {each: shown(replica) for each, replica in sorted(known["replicas"].items())},
                "master": None if sync is None else sync["master"],
                "master_epoch": None if sync is None else sync["master_epoch"],
                "sync_state_set": [] if sync is None else sorted(sync["sync_state_set"]),
                "sync_state_set_epoch": None if sync is None else sync["sync_state_set_epoch"],
            }
        topics: dict[str, Any] = {}
        for name, topic in sorted(self.topics.items()):
            topics[name] = {**topic, "attributes": dict(sorted(topic["attributes"].items()))}
        return {"broker_sets": broker_sets, "topics": topics}

    # What several requests ask

    def knows(self, name: str) -> bool:
        """``isContainsBroker``: only a set in both tables is known; a half-known one is not (§3.1, event 5)."""
        return name in self.replica_table and name in self.sync_table

    def alive(self, name: str, broker_id: int) -> bool:
        """Alive(id) of §2, in the cluster that the set stores. Only 1011 asks in the request's (§2.11)."""
        return (self.replica_table[name]["cluster"], name, broker_id) in self.live_table

    def report(self, name: str, broker_id: int) -> dict[str, int]:
        """What an alive broker told of itself by its heartbeats (§2.5)."""
        return self.live_table[(self.replica_table[name]["cluster"], name, broker_id)]

    def address(self, name: str, broker_id: int | None) -> str | None:
        """The address of a registered id; none for nobody, a stranger elected (§2.6, 2), a master cleaned (§2.11)."""
        replica = self.replica_table[name]["replicas"].get(broker_id)
        return None if replica is None else replica["address"]

    def is_learner(self, name: str, broker_id: int) -> bool:
        """May the broker not become master for being a learner (exclude_learners, §2.7 defects)? Never so in Java."""
        return self.settings["learners_excluded"] and broker_id in self.learners.get(name, set())

    def leadership(self, name: str) -> dict[str, Any]:
        """Master and sync state set as 1004 and 2011 of 1002 show them (§2.9, §2.6, 4)."""
        sync = self.sync_table[name]
        return {
            "master": sync["master"],
            "master_address": self.address(name, sync["master"]),
            "master_epoch": sync["master_epoch"],
            "sync_state_set": sorted(sync["sync_state_set"]),
            "sync_state_set_epoch": sync["sync_state_set_epoch"],
        }

    # Ids and registration

    def next_broker_id(self, request: Request) -> Answer:
        """§2.2: 1 if the set is unknown, else the counter; reserves nothing. Half-known sets still have theirs."""
        known = self.replica_table.get(request["broker_set"])
        return answer(0, None, {"next_broker_id": FIRST_BROKER_ID if known is None else known["next_broker_id"]})

    def apply_broker_id(self, request: Request) -> Answer:
        """§2.3. Missing id or check code: Java throws, code 1. 1013 knows half-known sets (§3.1, event 5)."""
        name, broker_id, check_code = request["broker_set"], request["broker_id"], request["check_code"]
        if broker_id is None or check_code is None:
            return answer(1, "appliedBrokerId and registerCheckCode are needed")  # deviations.toml, missing_fields
        known = self.replica_table.get(name)
        if known is None and broker_id != FIRST_BROKER_ID:
            unknown = f"Broker-set: {name} hasn't been registered in controller"
            return answer(2014, f"{unknown}, but broker try to apply brokerId: {broker_id}")
        if known is not None:
            replica = known["replicas"].get(broker_id)
            not_positive = self.settings["positive_ids"] and broker_id < FIRST_BROKER_ID  # deviations.toml, ids
            if not_positive or (replica is not None and replica["check_code"] != check_code):
                return answer(2014, f"Fail to apply brokerId: {broker_id} in broker-set: {name}")
        self.replay_apply(request["cluster"], name, broker_id, check_code)
        return answer(0)

    def replay_apply(self, cluster: str, name: str, broker_id: int, check_code: str) -> None:
        """§3.1, event 2: a known set gets the id if absent; any other, half-known ones too, begins from scratch."""
        if not self.knows(name):
            self.replica_table[name] = {"cluster": cluster, "next_broker_id": FIRST_BROKER_ID, "replicas": {}}
            self.sync_table[name] = {
                "master": None,
                "master_epoch": 0,
                "sync_state_set": set(),
                "sync_state_set_epoch": 0,
                "failed_inputs": None,
            }
        known = self.replica_table[name]
        if broker_id not in known["replicas"]:
            address = check_code.split(";", maxsplit=1)[0]
            known["replicas"][broker_id] = {
                "address": address,
                "check_code": check_code,
                "given_up": False,
                "registered": False,
            }
            known["next_broker_id"] += 1

    def register_broker(self, request: Request) -> Answer:
        """§2.4: answered before the address is updated; the master is named only if alive. It is no heartbeat."""
        name, broker_id = request["broker_set"], request["broker_id"]
        if not self.knows(name):
            return answer(2010, f"Broker-set: {name} hasn't been registered in controller")
        replica = self.replica_table[name]["replicas"].get(broker_id)
        if replica is None:
            return answer(2010, f"BrokerId: {text(broker_id)} hasn't been registered in broker-set: {name}")
        now = self.leadership(name)
        # Settled: Java asks with the cluster of the request here, whatever the set's is.
        named = now["master"] is not None and (request["cluster"], name, now["master"]) in self.live_table
        fields = {"sync_state_set": now["sync_state_set"], "body_epoch": now["sync_state_set_epoch"]}
        for header in ("master", "master_address", "master_epoch", "sync_state_set_epoch"):
            fields[header] = now[header] if named else None
        elsewhere = replica["registered"] and replica["address"] != request["address"]
        living = self.alive(name, broker_id) and not replica["given_up"]
        if elsewhere and living and self.settings["living_keeps_address"]:  # docs/rules.md
            return answer(2014, f"BrokerId: {broker_id} of broker-set: {name} is alive at {replica['address']}")
        replica["address"] = request["address"]  # event 6, if it differs
        replica["registered"] = True
        if elsewhere and self.settings["moved_master_elected"]:  # docs/rules.md
            self.follow_the_moved(name, broker_id)
        return answer(0, None, fields)

    def follow_the_moved(self, name: str, broker_id: int) -> None:
        """docs/rules.md: replicas take an address only with a higher epoch (§4), so a master that moved gets one."""
        replicas = self.replica_table[name]["replicas"]
        told = any(replica["registered"] for each, replica in replicas.items() if each != broker_id)
        if told and self.sync_table[name]["master"] == broker_id:
            self.elected(name, broker_id)

    # Liveness

    def heartbeat(self, request: Request) -> Answer:
        """§2.5: unregistered brokers too; (epoch, offset) only if it rose, priority always. No longer given up."""
        cluster, name, broker_id = request["cluster"], request["broker_set"], request["broker_id"]
        if broker_id is None:
            return answer(2005, "Heart beat with empty brokerId")
        epoch = -1 if request["epoch"] is None else request["epoch"]
        max_offset = -1 if request["max_offset"] is None else request["max_offset"]
        priority = INT_MAX if request["priority"] is None else request["priority"]
        first = {"epoch": epoch, "max_offset": max_offset, "priority": priority}
        live = self.live_table.setdefault((cluster, name, broker_id), first)
        live["epoch"], live["max_offset"] = max((live["epoch"], live["max_offset"]), (epoch, max_offset))
        live["priority"] = priority
        replica = self.member(cluster, name, broker_id)
        if replica is not None:
            replica["given_up"] = False
        return answer(0, "Heart beat success")

    def member(self, cluster: str, name: str, broker_id: int) -> dict[str, Any] | None:
        """The registered replica that (cluster, set, id) means, if the cluster is that of the set."""
        known = self.replica_table.get(name)
        if known is None or known["cluster"] != cluster:
            return None
        replica: dict[str, Any] | None = known["replicas"].get(broker_id)
        return replica

    def dies(self, request: Request) -> Answer:
        """docs/0043: given up once; a recorded master's succession, or its failure, is part of the step."""
        cluster, name, broker_id = request["cluster"], request["broker_set"], request["broker_id"]
        gone = self.live_table.pop((cluster, name, broker_id), None)  # settled: who does not live cannot die
        replica = self.member(cluster, name, broker_id)
        if gone is not None and request["fence"] and replica is not None and not replica["given_up"]:
            replica["given_up"] = True
            if self.knows(name) and self.sync_table[name]["master"] == broker_id:
                self.elect_master({"code": 1002, "broker_set": name, "broker_id": None, "designate": False})
        return answer(0)

    def name_learners(self, request: Request) -> Answer:
        """docs/rules.md, "Settings in the log": may be set before the set exists, and stays when it goes."""
        self.learners[request["broker_set"]] = set(request["broker_ids"])
        return answer(0)

    # Elections

    def elect_master(self, request: Request) -> Answer:
        """§2.6, in its order: unknown set, first election, policy, old master stays, new master, failure."""
        name, asker = request["broker_set"], request["broker_id"]
        if not self.knows(name):
            return answer(2010, "Broker hasn't been registered")
        sync = self.sync_table[name]
        if asker == NOBODY:  # settled: -1 names nobody, so nobody is designated; Java would depose a healthy master
            asker = None
        asked = asker is not None
        if sync["master_epoch"] == 0 and asked:  # 2: never had a master; who asks becomes it, alive or not
            if self.settings["first_election_checked"] and asker not in self.replica_table[name]["replicas"]:
                return answer(2010, f"BrokerId: {asker} hasn't been registered in broker-set: {name}")
            chosen = None if self.is_learner(name, asker) else asker
        else:  # 3: who asked counts only if designated
            chosen = self.elect(name, asker if request["designate"] else None)
        if chosen is None:
            return self.election_failed(name, asked)
        if chosen == sync["master"]:
            remark = f"The old master {chosen} is still alive, not need to elect new master for broker {name}"
            return answer(2011, remark, {**self.leadership(name), "members": None})
        return self.elected(name, chosen)

    def elected(self, name: str, chosen: int) -> Answer:
        """§2.6, 5 and §3.1, event 3: the new sync state set is the new master alone; members are all registered ids."""
        sync = self.sync_table[name]
        sync["master_epoch"] = self.next_master_epoch(name)
        sync["master"] = chosen
        sync["sync_state_set"] = {chosen}
        sync["sync_state_set_epoch"] += 1
        sync["failed_inputs"] = None
        replicas = self.replica_table[name]["replicas"]
        members = {broker_id: replica["address"] for broker_id, replica in sorted(replicas.items())}
        return answer(0, None, {**self.leadership(name), "members": members})

    def election_failed(self, name: str, asked: bool) -> Answer:
        """§2.6, 6: who asked is told, nothing is written. The controller's own failure takes the master, and an epoch.

        no_failed_first_election: a set that never had a master keeps epoch 0. single_epoch_bump_on_failed_election:
        nothing is written while the set has no master and the inputs are those of the last failure.
        """
        if asked:
            return answer(2012, "Failed to elect a new master")
        refusal = answer(2004, "Old master has down and failed to elect a new broker master")
        sync = self.sync_table[name]
        if self.settings["no_failed_first_election"] and sync["master_epoch"] == 0:
            return refusal
        inputs = self.election_inputs(name)
        if self.settings["single_bump"] and sync["master"] is None and sync["failed_inputs"] == inputs:
            return refusal
        sync["master_epoch"] = self.next_master_epoch(name)  # the floor lifts this epoch too
        sync["master"] = None
        sync["failed_inputs"] = inputs
        return refusal

    def election_inputs(self, name: str) -> dict[int, tuple[bool, bool, bool]]:
        """docs/rules.md, repaired defects: who is alive, in sync, a learner. Offsets are no input (settled: nor is it
        whether a stranger that was elected holds an id by now).
        """
        replicas, in_sync = self.replica_table[name]["replicas"], self.sync_table[name]["sync_state_set"]
        return {
            each: (self.alive(name, each), each in in_sync, self.is_learner(name, each))
            for each in {*replicas, *in_sync}
        }

    def believed(self, name: str, epoch: int) -> bool:
        """max_epoch_jump: a reported epoch further ahead of the set's than this is not believed."""
        current: int = self.sync_table[name]["master_epoch"]
        return epoch - current <= MAX_EPOCH_JUMP

    def next_master_epoch(self, name: str) -> int:
        """§2.6, 5: one more; with epoch_floor_from_reports, above what alive members plausibly report (§11.4)."""
        epoch: int = self.sync_table[name]["master_epoch"]
        if self.settings["epoch_floor"]:
            replicas = self.replica_table[name]["replicas"]
            reported = [self.report(name, each)["epoch"] for each in replicas if self.alive(name, each)]
            epoch = max([epoch, *(each for each in reported if self.believed(name, each))])
        return epoch + 1

    def elect(self, name: str, preferred: int | None) -> int | None:
        """§2.7 ``elect``: the sync state set, then, if unclean elections are allowed, all registered ids."""
        chosen = self.try_elect(name, self.sync_table[name]["sync_state_set"], preferred)
        if chosen is None and self.settings["unclean"]:
            chosen = self.try_elect(name, self.replica_table[name]["replicas"], preferred)
        return chosen

    def try_elect(self, name: str, pool: Iterable[int], preferred: int | None) -> int | None:
        """§2.7 ``try(set)``, 1 to 4. A living master called learner stays; else no learner is chosen (rules.md)."""
        alive = sorted(broker_id for broker_id in pool if self.alive(name, broker_id))
        old_master: int | None = self.sync_table[name]["master"]
        if old_master in alive and preferred in (None, old_master):
            return old_master
        candidates = [broker_id for broker_id in alive if not self.is_learner(name, broker_id)]
        if preferred is not None:
            return preferred if preferred in candidates else None
        return self.first_of(name, candidates)

    def first_of(self, name: str, candidates: list[int]) -> int | None:
        """§2.7, 4: the first of a TreeSet filled in ascending order of id; who equals one within is not added.

        A newcomer is first if it precedes every earlier first one, on its way down from the root. Where the comparison
        is an order this is the minimum, lower ids winning ties. Narrowed it is none: then this is Java's result for up
        to three candidates.
        """
        firsts: list[int] = []
        for broker_id in candidates:
            if all(self.compare(name, broker_id, earlier) < 0 for earlier in firsts):
                firsts.append(broker_id)
        return firsts[-1] if firsts else None

    def compare(self, name: str, one: int, other: int) -> int:
        """§2.7: negative if ``one`` goes first: greater epoch, greater max offset, lower priority value.

        Without offsets_64_bit the difference of unequal offsets is narrowed; 0 is a tie, whatever the priorities.
        """
        ours, theirs = self.report(name, one), self.report(name, other)
        our_epoch, their_epoch = self.ranked_epoch(name, ours["epoch"]), self.ranked_epoch(name, theirs["epoch"])
        if our_epoch != their_epoch:
            return their_epoch - our_epoch
        if ours["max_offset"] != theirs["max_offset"]:
            behind = theirs["max_offset"] - ours["max_offset"]
            return behind if self.settings["offsets_64_bit"] else narrow(behind)
        return ours["priority"] - theirs["priority"]

    def ranked_epoch(self, name: str, epoch: int) -> int:
        """docs/rules.md: an epoch not believed wins no election; it counts as none reported, -1 (§2.5)."""
        return -1 if self.settings["epoch_floor"] and not self.believed(name, epoch) else epoch

    # Sync state sets

    def alter_sync_state_set(self, request: Request) -> Answer:
        """§2.8, its checks in order."""
        name, master = request["broker_set"], request["master"]
        if not self.knows(name):
            return answer(2013, "Broker metadata is not existed")
        if request["sync_state_set"] is None:  # Java throws where it first needs the body, in check 2
            return answer(1, "The body with the syncStateSet is missing")
        sync, wanted = self.sync_table[name], set(request["sync_state_set"])
        if wanted == sync["sync_state_set"]:
            return answer(2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet")
        if sync["master"] is None or sync["master"] != master:
            return answer(2002, f"{REJECTING}the current leader is:{{{text(sync['master'])}}}, not {{{text(master)}}}")
        epoch, given = sync["master_epoch"], request["master_epoch"]
        if given != epoch:
            return answer(2000, f"{REJECTING}the current master epoch is:{{{epoch}}}, not {{{text(given)}}}")
        epoch, given = sync["sync_state_set_epoch"], request["sync_state_set_epoch"]
        if given != epoch:
            return answer(2001, f"{REJECTING}the current syncStateSet epoch is:{{{epoch}}}, not {{{text(given)}}}")
        for broker_id in sorted(wanted):  # checks 6 and 7 id by id
            if broker_id not in self.replica_table[name]["replicas"]:
                return answer(2003, f"{REJECTING}the replicas {{{broker_id}}} don't exist")
            if not self.alive(name, broker_id):
                return answer(2006, f"{REJECTING}the replicas {{{broker_id}}} don't alive")
        if master not in wanted:
            return answer(2013, f"{REJECTING}the newSyncStateSet don't contains origin leader {{{master}}}")
        sync["sync_state_set"] = wanted
        sync["sync_state_set_epoch"] += 1
        return answer(0, None, {"sync_state_set": sorted(wanted), "sync_state_set_epoch": sync["sync_state_set_epoch"]})

    # Questions

    def replica_info(self, request: Request) -> Answer:
        """§2.9: the recorded master, dead or alive."""
        if not self.knows(request["broker_set"]):
            return answer(2008, "Broker metadata is not existed")
        return answer(0, None, self.leadership(request["broker_set"]))

    def sync_state_data(self, request: Request) -> Answer:
        """§2.10: no names, no code; unknown names are skipped. Only registered ids are listed."""
        if not request["broker_sets"]:
            return answer(1, "not set any response code")
        table: dict[str, Any] = {}
        for name in request["broker_sets"]:
            if not self.knows(name):
                continue
            row = self.leadership(name)
            in_sync = row.pop("sync_state_set")
            replicas = sorted(self.replica_table[name]["replicas"].items())
            rows = [(broker_id, replica["address"], self.alive(name, broker_id)) for broker_id, replica in replicas]
            row["in_sync"] = [each for each in rows if each[0] in in_sync]
            row["not_in_sync"] = [each for each in rows if each[0] not in in_sync]
            table[name] = row
        return answer(0, None, {"table": table})

    # Cleaning

    def clean_broker_data(self, request: Request) -> Answer:
        """§2.11: blank with a master, no number, alive in the request's cluster; only then whether the set is known."""
        name, listed, clean_living = request["broker_set"], request["broker_ids"], request["clean_living"]
        blank = listed is None or listed.strip() == ""
        sync = self.sync_table.get(name)
        if not clean_living and blank and sync is not None and sync["master"] is not None:
            return answer(2009, f"Broker {name} is still alive, clean up failure")
        ids: set[int] = set()  # empty, or null in Java: the whole set (§3.1, event 5); so is ";"
        if not blank and (not clean_living or self.settings["clean_living_keeps_others"]):
            for part in java_split(listed):
                number = java_long(part)
                if number is None:
                    remark = "Please set the option <brokerControllerIdsToClean> according to the format, exception: "
                    return answer(2009, f'{remark}java.lang.NumberFormatException: For input string: "{part}"')
                ids.add(number)
        if not clean_living:
            for broker_id in sorted(ids):
                if (request["cluster"], name, broker_id) in self.live_table:
                    return answer(2009, f"Broker [{name},  {broker_id}] is still alive, clean up failure")
        if not self.knows(name):
            return answer(2009, f"Broker {name} is not existed,clean broker data failure.")
        self.replay_clean(name, ids)
        return answer(0)

    def replay_clean(self, name: str, ids: set[int]) -> None:
        """§3.1, event 5. The recorded master and both epochs stay as they are (§2.11)."""
        if not ids:
            del self.replica_table[name], self.sync_table[name]
            return
        replicas, sync = self.replica_table[name]["replicas"], self.sync_table[name]
        for broker_id in ids:
            replicas.pop(broker_id, None)
            sync["sync_state_set"].discard(broker_id)
        if not replicas:
            del self.replica_table[name]
        kept = replicas if self.settings["no_half_known_set"] else sync["sync_state_set"]  # safe: both or none
        if not kept:
            del self.sync_table[name]

    # Topics: decided beyond the reference

    def put_topic(self, request: Request) -> Answer:
        """17: create or update; every refusal is -1. ``changed`` tells whether anything is other than before."""
        name = request["topic"]
        if TOPIC_NAME.fullmatch(name) is None or name in SYSTEM_TOPICS:
            return answer(-1)
        if not all(0 <= request[queues] <= TOPIC_QUEUES_MAX for queues in ("read_queues", "write_queues")):
            return answer(-1)
        before = self.topics.get(name)
        attributes = self.altered(None if before is None else before["attributes"], request["attributes"] or {})
        if attributes is None:
            return answer(-1)
        plain = ("read_queues", "write_queues", "permission", "filter_type", "system_flags", "order")
        topic = {**{field: request[field] for field in plain}, "attributes": attributes}
        self.topics[name] = topic
        return answer(0, None, {"changed": topic != before})

    def altered(self, current: dict[str, str] | None, changes: dict[str, str]) -> dict[str, str] | None:
        """``AttributeUtil.alterCurrentAttributes``: what is after; None where it throws; ``current`` None: creation."""
        after = {} if current is None else dict(current)
        seen: set[str] = set()
        for change, value in changes.items():
            sign, key = change[:1], change[1:]
            if key in seen or (key not in ENUM_ATTRIBUTES and key != "reserve.time"):
                return None  # named twice, or unsupported
            seen.add(key)
            if current is not None and key in UNCHANGEABLE:
                return None  # added, changed or deleted by an update
            if sign == "+" and self.attribute_valid(key, value):
                after[key] = value
            elif sign == "-" and current is not None and key in current:
                del after[key]
            else:
                return None
        return after

    def attribute_valid(self, key: str, value: str) -> bool:
        """``TopicAttributes``: one of an enumeration, or (reserve.time) an integer of at least -1."""
        if key in ENUM_ATTRIBUTES:
            return value in ENUM_ATTRIBUTES[key]
        number = java_long(value)
        return number is not None and number >= -1

    def delete_topic(self, request: Request) -> Answer:
        """215: forgets any name; what is not there is no error."""
        return answer(0, None, {"changed": self.topics.pop(request["topic"], None) is not None})
