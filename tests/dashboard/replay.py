"""What the dashboard should say, told plainly: one loop over the events as JSON, plain dictionaries, no memory.

Nothing of ``quorate_spark`` is used here, so that a mistake there shows as a difference here. Slow and obvious on
purpose: every question goes over the events again.
"""

import re
from itertools import zip_longest
from typing import Any

Row = dict[str, Any]


class Replay:
    """The state after the first ``count`` of some events; an event is a row of ``quorate log dump -o json``."""

    def __init__(self, rows: list[Row], count: int) -> None:
        self.rows = rows[:count]
        self.sets: dict[str, Row] = {}
        self.topics: dict[str, Row] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.nodes: dict[int, Row] = {}
        self.leader: Row | None = None
        self.leaders: list[Row] = []
        self.level = 0
        self.elections: list[Row] = []
        self.gaps: list[Row] = []
        self.time: int | None = None
        self.steps: dict[str, dict[str, list[Row]]] = {}
        self.members: dict[str, Row] = {}
        self.of_members: dict[str, list[int]] = {}
        self.keys: dict[str, Row] = {}
        self.leases: dict[int, Row] = {}
        self.of_keys: dict[str, list[Row]] = {}
        self.schemas: dict[int, str] = {}
        self.subjects: dict[str, list[Row]] = {}
        self.of_subjects: dict[str, int] = {}
        self.shards: dict[str, Row] = {}
        self.segments: dict[str, Row] = {}
        self.sessions: dict[str, Row] = {}
        self.lost: dict[int, int] = {}
        self.wills: dict[int, tuple[Row, int]] = {}
        for row in self.rows:
            self.time = row["time_ms"]
            getattr(self, method(row["type"]))(row["event"], row["offset"], row["time_ms"], row["term"])
            if "broker_set" in row["event"]:
                self._step(row, row["event"]["broker_set"])

    def _step(self, row: Row, name: str) -> None:
        """Every change of a set's master and of the number in sync."""
        found = self.sets.get(name, {"master": None, "sync": []})
        steps = self.steps.setdefault(name, {"masters": [], "sync": []})
        for which, field, now, none in (("masters", "id", found["master"], None), ("sync", "n", len(found["sync"]), 0)):
            if now != (steps[which][-1][field] if steps[which] else none):
                steps[which].append({field: now, "t": row["time_ms"], "offset": row["offset"]})

    # Broker sets.

    def _touch(self, event: Row, offset: int) -> Row:
        found = self.sets[event["broker_set"]]
        found["touched"] = offset
        return found

    def _broker_id_applied(self, event: Row, offset: int, time: int, _term: int) -> None:
        name = event["broker_set"]
        if name not in self.sets or self.sets[name].get("half"):
            self.sets[name] = {
                "name": name, "cluster": event["cluster"], "members": {}, "master": None, "master_since": None,
                "master_offset": None, "epoch": 0, "sync": [], "sync_epoch": 0, "sync_since": None, "lost_at": None,
                "last_failed": None, "elections": 0, "recent": [],
            }  # fmt: skip
        self.sets[name]["members"][event["broker_id"]] = {
            "id": event["broker_id"], "addr": event["address"], "registered": False, "fenced": False,
            "why": "not registered yet", "since": time, "priority": None, "learner": False, "reported": None,
        }  # fmt: skip
        self._touch(event, offset)

    def _broker_life_began(self, event: Row, offset: int, _time: int, _term: int) -> None:
        self._touch(event, offset)

    def _broker_registered(self, event: Row, offset: int, time: int, _term: int) -> None:
        member = self._touch(event, offset)["members"][event["broker_id"]]
        if not member["registered"]:
            member["since"] = time
            if not member["fenced"]:
                member["why"] = ""
        member["registered"] = True
        member["addr"] = event.get("address", event.get("new_address"))
        member["said"] = {name: event[name] for name in ("capabilities", "topics") if event[name]}
        member["learner"] = event["capabilities"].get("asyncLearner", "").lower() == "true"
        found = self.sets[event["broker_set"]]
        if found["master"] == event["broker_id"] and "address" in event and not member["fenced"]:
            self._serve(found, offset, time)

    _broker_address_changed = _broker_registered

    def _broker_fenced(self, event: Row, offset: int, time: int, _term: int) -> None:
        found = self._touch(event, offset)
        found["members"][event["broker_id"]].update(fenced=True, why=event["evidence"], since=time)
        if found["master"] == event["broker_id"]:
            self._lose(found, event, offset, time)

    def _broker_unfenced(self, event: Row, offset: int, time: int, _term: int) -> None:
        found = self._touch(event, offset)
        member = found["members"][event["broker_id"]]
        member.update(fenced=False, since=time, why="" if member["registered"] else member["why"])
        if found["master"] == event["broker_id"]:
            self._serve(found, offset, time)

    def _lose(self, found: Row, event: Row, offset: int, time: int) -> None:
        if found["lost_at"] is None:
            found["lost_at"] = fault(event) or time
            self.gaps.append({"set": found["name"], "t0": found["lost_at"], "t1": None, "offset": offset})

    def _serve(self, found: Row, _offset: int, time: int) -> None:
        if found["lost_at"] is not None:
            found["lost_at"] = None
            next(gap for gap in self.gaps if gap["set"] == found["name"] and gap["t1"] is None)["t1"] = time

    def _judge(self, found: Row, event: Row) -> None:
        for candidate in event["candidates"]:
            if candidate["broker_id"] in found["members"]:
                found["members"][candidate["broker_id"]]["priority"] = candidate["priority"]

    def _election(self, found: Row, event: Row, offset: int, time: int) -> None:
        began = found["lost_at"] if found["lost_at"] is not None else fault(event)
        self.elections.append({
            "offset": offset, "t": time, "set": found["name"], "event": event, "fault_at": began, "ack": None,
            "first": event.get("decided_by") == "first election", "kind": event["evidence"] or event["trigger"],
        })  # fmt: skip

    def _master_elected(self, event: Row, offset: int, time: int, _term: int) -> None:
        found = self._touch(event, offset)
        self._election(found, event, offset, time)
        self._judge(found, event)
        self._serve(found, offset, time)
        found.update(
            master=event["master"], master_since=time, master_offset=offset, epoch=event["master_epoch"],
            sync=list(event["sync_state_set"]), sync_epoch=event["sync_state_set_epoch"], sync_since=time,
            last_failed=None, elections=found["elections"] + 1,
        )  # fmt: skip
        if event["decided_by"] != "first election":
            found["recent"] = [*found["recent"], time][-32:]

    def _election_failed(self, event: Row, offset: int, time: int, _term: int) -> None:
        found = self._touch(event, offset)
        self._election(found, event, offset, time)
        self._judge(found, event)
        self._lose(found, event, offset, time)
        found.update(
            master=None, master_since=None, master_offset=None, epoch=event["master_epoch"], last_failed=offset
        )

    def _role_change_acknowledged(self, event: Row, offset: int, _time: int, _term: int) -> None:
        found = self._touch(event, offset)
        heard = [ack["broker_id"] for ack in event["acks"] if ack["acknowledged_ms"] > 0]
        for number in heard:
            if number in found["members"]:
                leads = number == found["master"] and event["master_epoch"] == found["epoch"]
                role = "master" if leads else "slave"
                reported = {"role": role, "epoch": event["master_epoch"], "offset": offset}
                found["members"][number]["reported"] = reported
        for election in self.elections:
            if election["offset"] == event["election_offset"] and election["ack"] is None:
                election["ack"] = {"offset": offset, **event}

    def _sync_state_set_altered(self, event: Row, offset: int, time: int, _term: int) -> None:
        self._touch(event, offset).update(
            sync=list(event["new"]), sync_epoch=event["sync_state_set_epoch"], sync_since=time
        )

    def _broker_data_cleaned(self, event: Row, offset: int, time: int, _term: int) -> None:
        found = self._touch(event, offset)
        ids = event["broker_ids"]
        left = {number: member for number, member in found["members"].items() if number not in ids}
        if not ids or not left:
            self._serve(found, offset, time)
            del self.sets[event["broker_set"]]
            return
        found["members"] = left
        if event["whole_set"]:
            self._serve(found, offset, time)
            found.update(
                half=True, master=None, master_since=None, master_offset=None, epoch=0, sync=[], sync_epoch=0,
                sync_since=None, last_failed=None, elections=0, recent=[],
            )  # fmt: skip
            return
        if found["master"] in ids:
            self._lose(found, event, offset, time)
        kept = [number for number in found["sync"] if number not in ids]
        if kept != found["sync"]:
            found.update(sync=kept, sync_since=time)

    # The rest.

    def _cluster_created(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.level = event["feature_level"]
        self.nodes = {voter["id"]: {"started": None, "version": ""} for voter in event["voters"]}

    def _feature_level_changed(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.level = event["new"]

    def _controller_leader_elected(self, event: Row, offset: int, time: int, term: int) -> None:
        self.leader = {"id": event["node_id"], "term": term, "since": time, "offset": offset, "cause": event["cause"]}
        if self.leaders:
            self.leaders[-1]["to"] = max(self.leaders[-1]["from"], time - event["silent_for_ms"])
        self.leaders.append({"id": event["node_id"], "term": term, "from": time, "to": None, "offset": offset})

    def _node_started(self, event: Row, _offset: int, time: int, _term: int) -> None:
        self.nodes[event["node_id"]] = {"started": time, "version": event["version"]}

    def _voter_rebuilt(self, _event: Row, _offset: int, _time: int, _term: int) -> None:
        """The page shows who leads and since when a node runs: a new directory changes neither."""

    # Members.

    def _member_registered(self, event: Row, offset: int, time: int, _term: int) -> None:
        said = {name: event[name] for name in ("incarnation", "roles", "addresses", "labels", "timeout_ms")}
        self.members[event["member"]] = {
            "name": event["member"], "epoch": offset, **said, "fenced": True, "draining": False, "since": time,
        }  # fmt: skip
        self._about(event, offset)

    def _member_amended(self, event: Row, offset: int, _time: int, _term: int) -> None:
        said = {name: event[name] for name in ("roles", "addresses", "labels", "timeout_ms")}
        self._about(event, offset).update(said)

    def _member_unfenced(self, event: Row, offset: int, time: int, _term: int) -> None:
        self._about(event, offset).update(fenced=False, since=time)

    def _member_fenced(self, event: Row, offset: int, time: int, _term: int) -> None:
        self._about(event, offset).update(fenced=True, since=time)

    def _member_draining(self, event: Row, offset: int, time: int, _term: int) -> None:
        self._about(event, offset).update(draining=True, since=time)

    def _member_gone(self, event: Row, offset: int, _time: int, _term: int) -> None:
        self._about(event, offset)
        del self.members[event["member"]]

    def _about(self, event: Row, offset: int) -> Row:
        self.of_members.setdefault(event["member"], []).append(offset)
        return self.members[event["member"]]

    # Keys and leases.

    def _key_put(self, event: Row, offset: int, time: int, _term: int) -> None:
        name, revision, by = event["key"], offset + event["following"], self.rows[offset]["principal"]
        was = self.keys.get(name)
        self.keys[name] = {
            "name": name, "value": event["value"], "create_revision": was["create_revision"] if was else revision,
            "mod_revision": revision, "version": was["version"] + 1 if was else 1, "lease": printed(event["lease"]),
            "t": time, "by": by,
        }  # fmt: skip
        self._changed(event, offset, "put" if was else "created")

    def _key_deleted(self, event: Row, offset: int, _time: int, _term: int) -> None:
        del self.keys[event["key"]]
        self._changed(event, offset, "deleted")

    def _changed(self, event: Row, offset: int, what: str) -> None:
        row = self.rows[offset]
        self.of_keys.setdefault(event["key"], []).append({
            "offset": offset, "revision": offset + event["following"], "t": row["time_ms"], "by": row["principal"],
            "cause": row["cause"], "what": what, "lease": printed(event["lease"]), "value": event.get("value"),
        })  # fmt: skip

    def _lease_granted(self, event: Row, offset: int, time: int, _term: int) -> None:
        self.leases[event["lease"]] = {
            "lease": printed(event["lease"]), "ttl_s": event["ttl_s"], "granted_ms": time, "offset": offset,
            "by": self.rows[offset]["principal"], "remaining_s": 0,
        }  # fmt: skip

    def _lease_checkpointed(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.leases[event["lease"]]["remaining_s"] = event["remaining_s"]

    def _lease_ended(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        del self.leases[event["lease"]]

    def _schema_added(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.schemas[event["schema_id"]] = event["schema"]

    def _schema_registered(self, event: Row, offset: int, _time: int, _term: int) -> None:
        version = {"version": event["version"], "id": event["schema_id"], "deleted": False}
        self.subjects.setdefault(event["subject"], []).append(version)
        self.of_subjects[event["subject"]] = offset

    def _schema_deleted(self, event: Row, offset: int, _time: int, _term: int) -> None:
        found = self.subjects[event["subject"]]
        self.of_subjects[event["subject"]] = offset
        for version in [one for one in found if one["version"] in event["versions"]]:
            version["deleted"] = True
            if event["permanent"]:
                found.remove(version)
        if not found:
            del self.subjects[event["subject"]]

    # Shards and sessions.

    def _shard_created(self, event: Row, offset: int, _time: int, _term: int) -> None:
        said = {name: event[name] for name in ("replication", "min_in_sync", "spread", "require")}
        self.shards[event["shard"]] = {"name": event["shard"], "epoch": offset, "deleting": False, **said}

    def _shard_deleting(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.shards[event["shard"]]["deleting"] = True

    def _shard_gone(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        del self.shards[event["shard"]]

    def _segment_created(self, event: Row, offset: int, _time: int, _term: int) -> None:
        first = event["copies"][0]
        self.segments[event["segment"]] = {
            "start": event["start_offset"], "end": None, "copies": [copy["member"] for copy in event["copies"]],
            "leader": first["member"], "led_in": first["member_epoch"], "leader_epoch": offset, "why": "",
            "in_sync": {copy["member"]: copy["member_epoch"] for copy in event["copies"]}, "set_epoch": 0,
        }  # fmt: skip

    def _segment_sealed(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.segments[event["segment"]]["end"] = event["end_offset"]

    def _segment_leader_elected(self, event: Row, offset: int, _time: int, _term: int) -> None:
        self.segments[event["segment"]].update(
            leader=event["leader"], led_in=event["member_epoch"], leader_epoch=offset, why=event["explanation"],
            in_sync={copy["member"]: copy["member_epoch"] for copy in event["in_sync"]}, set_epoch=event["set_epoch"],
        )  # fmt: skip

    def _segment_in_sync_altered(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        in_sync = {copy["member"]: copy["member_epoch"] for copy in event["new"]}
        self.segments[event["segment"]].update(in_sync=in_sync, set_epoch=event["set_epoch"])

    def _segment_copy_deleted(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        found = self.segments[event["segment"]]
        found["copies"].remove(event["member"])
        found["in_sync"].pop(event["member"], None)
        if found["leader"] == event["member"]:
            found["leader"] = ""
        if not found["copies"]:
            del self.segments[event["segment"]]

    def _session_opened(self, event: Row, offset: int, time: int, _term: int) -> None:
        before = self.sessions.get(event["client"], {"filters": {}})
        self.sessions[event["client"]] = {
            "client": event["client"], "member": event["member"], "life": event["member_epoch"], "epoch": offset,
            "opened": time, "expiry_s": event["expiry_s"], "will": event["will_topic"], "gone": 0,
            "filters": before["filters"],
        }  # fmt: skip

    def _session_disconnected(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        found = self.sessions[event["client"]]
        found.update(gone=event["disconnected_ms"], expiry_s=event["expiry_s"])
        found["will"] = found["will"] if event["will_waits"] else None

    def _session_ended(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        del self.sessions[event["client"]]

    def _subscriptions_changed(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        filters = dict(self.sessions[event["client"]]["filters"])
        for name in event["removed"]:
            del filters[name]
        filters.update((one["filter"], one) for one in event["added"])
        self.sessions[event["client"]]["filters"] = filters

    def _will_decided(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.sessions[event["client"]]["will"] = None

    def _session_owner_lost(self, event: Row, _offset: int, time: int, _term: int) -> None:
        self.lost[event["member_epoch"]] = time

    def _session_owner_settled(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        del self.lost[event["member_epoch"]]

    def _will_handed_over(self, event: Row, _offset: int, time: int, _term: int) -> None:
        said = {name: event[name] for name in ("client", "topic", "member")}
        will = {"will": event["session_epoch"], **said, "since": time}
        self.wills[event["session_epoch"]] = will, event["member_epoch"]

    def _will_acknowledged(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        del self.wills[event["session_epoch"]]

    def _topic_created(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.topics[event["topic"]] = event

    _topic_updated = _topic_created

    def _topic_deleted(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        self.topics.pop(event["topic"], None)

    def _config_changed(self, event: Row, _offset: int, _time: int, _term: int) -> None:
        values = self.configs.setdefault(event["scope"], {})
        for change in event["changes"]:
            values.pop(change["name"], None)
            if change["new"] is not None:
                values[change["name"]] = change["new"]
        if not values:
            del self.configs[event["scope"]]

    # Answers.

    def member_rows(self) -> list[Row]:
        """Every member and every broker by name, as ``/api/members`` has it, without words and what is heard."""
        rows = [
            {name: row[name] for name in row if name != "fenced"} | {"broker": False, "state": condition(row)}
            for row in self.members.values()
        ]
        for found in self.sets.values():
            rows += [
                {
                    "name": f"{found['name']}:{number}", "broker": True, "incarnation": "", "epoch": 0,
                    "roles": ["broker"],
                    "state": "fenced" if member["fenced"] else "active", "addresses": {"remoting": member["addr"]},
                    "labels": member.get("said", {}).get("capabilities", {})
                    | {"cluster": found["cluster"], "broker-set": found["name"]},
                    "timeout_ms": 0, "draining": False, "since": member["since"],
                }
                for number, member in found["members"].items()
            ]  # fmt: skip
        return sorted(rows, key=lambda row: str(row["name"]))

    def _fit(self, name: str, life: int | None) -> bool:
        """Is a member there and given work, in a life if that counts?"""
        found = self.members.get(name)
        return found is not None and not found["fenced"] and life in {None, found["epoch"]}

    def segment_rows(self, shard: str) -> list[Row]:
        """Every segment of a shard, the newest first, as ``/api/shard`` has it."""
        of, rows = self.shards[shard], []
        for name, found in self.segments.items():
            if name.rpartition("/")[0] != shard:
                continue
            fit = sum(self._fit(*copy) for copy in found["in_sync"].items())
            led = self._fit(found["leader"], found["led_in"])
            reasons = [] if led else ["no leader"]
            reasons += ["too few in sync"] if fit < of["min_in_sync"] else []
            level = "red" if reasons else "yellow" if fit < of["replication"] else "green"
            reasons += ["fewer copies in sync than wanted"] if fit < of["replication"] else []
            rows.append(
                {
                    "name": name, "number": int(name.rpartition("/")[2]),
                    **{field: found[field] for field in ("start", "end", "leader", "leader_epoch", "set_epoch", "why")},
                    "level": "deleting" if of["deleting"] else level, "reasons": [] if of["deleting"] else reasons,
                    "copies": [
                        {
                            "member": member, "leads": member == found["leader"], "in_sync": member in found["in_sync"],
                            "there": self._fit(member, found["in_sync"].get(member)),
                        }
                        for member in found["copies"]
                    ],
                }
            )  # fmt: skip
        return sorted(rows, key=lambda row: -int(row["number"]))

    def shard_rows(self) -> list[Row]:
        """Every shard by name, as ``/api/shards`` has it, without words."""
        rows = []
        for name, found in sorted(self.shards.items()):
            segments = self.segment_rows(name)
            levels = {row["level"] for row in segments}
            worst = next((level for level in ("deleting", "red", "yellow") if level in levels), "green")
            newest = segments[0] if segments and not found["deleting"] else {"name": "", "leader": ""}
            rows.append(
                {
                    **{field: found[field] for field in found if field != "deleting"},
                    "level": "deleting" if found["deleting"] else worst, "segments": len(segments),
                    "at_risk": sum(bool(row["reasons"]) for row in segments),
                    "open": newest["name"], "leader": newest["leader"],
                }
            )  # fmt: skip
        return rows

    def session_rows(self) -> list[Row]:
        """Every session by client, as ``/api/sessions`` has it."""
        rows = []
        for _, found in sorted(self.sessions.items()):
            since, expiry = found["gone"] or self.lost.get(found["life"]), found["expiry_s"]
            expiry = None if expiry == 0xFFFF_FFFF else expiry
            rows.append(
                {
                    **{field: found[field] for field in ("client", "member", "epoch", "opened", "will")},
                    "state": "away" if since else "connected", "there": self._fit(found["member"], found["life"]),
                    "since": since, "expiry_s": expiry,
                    "ends": since + 1000 * expiry if since and expiry is not None else None,
                    "subscriptions": len(found["filters"]), "filters": sorted(found["filters"])[:3],
                }
            )  # fmt: skip
        return rows

    def key_rows(self) -> list[Row]:
        """Every key, in the order of its bytes, as ``/api/keys`` has it: the value as base64."""
        return [self.keys[name] for name in sorted(self.keys, key=raw)]

    def lease_rows(self) -> list[Row]:
        """Every lease in the order of its number, as ``/api/leases`` has it, with all of its keys by name."""
        rows = sorted(self.leases.values(), key=lambda row: str(row["lease"]))
        return [{**row, "names": self._under(row["lease"])} for row in rows]

    def will_rows(self) -> list[Row]:
        """Every will that was decided and that nobody acknowledged, the oldest first."""
        return [self.wills[number][0] for number in sorted(self.wills)]

    def version_rows(self) -> list[Row]:
        """Every version that is not deleted, by subject, with its schema."""
        return [
            {"subject": name, "version": one["version"], "id": one["id"], "schema": self.schemas[one["id"]]}
            for name, versions in sorted(self.subjects.items())
            for one in versions
            if not one["deleted"]
        ]

    def subject_rows(self) -> list[Row]:
        """Every subject by name, as ``/api/subjects`` has it."""
        rows, of_all = [], self.configs.get("cluster", {}).get("schemas.compatibility", "BACKWARD")
        for name, versions in sorted(self.subjects.items()):
            last, own = self.rows[self.of_subjects[name]], self.configs.get(f"subject/{name}", {}).get("compatibility")
            if living := [one for one in versions if not one["deleted"]]:
                newest = {"subject": name, "version": living[-1]["version"], "id": living[-1]["id"]}
                checked = {"versions": len(living), "compatibility": own or of_all, "own": own is not None}
                told = {"offset": last["offset"], "t": last["time_ms"], "by": last["principal"]}
                rows.append({**newest, **checked, **told})
        return rows

    def differences(self, panel: str, answer: Row) -> list[Any]:
        """Where the first page of a list (``members``, ``keys?flat=1`` and the like) is not what this says. Where there
        is a next one, this one has 100 rows at least.
        """
        if panel == "members":
            found, expected = answer["members"], self.member_rows()
        elif panel == "shards":
            found, expected = answer["shards"], self.shard_rows()
        elif panel == "sessions":
            found, expected = answer["sessions"], self.session_rows()
        elif panel == "subjects":
            found, expected = answer["subjects"], self.subject_rows()
        elif panel == "keys":
            found = [{**row, "value": row["value"]["base64"]} for row in answer["entries"]]
            expected = self.key_rows()
        else:
            found = [{**row, "names": [key["name"] for key in row["names"]]} for row in answer["leases"]]
            expected = [{**row, "names": row["names"][:3], "keys": len(row["names"])} for row in self.lease_rows()]
        words = ("kind", "shown", "key", "live", "why", "why_offset", "may_leave")
        shown = [{name: row[name] for name in row if name not in words} for row in found]
        if answer.get("next") is not None:
            assert 100 <= len(shown) < len(expected)
            expected = expected[: len(shown)]
        return [pair for pair in zip_longest(shown, expected) if pair[0] != pair[1]]

    def _under(self, lease: str) -> list[str]:
        return [row["name"] for row in self.key_rows() if row["lease"] == lease]

    def set_row(self, name: str, now: int, flapping: int, window_ms: int) -> Row:
        """A row of ``/api/sets`` without soft state."""
        found = self.sets[name]
        recent = sum(now - time < window_ms for time in found["recent"])
        labels = self.configs.get(f"broker-set/{name}", {})
        members = [
            {
                "id": number, "addr": member["addr"], "zone": labels.get(f"zone.{number}", ""),
                "host": labels.get(f"host.{number}", ""), "alive": member["registered"] and not member["fenced"],
                **{key: member[key] for key in ("why", "since", "reported")},
                "priority": None if member["priority"] == 2**31 - 1 else member["priority"],
                "learner": member["learner"] or str(number) in labels.get("learners", "").split(";"),
                **member.get("said", {}),
            }
            for number, member in sorted(found["members"].items())
        ]  # fmt: skip
        same = (
            "name", "cluster", "master", "master_since", "master_offset", "epoch", "sync", "sync_epoch", "sync_since",
            "lost_at", "last_failed", "elections", "touched",
        )  # fmt: skip
        row = {key: found[key] for key in same}
        flaps = recent >= flapping
        status = self._status(found, flaps)
        return {
            **row,
            "diverged": self._diverged(found),
            "status": status,
            "flapping": flaps,
            "elections_30m": recent,
            "members": members,
        }

    def _diverged(self, found: Row) -> list[int]:
        """Who lives, follows a master that is there, and took an older epoch last."""
        if found["master"] is None or found["lost_at"] is not None:
            return []
        return [
            number
            for number, member in sorted(found["members"].items())
            if member["registered"] and not member["fenced"] and number not in found["sync"]
            if member["reported"] and member["reported"]["epoch"] < found["epoch"]
        ]

    def _status(self, found: Row, flaps: bool) -> str:
        if found["master"] is None and found["epoch"] == 0:
            return "new"
        if found["lost_at"] is not None:
            return "lost"
        if len(found["sync"]) == 1 and len(found["members"]) > 1:
            return "last"
        if flaps:
            return "flap"
        return "full" if len(found["sync"]) >= len(found["members"]) else "shrunk"

    def unavailable(self, election: Row) -> int | None:
        """Fault to the acknowledgement by the new master."""
        event, ack = election["event"], election["ack"]
        if "master" not in event or ack is None or election["fault_at"] is None:
            return None
        heard = [a["acknowledged_ms"] for a in ack["acks"] if a["broker_id"] == event["master"]]
        heard = [time for time in heard if time > 0]
        return max(0, min(heard) - election["fault_at"]) if heard else None


def condition(member: Row) -> str:
    """A member's state in a word."""
    return "fenced" if member["fenced"] else "draining" if member["draining"] else "active"


def printed(lease: int) -> str:
    """The number of a lease: hexadecimal, unsigned; none is empty."""
    return f"{lease + (1 << 64 if lease < 0 else 0):016x}" if lease else ""


def raw(text: str) -> bytes:
    """The bytes of a key."""
    return re.sub(rb"[%~](..)", lambda found: bytes([int(found[1], 16)]), text.encode())


def method(kind: str) -> str:
    """``MasterElected`` → ``_master_elected``."""
    return re.sub("([A-Z])", r"_\1", kind).lower()


def fault(event: Row) -> int | None:
    """When what a fencing or an election answers happened."""
    if event.get("evidence") == "heartbeat expired" and event["last_heartbeat_ms"] > 0:
        return int(event["last_heartbeat_ms"])
    return event.get("detected_ms") or None
