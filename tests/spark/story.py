"""Random histories as a controller could have written them: facts in order, each possible after the ones before.

Rules: the same for the same seed; everything the pipelines tell apart happens often: masters lost in every way,
elections that find nobody, masters that return, deliveries given up or late, ids cleaned one by one, by half and whole.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quorate import events as e
from quorate.events import Event, Stamp

BEGAN_MS = 1_795_377_600_000  # A Sunday evening: a few hours of story have a Monday in them.
EVIDENCE = ("connection closed", "heartbeat expired", "shut down")
SETS = ("broker-a", "broker-b/ü")


@dataclass
class Member:
    registered: bool = False
    fenced: bool = False


@dataclass
class Set:
    """What the next event about a set must fit."""

    members: dict[int, Member] = field(default_factory=dict)
    master: int | None = None
    epoch: int = 0
    sync: tuple[int, ...] = ()
    sync_epoch: int = 0
    next_id: int = 1
    election: int | None = None
    half: bool = False


class Story:
    """Grows by one decision at a time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.facts: list[tuple[Stamp, Event]] = []
        self.now = BEGAN_MS
        self.term = 1
        self.sets: dict[str, Set] = {}
        self.topics: set[str] = set()
        self.leases: dict[int, bool] = {}
        self._begin()

    def _begin(self) -> None:
        at = e.NodeAddresses(rpc="h:1", raft="h:2", kafka="h:3", http="h:4")
        self._add(
            e.ClusterCreated(cluster_id="c1", voters=(e.Voter(id=1, dir_uuid="d", addresses=at),), feature_level=1)
        )
        self._add(e.ControllerLeaderElected(node_id=1, cause="first start", previous_leader=None))
        self._add(e.NodeStarted(node_id=1, dir_uuid="d", version="1", addresses=at, feature_min=1, feature_max=1))

    def _add(self, event: Event) -> int:
        self.now += self.chance.choice((0, 0, 1, 7, 450, 5_000, 60_000, 900_000))
        offset = len(self.facts)
        who, why = self.chance.choice((("node/1", "liveness"), ("broker/x", "1002"), ("", "")))
        stamp = Stamp(offset=offset, term=self.term, time_ms=self.now, principal=who, cause=why)
        self.facts.append((stamp, event))
        return offset

    def grow(self, events: int) -> "Story":
        """Until there are so many."""
        while len(self.facts) < events:
            self._step()
        return self

    def _step(self) -> None:
        kinds = {
            self._apply: 6, self._register: 6, self._elect: 10, self._lose: 10, self._unfence: 8, self._acknowledge: 14,
            self._alter: 8, self._clean: 2, self._topic: 3, self._config: 2, self._govern: 1, self._flap: 1,
            self._lease: 4,
        }  # fmt: skip
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        kind()

    def _name(self) -> str:
        return self.chance.choice(SETS)

    def _apply(self) -> None:
        name = self._name()
        found = self.sets.setdefault(name, Set())
        if found.half:
            found = self.sets[name] = Set()
        number = self.chance.choice((found.next_id, found.next_id, *found.members, found.master or 1))
        if number in found.members or len(found.members) > 4:
            return
        found.members[number] = Member()
        found.next_id += 1
        self._add(
            e.BrokerIdApplied(
                cluster="c", broker_set=name, broker_id=number, address=f"h:{number}", register_check_code="x"
            )
        )

    def _some(self) -> tuple[str, Set, int] | None:
        name = self._name()
        found = self.sets.get(name)
        return None if found is None or not found.members else (name, found, self.chance.choice([*found.members]))

    def _register(self) -> None:
        if (some := self._some()) is None:
            return
        name, found, number = some
        moved = found.members[number].registered and self.chance.random() < 0.5
        found.members[number].registered = True
        which: dict[str, Any] = {"cluster": "c", "broker_set": name, "broker_id": number}
        which |= {"topics": ("t",), "capabilities": {"a": "b"}}
        if moved:
            self._add(e.BrokerAddressChanged(old_address="h:1", new_address="h:99", **which))
        else:
            self._add(e.BrokerRegistered(address=f"h:{number}", **which))

    def _lose(self) -> None:
        """Fence somebody, the master rather than another; then perhaps elect at once, as a controller does."""
        if (some := self._some()) is None:
            return
        name, found, number = some
        number = found.master if found.master in found.members and self.chance.random() < 0.7 else number
        times = self._times()
        if not found.members[number].fenced:
            found.members[number].fenced = True
            self._add(e.BrokerFenced(cluster="c", broker_set=name, broker_id=number, **times))
        if number == found.master and self.chance.random() < 0.6:
            self._decide(name, found, "master lost", times)

    def _times(self) -> dict[str, Any]:
        heard = self.chance.choice((0, self.now - 3_000))
        return {
            "evidence": self.chance.choice(EVIDENCE),
            "last_heartbeat_ms": heard,
            "detected_ms": self.now - 1,
            "proposed_ms": self.now,
        }

    def _elect(self) -> None:
        name = self._name()
        found = self.sets.get(name)
        if found is None or found.half or not found.members:
            return
        trigger = self.chance.choice(("broker", "admin", "inactive master scan"))
        self._decide(
            name, found, trigger, {"evidence": "", "last_heartbeat_ms": 0, "detected_ms": 0, "proposed_ms": self.now}
        )

    def _decide(self, name: str, found: Set, trigger: str, times: dict[str, Any]) -> None:
        others = {number: member for number, member in found.members.items() if number != found.master}
        # One that is heard again, and not unfenced yet, may be elected.
        fit = [number for number, member in others.items() if not member.fenced or self.chance.random() < 0.1]
        winner = self.chance.choice(fit) if fit else None
        if found.half or (winner is None and found.epoch == 0):
            return
        found.epoch += 1
        told = {"cluster": "c", "broker_set": name, "trigger": trigger, "old_master": found.master, **times}
        told |= {"master_epoch": found.epoch, "explanation": "so it was", "candidates": self._candidates(found, winner)}
        if winner is None:
            found.master, found.election = None, None
            self._add(e.ElectionFailed(**told))
            return
        before, found.sync, found.master = found.sync, (winner,), winner
        found.sync_epoch += 1
        found.election = self._add(
            e.MasterElected(
                master=winner,
                master_address=f"h:{winner}",
                sync_state_set=found.sync,
                sync_state_set_epoch=found.sync_epoch,
                old_sync_state_set=before,
                decided_by="only candidate",
                unclean=winner not in before,
                **told,
            )
        )

    def _candidates(self, found: Set, winner: int | None) -> tuple[e.Candidate, ...]:
        return tuple(
            e.Candidate(
                broker_id=number,
                alive=not member.fenced,
                in_sync=number in found.sync,
                epoch=found.epoch,
                max_offset=9,
                confirm_offset=7,
                priority=5,
                verdict="elected" if number == winner else "out",
                out_by="" if number == winner else "not alive",
            )
            for number, member in sorted(found.members.items())
        )

    def _unfence(self) -> None:
        if (some := self._some()) is None:
            return
        name, found, number = some
        if found.members[number].fenced:
            found.members[number].fenced = False
            self._add(
                e.BrokerUnfenced(
                    cluster="c", broker_set=name, broker_id=number, detected_ms=self.now, proposed_ms=self.now
                )
            )

    def _acknowledge(self) -> None:
        name = self._name()
        found = self.sets.get(name)
        if found is None or found.election is None or found.half:
            return
        acks = tuple(
            e.Acknowledgement(
                broker_id=number,
                notified_ms=self.chance.choice((0, self.now)),
                acknowledged_ms=self.chance.choice((0, self.now + 5, self.now + 9)),
            )
            for number in sorted(found.members)
        )
        self._add(
            e.RoleChangeAcknowledged(
                cluster="c",
                broker_set=name,
                master_epoch=found.epoch,
                election_offset=found.election,
                committed_ms=self.now,
                acks=acks,
            )
        )
        found.election = None

    def _alter(self) -> None:
        name = self._name()
        found = self.sets.get(name)
        if found is None or found.master is None or found.half:
            return
        new = tuple(sorted({found.master, *(n for n in found.members if self.chance.random() < 0.6)}))
        if new == found.sync:
            return
        found.sync_epoch += 1
        self._add(
            e.SyncStateSetAltered(
                cluster="c",
                broker_set=name,
                master=found.master,
                master_epoch=found.epoch,
                old=found.sync,
                new=new,
                sync_state_set_epoch=found.sync_epoch,
            )
        )
        found.sync = new

    def _clean(self) -> None:
        if (some := self._some()) is None or some[1].half:
            return
        name, found, number = some
        number = found.master if found.master in found.members and self.chance.random() < 0.4 else number
        ids = self.chance.choice(((), (number,), (number,), tuple(sorted(found.members))))
        left = {n: m for n, m in found.members.items() if n not in ids}
        half = bool(ids and left) and self.chance.random() < 0.2
        self._add(e.BrokerDataCleaned(cluster="c", broker_set=name, broker_ids=ids, whole_set=not ids or half))
        if not ids or not left:
            del self.sets[name]
        elif half:
            self.sets[name] = Set(members=left, half=True)
        else:
            found.members, found.sync = left, tuple(n for n in found.sync if n not in ids)

    def _topic(self) -> None:
        topic = self.chance.choice(("t", "%RETRY%g/1"))
        if topic in self.topics and self.chance.random() < 0.4:
            self.topics.remove(topic)
            self._add(e.TopicDeleted(topic=topic))
            return
        kind = e.TopicUpdated if topic in self.topics else e.TopicCreated
        self.topics.add(topic)
        queues = self.chance.randint(1, 9)
        self._add(
            kind(
                topic=topic,
                read_queues=queues,
                write_queues=queues,
                permission=6,
                filter_type="SINGLE_TAG",
                system_flags=0,
                order=False,
                attributes={"message.type": "FIFO"},
            )
        )

    def _config(self) -> None:
        names = self.chance.sample(("a", "b"), self.chance.randint(1, 2))
        changes = tuple(e.ConfigChange(name=name, new=self.chance.choice((None, "1", "2"))) for name in names)
        self._add(e.ConfigChanged(scope=self.chance.choice(("controller", "broker-set/x y")), changes=changes))

    def _lease(self) -> None:
        """A lease begins, is written down, has a key put under it, or ends with that; its number may come again."""
        lease = self.chance.choice((-1, 1, 2))
        if lease not in self.leases:
            self.leases[lease] = False
            self._add(e.LeaseGranted(lease=lease, ttl_s=self.chance.randint(1, 90)))
        elif (way := self.chance.random()) < 0.2:
            self._add(e.LeaseCheckpointed(lease=lease, remaining_s=self.chance.randint(0, 9)))
        elif way < 0.5:
            self.leases[lease] = True
            self._add(e.KeyPut(key=f"/k{lease}", value=b"\x00v", lease=lease, following=0))
        else:
            held, reason = self.leases.pop(lease), self.chance.choice(("expired", "revoked"))
            if held:
                self._add(e.KeyDeleted(key=f"/k{lease}", lease=lease, following=1))
            self._add(e.LeaseEnded(lease=lease, reason=reason, keys=int(held), silent_ms=self.chance.randint(0, 9)))

    def _govern(self) -> None:
        self.term += self.chance.randint(1, 3)
        cause = self.chance.choice(("connection closed", "silent", "handed over"))
        node = self.chance.randint(1, 3)
        self._add(e.ControllerLeaderElected(node_id=node, cause=cause, previous_leader=1, silent_for_ms=12))
        if self.chance.random() < 0.3:
            self._add(e.FeatureLevelChanged(old=1, new=1))

    def _flap(self) -> None:
        name = self._name()
        found = self.sets.get(name)
        for _ in range(5):
            if found is not None and not found.half:
                self._decide(name, found, "admin", self._times() | {"evidence": ""})


def story(seed: int, events: int) -> list[tuple[Stamp, Event]]:
    """So many facts or a few more."""
    return Story(seed).grow(events).facts


def row(stamp: Stamp, event: Event) -> dict[str, Any]:
    """A fact as the source gives it, but for ``time``."""
    plain = {name: value for name, value in msgspec.to_builtins(event).items() if name != "type"}
    return {
        "offset": stamp.offset,
        "term": stamp.term,
        "time_ms": stamp.time_ms,
        "type": type(event).__name__,
        "key": e.key(event).decode(),
        "principal": stamp.principal,
        "cause": stamp.cause,
        "request_id": stamp.request_id,
        "schema_id": e.schema_id(type(event)),
        "event": json.dumps(plain, ensure_ascii=False),
    }


def rows(facts: Sequence[tuple[Stamp, Event]]) -> Iterator[dict[str, Any]]:
    """All of them."""
    return (row(stamp, event) for stamp, event in facts)
