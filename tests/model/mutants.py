"""Planted rule changes: each is one rule of the controller, wrong in a way somebody could have written it.

A change that no history tells from the right rule would be a hole in the histories, not a harmless change.
"""

from typing import Any

from tests.model.model import Answer, Model, Request


class AnyFirstId(Model):
    """A new set may begin with any id."""

    def apply_broker_id(self, request: Request) -> Answer:
        number = request["broker_id"]
        if request["broker_set"] not in self.replicas and number is not None and number > 0:
            self.first_id = lambda: number  # type: ignore[method-assign]
        return super().apply_broker_id(request)


class IdTakenTwice(Model):
    """Another check code takes a taken id over."""

    def apply_broker_id(self, request: Request) -> Answer:
        found = self.replicas.get(request["broker_set"], {}).get("ids", {}).get(request["broker_id"])
        if found and request["check_code"] is not None:
            found["check_code"] = request["check_code"]
        return super().apply_broker_id(request)


class DeadMasterTold(Model):
    """A registration names the master though it is dead."""

    def tells_master(self, cluster: str, name: str, master: int | None) -> bool:
        return master is not None


class AnybodyMoves(Model):
    """Who registers another address under a living broker's id takes its place."""

    def keeps_address(self, name: str, number: int) -> bool:
        return False


class ReportsMayFall(Model):
    """A heartbeat with a lower (epoch, offset) replaces the higher one."""

    def heartbeat(self, request: Request) -> Answer:
        self.live.pop((request["cluster"], request["broker_set"], request["broker_id"] or 0), None)
        return super().heartbeat(request)


class GivenUpAndKept(Model):
    """A master that is given up stays master until somebody asks for another."""

    def succeeded(self, name: str, number: int) -> bool:
        return False


class OffsetBeforeEpoch(Model):
    """A longer log wins over a newer epoch."""

    def beats(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        if one["max_offset"] != other["max_offset"]:
            return self.offset_beats(one["max_offset"], other["max_offset"])
        return super().beats(one, other)


class HigherPriorityNumberWins(Model):
    """Priorities are read the wrong way round."""

    def beats(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        if (one["epoch"], one["max_offset"]) == (other["epoch"], other["max_offset"]):
            return bool(one["priority"] > other["priority"])
        return super().beats(one, other)


class OldMasterMustCompete(Model):
    """A living master is replaced by whoever is further."""

    def policy(self, name: str, pool: set[int], preferred: int | None) -> int | None:
        sync = self.sync[name]
        master, sync["master"] = sync["master"], None
        found = super().policy(name, pool, preferred)
        sync["master"] = master
        return found


class DesignationIsAWish(Model):
    """When the designated id cannot be master, another becomes it."""

    def policy(self, name: str, pool: set[int], preferred: int | None) -> int | None:
        return super().policy(name, pool, preferred) or super().policy(name, pool, None)


class AskerIsPreferred(Model):
    """Whoever asks for an election is preferred in it, designated or not."""

    def choose(self, name: str, asker: int | None, designate: bool) -> int | None:
        return super().choose(name, asker, designate or asker is not None)


class FailureKeepsTheMaster(Model):
    """A failed election of the controller leaves the dead master recorded."""

    def elect(self, request: Request) -> Answer:
        sync = self.sync.get(request["broker_set"], {"master": None})
        master = sync["master"]
        found = super().elect(request)
        if found["code"] == 2004:
            sync["master"] = master
        return found


class OthersStayInSync(Model):
    """The new master begins with the old sync state set."""

    def elect(self, request: Request) -> Answer:
        before = set(self.sync.get(request["broker_set"], {"set": set()})["set"])
        found = super().elect(request)
        if found["code"] == 0:
            self.sync[request["broker_set"]]["set"] |= before
        return found


class EqualSetCheckedLast(Model):
    """1001 looks at the master before it looks whether anything changes."""

    def alter_equal(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        return self.alter_master(request, sync) or super().alter_equal(request, sync)


class NewerEpochAccepted(Model):
    """1001 takes a master epoch that is higher than the current one."""

    def alter_epoch(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        return None if request["master_epoch"] > sync["master_epoch"] else super().alter_epoch(request, sync)


class DeadReplicasInSync(Model):
    """1001 does not look whether the replicas live."""

    def alter_members(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        found = super().alter_members(request, sync)
        return None if found and found["code"] == 2006 else found


class MasterMayLeave(Model):
    """1001 takes a sync state set without its master."""

    def alter_members(self, request: Request, sync: dict[str, Any]) -> Answer | None:
        found = super().alter_members(request, sync)
        return None if found and found["code"] == 2013 else found


class CleanLooksInTheSetsCluster(Model):
    """1011 asks for liveness in the set's cluster, not in the one the request names."""

    def clean(self, request: Request) -> Answer:
        cluster = self.sync.get(request["broker_set"], {}).get("cluster", request["cluster"])
        return super().clean({**request, "cluster": cluster})


class NoJumpLimit(Model):
    """Any reported epoch is believed."""

    def plausible(self, sync: dict[str, Any], epoch: int) -> bool:
        return True


class FixedAttributesChange(Model):
    """A topic's fixed attributes may be changed later."""

    def new_attributes(self, old: dict[str, str] | None, changes: dict[str, str]) -> dict[str, str] | None:
        added = {key: value for key, value in changes.items() if key[:1] == "+"}
        free = super().new_attributes(None, added)
        if free is None or len(added) < len(changes):
            return super().new_attributes(old, changes)
        return {**(old or {}), **free}


MUTANTS: list[type[Model]] = [
    AnyFirstId, IdTakenTwice, DeadMasterTold, AnybodyMoves, ReportsMayFall, GivenUpAndKept, OffsetBeforeEpoch,
    HigherPriorityNumberWins, OldMasterMustCompete, DesignationIsAWish, AskerIsPreferred, FailureKeepsTheMaster,
    OthersStayInSync, EqualSetCheckedLast, NewerEpochAccepted, DeadReplicasInSync, MasterMayLeave,
    CleanLooksInTheSetsCluster, NoJumpLimit, FixedAttributesChange,
]  # fmt: skip
