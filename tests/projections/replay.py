"""The views again, told plainly: one loop over the records, plain dictionaries, fastavro.

Nothing here comes from ``quorate_projections`` or ``quorate.events`` but the schemas, so that a mistake there shows as
a difference here. Slow and obvious on purpose.
"""

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro

from tests.batches import Record

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
Row = dict[str, Any]


def schemas() -> dict[int, Any]:
    """Every schema ever registered, by id."""
    registry = json.loads((SCHEMAS / "registry.json").read_text())
    return {entry["id"]: fastavro.parse_schema(entry["schema"]) for entry in registry["schemas"]}


class Replay:
    """All views after as many records as it was given."""

    def __init__(self) -> None:
        self.views: dict[str, dict[str, Row]] = {
            name: {}
            for name in (
                "broker_sets", "elections", "topics", "configs", "keys", "leases", "members", "schemas", "subjects",
                "shards", "segments", "broker_availability", "controller_terms", "audit",
                "broker_sets", "elections", "topics", "configs", "keys", "leases", "members", "sessions", "wills",
                "broker_availability", "controller_terms", "audit",
            )
        }  # fmt: skip
        self._schemas = schemas()
        self.count = 0

    def feed(self, record: Record) -> None:
        """One more record."""
        head = {name: text.decode() for name, text in record.headers}
        assert int(head["offset"]) == self.count
        assert record.value is not None
        _, schema_id = struct.unpack(">BI", record.value[:5])
        schema = self._schemas[schema_id]
        event = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema, None)
        assert isinstance(event, dict)
        kind = schema["name"].rpartition(".")[2]
        at = {"offset": self.count, "ms": int(head["time_ms"]), "term": int(head["term"]), "by": head["principal"]}
        self._audit(kind, schema, event, head)
        handler = getattr(self, f"_{kind}", None)
        if handler is not None:
            handler(event, at)
        self.count += 1

    def shown(self, view: str) -> dict[str, Row]:
        """A view's rows as they are shown."""
        if view != "routes":
            return self.views[view]
        return {name: self._route(topic) for name, topic in self.views["topics"].items()}

    # One by one.

    def _audit(self, kind: str, schema: Any, event: Row, head: dict[str, str]) -> None:
        pattern = schema["quorate.key"]
        entity, _, field = pattern.partition("/")
        name = str(event[field[1:-1].removeprefix("+")]) if field.startswith("{") else field
        written = name if field.startswith("{+") else quote(name, safe="")
        self.views["audit"][f"{self.count:020d}"] = {
            "principal": head["principal"], "offset": self.count, "time_ms": int(head["time_ms"]),
            "term": int(head["term"]), "type": kind, "entity": f"{entity}/default/{written}",
            "cause": head["cause"], "request_id": head["request_id"],
        }  # fmt: skip

    def _ControllerLeaderElected(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["controller_terms"][f"{at['term']:020d}"] = {
            "term": at["term"], "node_id": e["node_id"], "cause": e["cause"], "previous_leader": e["previous_leader"],
            "silent_for_ms": e["silent_for_ms"], "offset": at["offset"], "since_ms": at["ms"],
        }  # fmt: skip

    def _TopicCreated(self, e: Row, at: Row) -> None:  # noqa: N802
        old = self.views["topics"].get(e["topic"], {"created_offset": at["offset"], "created_ms": at["ms"]})
        self.views["topics"][e["topic"]] = {
            **e, "created_offset": old["created_offset"], "created_ms": old["created_ms"],
            "changed_offset": at["offset"], "changed_ms": at["ms"],
        }  # fmt: skip

    _TopicUpdated = _TopicCreated

    def _TopicDeleted(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["topics"].pop(e["topic"], None)

    def _KeyPut(self, e: Row, at: Row) -> None:  # noqa: N802
        revision = at["offset"] + e["following"]
        old = self.views["keys"].get(e["key"], {"create_revision": revision, "version": 0})
        self.views["keys"][e["key"]] = {
            "key": e["key"], "value": base64.b64encode(e["value"]).decode(), "lease": e["lease"],
            "create_revision": old["create_revision"], "mod_revision": revision, "version": old["version"] + 1,
            "changed_ms": at["ms"],
        }  # fmt: skip

    def _KeyDeleted(self, e: Row, at: Row) -> None:  # noqa: N802
        del self.views["keys"][e["key"]]

    def _LeaseGranted(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["leases"][str(e["lease"])] = {
            "lease_id": e["lease"], "ttl_s": e["ttl_s"], "granted_ms": at["ms"], "remaining_s": 0,
        }  # fmt: skip

    def _LeaseCheckpointed(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["leases"][str(e["lease"])]["remaining_s"] = e["remaining_s"]

    def _LeaseEnded(self, e: Row, at: Row) -> None:  # noqa: N802
        del self.views["leases"][str(e["lease"])]

    def _MemberRegistered(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["members"][e["member"]] = {
            "name": e["member"], "incarnation": e["incarnation"], "epoch": at["offset"], "draining": False,
            "state": "fenced", "changed_ms": at["ms"], **self._said(e),
        }  # fmt: skip

    def _MemberAmended(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["members"][e["member"]] |= self._said(e)

    def _said(self, e: Row) -> Row:
        return {name: e[name] for name in ("roles", "addresses", "labels", "timeout_ms")}

    def _MemberFenced(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["members"][e["member"]] |= {"state": "fenced", "changed_ms": at["ms"]}

    def _MemberUnfenced(self, e: Row, at: Row) -> None:  # noqa: N802
        row = self.views["members"][e["member"]]
        row |= {"state": "draining" if row["draining"] else "active", "changed_ms": at["ms"]}

    def _MemberDraining(self, e: Row, at: Row) -> None:  # noqa: N802
        row = self.views["members"][e["member"]]
        state = "fenced" if row["state"] == "fenced" else "draining"
        row |= {"state": state, "draining": True, "changed_ms": at["ms"]}

    def _MemberGone(self, e: Row, at: Row) -> None:  # noqa: N802
        del self.views["members"][e["member"]]

    def _SchemaAdded(self, e: Row, at: Row) -> None:  # noqa: N802
        row = {"schema_id": e["schema_id"], "schema": e["schema"], "added_ms": at["ms"]}
        self.views["schemas"][str(e["schema_id"])] = row

    def _SchemaRegistered(self, e: Row, at: Row) -> None:  # noqa: N802
        added = {"version": e["version"], "schema_id": e["schema_id"], "deleted": False}
        self._versions(e, at, [*self.views["subjects"].get(e["subject"], {"versions": []})["versions"], added])

    def _SchemaDeleted(self, e: Row, at: Row) -> None:  # noqa: N802
        versions = self.views["subjects"][e["subject"]]["versions"]
        if e["permanent"]:
            versions = [one for one in versions if one["version"] not in e["versions"]]
        else:
            versions = [{**one, "deleted": one["deleted"] or one["version"] in e["versions"]} for one in versions]
        self._versions(e, at, versions)

    def _versions(self, e: Row, at: Row, versions: list[Row]) -> None:
        if versions:
            row = {"subject": e["subject"], "versions": versions, "changed_ms": at["ms"]}
            self.views["subjects"][e["subject"]] = row
        else:
            del self.views["subjects"][e["subject"]]

    def _ShardCreated(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["shards"][e["shard"]] = {
            "name": e["shard"], "epoch": at["offset"], "deleting": False, "changed_ms": at["ms"],
            **{name: e[name] for name in ("replication", "min_in_sync", "spread", "require")},
        }  # fmt: skip

    def _ShardDeleting(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["shards"][e["shard"]] |= {"deleting": True, "changed_ms": at["ms"]}

    def _ShardGone(self, e: Row, at: Row) -> None:  # noqa: N802
        del self.views["shards"][e["shard"]]

    def _SegmentCreated(self, e: Row, at: Row) -> None:  # noqa: N802
        copies = [{"member": copy["member"], "member_epoch": copy["member_epoch"]} for copy in e["copies"]]
        self.views["segments"][e["segment"]] = {
            "name": e["segment"], "start_offset": e["start_offset"], "end_offset": None, "set_epoch": 0, "why": "",
            "copies": [copy["member"] for copy in copies], "leader": copies[0]["member"],
            "member_epoch": copies[0]["member_epoch"], "leader_epoch": at["offset"], "changed_ms": at["ms"],
            "in_sync": sorted(copies, key=lambda copy: copy["member"]),
        }  # fmt: skip

    def _SegmentSealed(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["segments"][e["segment"]] |= {"end_offset": e["end_offset"], "changed_ms": at["ms"]}

    def _SegmentLeaderElected(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["segments"][e["segment"]] |= {
            "leader": e["leader"], "member_epoch": e["member_epoch"], "leader_epoch": at["offset"],
            "in_sync": list(e["in_sync"]), "set_epoch": e["set_epoch"], "why": e["explanation"],
            "changed_ms": at["ms"],
        }  # fmt: skip

    def _SegmentInSyncAltered(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["segments"][e["segment"]] |= {
            "in_sync": list(e["new"]), "set_epoch": e["set_epoch"], "changed_ms": at["ms"],
        }  # fmt: skip

    def _SegmentCopyDeleted(self, e: Row, at: Row) -> None:  # noqa: N802
        row = self.views["segments"][e["segment"]]
        row["copies"] = [member for member in row["copies"] if member != e["member"]]
        row["in_sync"] = [copy for copy in row["in_sync"] if copy["member"] != e["member"]]
        row["changed_ms"] = at["ms"]
        if row["leader"] == e["member"]:
            row |= {"leader": "", "member_epoch": 0}
        if not row["copies"]:
            del self.views["segments"][e["segment"]]

    def _SessionOpened(self, e: Row, at: Row) -> None:  # noqa: N802
        old = self.views["sessions"].get(e["client"], {"subscriptions": []})
        self.views["sessions"][e["client"]] = {
            "client": e["client"], "member": e["member"], "member_epoch": e["member_epoch"],
            "session_epoch": at["offset"], "opened_ms": at["ms"], "expiry_s": e["expiry_s"], "disconnected_ms": 0,
            "will_topic": e["will_topic"], "subscriptions": old["subscriptions"], "changed_ms": at["ms"],
        }  # fmt: skip

    def _SubscriptionsChanged(self, e: Row, at: Row) -> None:  # noqa: N802
        session = self.views["sessions"][e["client"]]
        left = {one["filter"]: one for one in session["subscriptions"] if one["filter"] not in e["removed"]}
        left |= {one["filter"]: one for one in e["added"]}
        session |= {"subscriptions": [left[name] for name in sorted(left)], "changed_ms": at["ms"]}

    def _SessionDisconnected(self, e: Row, at: Row) -> None:  # noqa: N802
        session = self.views["sessions"][e["client"]]
        session |= {"disconnected_ms": e["disconnected_ms"], "expiry_s": e["expiry_s"], "changed_ms": at["ms"]}
        session["will_topic"] = session["will_topic"] if e["will_waits"] else None

    def _WillDecided(self, e: Row, at: Row) -> None:  # noqa: N802
        self.views["sessions"][e["client"]] |= {"will_topic": None, "changed_ms": at["ms"]}

    def _WillHandedOver(self, e: Row, at: Row) -> None:  # noqa: N802
        same = ("session_epoch", "client", "topic", "qos", "retain", "member", "member_epoch")
        self.views["wills"][str(e["session_epoch"])] = {name: e[name] for name in same} | {"handed_ms": at["ms"]}

    def _WillAcknowledged(self, e: Row, at: Row) -> None:  # noqa: N802
        del self.views["wills"][str(e["session_epoch"])]

    def _SessionEnded(self, e: Row, at: Row) -> None:  # noqa: N802
        del self.views["sessions"][e["client"]]

    def _ConfigChanged(self, e: Row, at: Row) -> None:  # noqa: N802
        values = dict(self.views["configs"].pop(e["scope"], {"values": {}})["values"])
        for change in e["changes"]:
            values[change["name"]] = change["new"]
        values = {name: value for name, value in values.items() if value is not None}
        if values:
            self.views["configs"][e["scope"]] = {
                "scope": e["scope"], "values": values, "changed_offset": at["offset"], "changed_ms": at["ms"],
                "changed_by": at["by"],
            }  # fmt: skip

    def _election(self, e: Row, at: Row, *, elected: bool) -> None:
        empty: Row = {
            "master": None, "master_address": "", "old_sync_state_set": [], "sync_state_set": [],
            "sync_state_set_epoch": 0, "decided_by": "", "unclean": False,
        }  # fmt: skip
        self.views["elections"][f"{at['offset']:020d}"] = {
            **empty, **e, "offset": at["offset"], "time_ms": at["ms"], "term": at["term"], "elected": elected,
            "committed_ms": 0, "acknowledged_offset": -1, "acks": [],
        }  # fmt: skip
        found = self.views["broker_sets"][e["broker_set"]]
        found["master"] = e["master"] if elected else None
        found["master_epoch"] = e["master_epoch"]
        if elected:
            found["sync_state_set"], found["sync_state_set_epoch"] = e["sync_state_set"], e["sync_state_set_epoch"]
        found["election"] = {
            "offset": at["offset"], "time_ms": at["ms"], "trigger": e["trigger"], "explanation": e["explanation"],
            "decided_by": e["decided_by"] if elected else "", "acknowledged": False,
        }  # fmt: skip
        self._touch(found, at)

    def _MasterElected(self, e: Row, at: Row) -> None:  # noqa: N802
        self._election(e, at, elected=True)

    def _ElectionFailed(self, e: Row, at: Row) -> None:  # noqa: N802
        self._election(e, at, elected=False)

    def _RoleChangeAcknowledged(self, e: Row, at: Row) -> None:  # noqa: N802
        row = self.views["elections"][f"{e['election_offset']:020d}"]
        row |= {"committed_ms": e["committed_ms"], "acknowledged_offset": at["offset"], "acks": e["acks"]}
        found = self.views["broker_sets"][e["broker_set"]]
        found["election"]["acknowledged"] = True
        self._touch(found, at)

    def _SyncStateSetAltered(self, e: Row, at: Row) -> None:  # noqa: N802
        found = self.views["broker_sets"][e["broker_set"]]
        found["sync_state_set"], found["sync_state_set_epoch"] = e["new"], e["sync_state_set_epoch"]
        self._touch(found, at)

    def _BrokerIdApplied(self, e: Row, at: Row) -> None:  # noqa: N802
        name, number = e["broker_set"], e["broker_id"]
        found = self.views["broker_sets"].get(name)
        if found is None or not found["known"]:
            found = self.views["broker_sets"][name] = {
                "broker_set": name, "cluster": e["cluster"], "master": None, "master_address": None, "master_epoch": 0,
                "sync_state_set": [], "sync_state_set_epoch": 0, "next_broker_id": 1, "replicas": [], "known": True,
                "election": None,
            }  # fmt: skip
            self.views["broker_availability"].pop(name, None)
        found["next_broker_id"] += 1
        found["replicas"] = [r for r in found["replicas"] if r["broker_id"] != number]
        found["replicas"].append({
            "broker_id": number, "address": e["address"], "registered": False, "fenced": False, "in_sync": False,
            "capabilities": {}, "topics": [], "registration_epoch": 0,
        })  # fmt: skip
        found["replicas"].sort(key=lambda r: r["broker_id"])
        self._touch(found, at)
        away = self._away(name, e["cluster"])
        away["brokers"] = [b for b in away["brokers"] if b["broker_id"] != number]
        away["brokers"].append({
            "broker_id": number, "state": "applied", "since_offset": at["offset"], "since_ms": at["ms"], "outages": 0,
            "down_ms": 0, "recent": [],
        })  # fmt: skip
        away["brokers"].sort(key=lambda b: b["broker_id"])
        self._recount(away)

    def _announced(self, e: Row, at: Row, address: str) -> None:
        replica = self._replica(e)
        replica |= {
            "address": address, "registered": True, "capabilities": e["capabilities"], "topics": e["topics"]
        }  # fmt: skip
        self._touch(self.views["broker_sets"][e["broker_set"]], at)

    def _BrokerRegistered(self, e: Row, at: Row) -> None:  # noqa: N802
        self._announced(e, at, e["address"])
        broker = self._broker(e)
        if broker["state"] == "applied":
            broker |= {"state": "up", "since_offset": at["offset"], "since_ms": at["ms"]}

    def _BrokerLifeBegan(self, e: Row, at: Row) -> None:  # noqa: N802
        self._replica(e)["registration_epoch"] = at["offset"]
        self._touch(self.views["broker_sets"][e["broker_set"]], at)

    def _BrokerAddressChanged(self, e: Row, at: Row) -> None:  # noqa: N802
        self._announced(e, at, e["new_address"])

    def _BrokerFenced(self, e: Row, at: Row) -> None:  # noqa: N802
        self._replica(e)["fenced"] = True
        self._touch(self.views["broker_sets"][e["broker_set"]], at)
        broker = self._broker(e)
        broker |= {
            "state": "down",
            "since_offset": at["offset"],
            "since_ms": at["ms"],
            "outages": broker["outages"] + 1,
        }
        broker["recent"] = [*broker["recent"], {
            "fenced_offset": at["offset"], "fenced_ms": at["ms"], "evidence": e["evidence"],
            "last_heartbeat_ms": e["last_heartbeat_ms"], "detected_ms": e["detected_ms"], "unfenced_offset": None,
            "unfenced_ms": None,
        }][-16:]  # fmt: skip
        self._recount(self.views["broker_availability"][e["broker_set"]])

    def _BrokerUnfenced(self, e: Row, at: Row) -> None:  # noqa: N802
        self._replica(e)["fenced"] = False
        self._touch(self.views["broker_sets"][e["broker_set"]], at)
        broker = self._broker(e)
        if broker["state"] == "down":
            broker["down_ms"] += at["ms"] - broker["recent"][-1]["fenced_ms"]
            broker["recent"][-1] |= {"unfenced_offset": at["offset"], "unfenced_ms": at["ms"]}
        if broker["state"] != "up":
            broker |= {"state": "up", "since_offset": at["offset"], "since_ms": at["ms"]}
        self._recount(self.views["broker_availability"][e["broker_set"]])

    def _BrokerDataCleaned(self, e: Row, at: Row) -> None:  # noqa: N802
        name, gone = e["broker_set"], e["broker_ids"]
        found, away = self.views["broker_sets"][name], self.views["broker_availability"][name]
        found["replicas"] = [r for r in found["replicas"] if gone and r["broker_id"] not in gone]
        away["brokers"] = [b for b in away["brokers"] if gone and b["broker_id"] not in gone]
        if not found["replicas"]:
            del self.views["broker_sets"][name], self.views["broker_availability"][name]
            return
        found["sync_state_set"] = [number for number in found["sync_state_set"] if number not in gone]
        if e["whole_set"]:
            found |= {
                "master": None, "master_epoch": 0, "sync_state_set": [], "sync_state_set_epoch": 0, "known": False,
                "election": None,
            }  # fmt: skip
            away["known"] = False
        self._touch(found, at)
        self._recount(away)

    # What they share.

    def _away(self, name: str, cluster: str) -> Row:
        return self.views["broker_availability"].setdefault(
            name, {"broker_set": name, "cluster": cluster, "down": [], "known": True, "brokers": []}
        )

    def _recount(self, away: Row) -> None:
        away["down"] = [b["broker_id"] for b in away["brokers"] if b["state"] == "down"]

    def _broker(self, e: Row) -> Row:
        brokers = self.views["broker_availability"][e["broker_set"]]["brokers"]
        return next(b for b in brokers if b["broker_id"] == e["broker_id"])

    def _replica(self, e: Row) -> Row:
        replicas = self.views["broker_sets"][e["broker_set"]]["replicas"]
        return next(r for r in replicas if r["broker_id"] == e["broker_id"])

    def _touch(self, found: Row, at: Row) -> None:
        """What follows from the rest, and when."""
        found["master_address"] = None
        for replica in found["replicas"]:
            replica["in_sync"] = replica["broker_id"] in found["sync_state_set"]
            if replica["broker_id"] == found["master"]:
                found["master_address"] = replica["address"]
        found |= {"changed_offset": at["offset"], "changed_ms": at["ms"]}

    def _route(self, topic: Row) -> Row:
        queues, brokers = [], []
        for name in sorted(self.views["broker_sets"], key=str.encode):
            found = self.views["broker_sets"][name]
            announced = {t for r in found["replicas"] for t in r["topics"]}
            serving = [r for r in found["replicas"] if r["registered"] and not r["fenced"]]
            if not serving or (announced and topic["topic"] not in announced):
                continue
            addresses = {
                "0" if r["broker_id"] == found["master"] else str(r["broker_id"]): r["address"] for r in serving
            }
            brokers.append({
                "cluster": found["cluster"], "brokerName": name, "brokerAddrs": addresses, "enableActingMaster": False
            })  # fmt: skip
            queues.append({
                "brokerName": name, "readQueueNums": topic["read_queues"], "writeQueueNums": topic["write_queues"],
                "perm": topic["permission"], "topicSysFlag": topic["system_flags"],
            })  # fmt: skip
        order = ";".join(f"{queue['brokerName']}:{queue['writeQueueNums']}" for queue in queues)
        return {
            "topic": topic["topic"], "orderTopicConf": order if topic["order"] else None, "queueDatas": queues,
            "brokerDatas": brokers, "filterServerTable": {},
        }  # fmt: skip
