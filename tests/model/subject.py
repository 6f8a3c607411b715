"""Quorate's pure rules behind the model's interface: requests become commands, replies become answers.

The only file here that knows both sides. It keeps its own live table, stamps and offsets, and adds nothing to what
``decide`` and the queries say.
"""

from typing import Any

import msgspec

from quorate.errors import check
from quorate.events import Stamp
from quorate.metadata import commands
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse, response
from quorate.model import queries
from quorate.model.evolve import evolve
from quorate.model.state import BrokerSet, State
from tests.model.model import SAFE, Answer, Request

POLICY_NAMES = {
    "unclean": "enable_elect_unclean_master",
    "offsets_64_bit": "offset_comparison_64_bit",
    "single_bump": "single_epoch_bump_on_failed_election",
    "epoch_floor": "epoch_floor_from_reports",
    "first_election_checked": "first_election_registered_only",
    "learners_excluded": "exclude_learners",
    "clean_living_keeps_others": "clean_living_keeps_unlisted",
    "no_half_known_set": "no_half_known_sets",
    "no_failed_first_election": "no_failed_first_election",
    "living_keeps_address": "living_broker_keeps_address",
    "moved_master_elected": "elect_moved_master_anew",
    "positive_ids": "positive_broker_ids",
}


class Heard:
    """A broker's last words."""

    def __init__(self, epoch: int, max_offset: int, priority: int, now_ms: int) -> None:
        self.epoch, self.max_offset, self.priority = epoch, max_offset, priority
        self.confirm_offset, self.last_heartbeat_ms = -1, now_ms


class Live:
    """Who is alive: heard and not died since. Who was never heard is unknown."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str, int], Heard] = {}
        self.heard: set[tuple[str, str, int]] = set()

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """None: never heard."""
        who = (cluster, broker_set, broker_id)
        return who in self.entries if who in self.heard else None

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """A close is believed at once here."""
        return False

    def info(self, cluster: str, broker_set: str, broker_id: int) -> Heard | None:
        """What it said, while it lives."""
        return self.entries.get((cluster, broker_set, broker_id))


class Subject:
    """State, live table and log position of one node; ``step`` is one request to a leader."""

    def __init__(self, settings: dict[str, bool] | None = None) -> None:
        chosen = {**SAFE, **(settings or {})}
        self.policy = msgspec.convert({POLICY_NAMES[name]: value for name, value in chosen.items()}, PolicySettings)
        self.state, self.live = State(), Live()
        self.offset, self.now_ms = 0, 1_700_000_000_000

    def step(self, request: Request) -> Answer:
        """The answer in the model's words."""
        self.now_ms += 7
        method = {
            1012: self._query,
            1004: self._query,
            1006: self._query,
            904: self._heartbeat,
            "dies": self._dies,
        }.get(request["code"], self._command)
        return method(request)

    def dump(self) -> dict[str, Any]:
        """The entities, as the model dumps its own."""
        sets = {name: _set(found) for name, found in sorted(self.state.broker_sets.items())}
        topics = {name: _topic(topic) for name, topic in sorted(self.state.topics.items())}
        return {"broker_sets": sets, "topics": topics}

    def _decide(self, command: commands.Command) -> commands.Reply | commands.Refusal:
        context = Context(now_ms=self.now_ms, term=1, policy=self.policy, live=self.live)
        found = decide(self.state, command, context)
        if not isinstance(found, Decision):
            return found
        for event in found.events:
            stamp = Stamp(offset=self.offset, term=1, time_ms=self.now_ms)
            self.state = evolve(self.state, event, stamp)
            self.offset += 1
        return found.reply

    def _command(self, request: Request) -> Answer:
        reply = self._decide(_command(request))
        code, remark = response(reply)
        said = reply.reply if isinstance(reply, commands.Refusal) else reply
        return {"code": code, "remark": remark, "fields": _fields(said)}

    def _query(self, request: Request) -> Answer:
        match request["code"]:
            case 1012:
                query: queries.Query = queries.NextBrokerId(
                    cluster=request["cluster"], broker_set=request["broker_set"]
                )
            case 1004:
                query = queries.ReplicaInfo(broker_set=request["broker_set"])
            case _:
                names = request["broker_sets"]
                query = queries.SyncStateData(broker_sets=None if names is None else tuple(names))
        result = queries.answer(query, self.state, self.live)
        if isinstance(result, queries.Absent):
            code, remark = response(refuse(result.code, result.remark))
            return {"code": code, "remark": remark, "fields": {}}
        return {"code": 0, "remark": None, "fields": _fields(result)}

    def _heartbeat(self, request: Request) -> Answer:
        cluster, name, number = request["cluster"], request["broker_set"], request["broker_id"]
        if number is None:
            return {"code": 2005, "remark": "Heart beat with empty brokerId", "fields": {}}
        heard = Heard(request["epoch"], request["max_offset"], request["priority"], self.now_ms)
        before = self.live.entries.get((cluster, name, number))
        if before is not None:
            newest = max((before.epoch, before.max_offset), (heard.epoch, heard.max_offset))
            heard.epoch, heard.max_offset = newest
        self.live.entries[cluster, name, number] = heard
        self.live.heard.add((cluster, name, number))
        if self._fenced(cluster, name, number):
            self._accepted(
                commands.UnfenceBroker(cluster=cluster, broker_set=name, broker_id=number, detected_ms=self.now_ms)
            )
        return {"code": 0, "remark": "Heart beat success", "fields": {}}

    def _dies(self, request: Request) -> Answer:
        cluster, name, number = request["cluster"], request["broker_set"], request["broker_id"]
        gone = self.live.entries.pop((cluster, name, number), None)
        if gone and request["fence"]:
            self._accepted(
                commands.FenceBroker(
                    cluster=cluster, broker_set=name, broker_id=number, evidence="connection closed",
                    last_heartbeat_ms=gone.last_heartbeat_ms, detected_ms=self.now_ms,
                )
            )  # fmt: skip
        return {"code": 0, "remark": None, "fields": {}}

    def _accepted(self, command: commands.Command) -> None:
        reply = self._decide(command)
        check(isinstance(reply, commands.Accepted), f"{command} was answered {reply}")

    def _fenced(self, cluster: str, name: str, number: int) -> bool:
        found = self.state.broker_sets.get(name)
        return (
            found is not None
            and found.cluster == cluster
            and any(replica.fenced for replica in found.replicas if replica.broker_id == number)
        )


def _command(request: Request) -> commands.Command:
    name = request.get("broker_set", "")
    match request["code"]:
        case 1013:
            return commands.ApplyBrokerId(
                cluster=request["cluster"], broker_set=name, broker_id=request["broker_id"],
                register_check_code=request["check_code"],
            )  # fmt: skip
        case 1003:
            return commands.RegisterBroker(
                cluster=request["cluster"], broker_set=name, broker_id=request["broker_id"], address=request["address"]
            )
        case 1002:
            by_whom: dict[tuple[bool, bool], commands.ElectionTrigger] = {
                (True, False): "broker", (True, True): "admin", (False, False): "master lost",
            }  # fmt: skip
            return commands.ElectMaster(
                broker_set=name, broker_id=request["broker_id"], designate=request["designate"],
                trigger=by_whom[request["broker_id"] is not None, request["designate"]],
            )  # fmt: skip
        case 1001:
            wanted = request["sync_state_set"]
            return commands.AlterSyncStateSet(
                broker_set=name, master=request["master"], master_epoch=request["master_epoch"],
                sync_state_set=None if wanted is None else tuple(wanted),
                sync_state_set_epoch=request["sync_state_set_epoch"],
            )  # fmt: skip
        case 1011:
            return commands.CleanBrokerData(
                cluster=request["cluster"], broker_set=name, broker_ids=request["broker_ids"],
                clean_living=request["clean_living"],
            )  # fmt: skip
        case "learners":
            named = ";".join(map(str, request["broker_ids"]))
            return commands.ChangeConfig(scope=f"broker-set/{name}", changes={"learners": named or None})
        case 17:
            return commands.PutTopic(**{key: value for key, value in request.items() if key != "code"})
        case _:
            return commands.DeleteTopic(topic=request["topic"])


def _fields(reply: commands.Reply | queries.Result | None) -> dict[str, Any]:
    """A reply's content under the model's names."""
    match reply:
        case queries.NextBrokerIdIs():
            return {"next_broker_id": reply.next_broker_id}
        case commands.BrokerIsRegistered():
            return {
                "sync_state_set": sorted(reply.sync_state_set), "body_epoch": reply.sync_state_set_epoch,
                "master": reply.master, "master_address": reply.master_address, "master_epoch": reply.master_epoch,
                "sync_state_set_epoch": reply.master_sync_state_set_epoch,
            }  # fmt: skip
        case commands.MasterIs(master=int()):
            return {**_master(reply), "members": reply.members}
        case queries.ReplicaInfoIs():
            return _master(reply)
        case commands.SyncStateSetIs():
            return {"sync_state_set": sorted(reply.sync_state_set), "sync_state_set_epoch": reply.sync_state_set_epoch}
        case queries.SyncStateDataIs():
            return {"table": {found.broker_set: _sync_state(found) for found in reply.broker_sets}}
        case commands.TopicIs():
            return {"changed": reply.changed}
        case _:
            return {}


def _master(reply: commands.MasterIs | queries.ReplicaInfoIs) -> dict[str, Any]:
    return {
        "master": reply.master, "master_address": reply.master_address, "master_epoch": reply.master_epoch,
        "sync_state_set": sorted(reply.sync_state_set), "sync_state_set_epoch": reply.sync_state_set_epoch,
    }  # fmt: skip


def _sync_state(found: queries.SyncStateIs) -> dict[str, Any]:
    return {
        "in_sync": [(one.broker_id, one.address, bool(one.alive)) for one in found.in_sync],
        "not_in_sync": [(one.broker_id, one.address, bool(one.alive)) for one in found.not_in_sync],
        "master": found.master, "master_address": found.master_address, "master_epoch": found.master_epoch,
        "sync_state_set_epoch": found.sync_state_set_epoch,
    }  # fmt: skip


def _set(found: BrokerSet) -> dict[str, Any]:
    known = found.sync_known
    return {
        "cluster": found.cluster,
        "next_broker_id": found.next_broker_id,
        "replicas": {
            one.broker_id: {"address": one.address, "check_code": one.register_check_code, "given_up": one.fenced}
            for one in found.replicas
        },
        "master": found.master if known else None,
        "master_epoch": found.master_epoch if known else None,
        "sync_state_set": sorted(found.sync_state_set) if known else [],
        "sync_state_set_epoch": found.sync_state_set_epoch if known else None,
    }


def _topic(topic: Any) -> dict[str, Any]:
    keys = ("read_queues", "write_queues", "permission", "filter_type", "system_flags", "order")
    return {**{key: getattr(topic, key) for key in keys}, "attributes": dict(topic.attributes)}
