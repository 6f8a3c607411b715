"""What a message repeats is counted before anything is made of it."""

from types import ModuleType
from typing import Any, Final

import pytest

from quorate.gateway.grpc import journal, members, mqtt, offsets
from quorate.gateway.grpc.codes import StatusCode
from quorate.gateway.grpc.pb import journal_pb2, members_pb2, mqtt_pb2, offsets_pb2
from tests.unit.gateway.grpc.house import House

MADE: Final = {
    journal: ("CreateShard", "AlterInSync", "InSyncCopy"),
    members: ("RegisterMember",),
    mqtt: ("PutSubscriptions", "Subscription"),
    offsets: ("Transact", "PutKey", "DeleteKeys", "CompareKeys", "RangeKeys"),
}
"""By service: its commands, and what they are made of."""
INVALID, EXHAUSTED = StatusCode.INVALID_ARGUMENT, StatusCode.RESOURCE_EXHAUSTED
_TOO_MANY = "etcdserver: too many operations in txn request"
_PAIRS = {f"l{number}": "" for number in range(65)}
_ADDED, _REMOVED = [mqtt_pb2.Subscription(filter="a")] * 1_000, ["b"] * 1_000
TOO_MUCH: Final[tuple[tuple[ModuleType, str, Any, StatusCode, str], ...]] = (
    (journal, "create_shard", journal_pb2.CreateShardRequest(require=_PAIRS), INVALID, "quorate: BadShardLabel"),
    (
        journal,
        "alter_in_sync",
        journal_pb2.AlterInSyncRequest(in_sync=[journal_pb2.InSyncCopy()] * 65),
        INVALID,
        "quorate: NotACopy",
    ),
    (members, "register", members_pb2.RegisterMemberRequest(roles=["r"] * 17), INVALID, "quorate: BadMemberRole"),
    (members, "register", members_pb2.RegisterMemberRequest(addresses=_PAIRS), INVALID, "quorate: BadMemberAddress"),
    (members, "register", members_pb2.RegisterMemberRequest(labels=_PAIRS), INVALID, "quorate: BadMemberLabel"),
    (
        mqtt,
        "put_subscriptions",
        mqtt_pb2.PutSubscriptionsRequest(added=_ADDED, removed=[*_REMOVED, "c"]),
        EXHAUSTED,
        "quorate: TooManySubscriptions",
    ),
    (
        offsets,
        "commit",
        offsets_pb2.CommitOffsetsRequest(group="g", positions=[offsets_pb2.CommitOffset(shard="s")] * 129),
        INVALID,
        _TOO_MANY,
    ),
    (offsets, "delete", offsets_pb2.DeleteOffsetsRequest(group="g", shards=["s"] * 129), INVALID, _TOO_MANY),
)
JUST_SO: Final = (
    (journal, "create_shard", journal_pb2.CreateShardRequest(require=dict([*_PAIRS.items()][:64]))),
    (journal, "alter_in_sync", journal_pb2.AlterInSyncRequest(in_sync=[journal_pb2.InSyncCopy()] * 64)),
    (members, "register", members_pb2.RegisterMemberRequest(roles=["r"] * 16)),
    (mqtt, "put_subscriptions", mqtt_pb2.PutSubscriptionsRequest(added=_ADDED, removed=_REMOVED)),
    (
        offsets,
        "commit",
        offsets_pb2.CommitOffsetsRequest(group="g", positions=[offsets_pb2.CommitOffset(shard="s")] * 128),
    ),
    (offsets, "delete", offsets_pb2.DeleteOffsetsRequest(group="g", shards=["s"] * 128)),
)


class Services:
    """The four on one house; what they make is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.house = House()
        self.made = 0
        asking = self.house.asking
        self._services: dict[ModuleType, Any] = {
            journal: journal.JournalService(asking),
            members: members.MemberService(asking),
            mqtt: mqtt.MqttService(asking),
            offsets: offsets.OffsetsService(asking),
        }
        for module, names in MADE.items():
            for name in names:
                monkeypatch.setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, kind: Any) -> Any:
        def make(*given: Any, **named: Any) -> Any:
            self.made += 1
            return kind(*given, **named)

        return make

    def refused(self, module: ModuleType, call: str, request: Any) -> tuple[StatusCode, str]:
        return self.house.refused(getattr(self._services[module], call)(request, self.house.call))


@pytest.mark.parametrize(("module", "call", "request_", "code", "text"), TOO_MUCH)
def test_of_too_much_nothing_is_made(
    module: ModuleType, call: str, request_: Any, code: StatusCode, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused as too much of it always is, by code and by name, before a command is made of it."""
    services = Services(monkeypatch)
    found, said = services.refused(module, call, request_)
    assert (found, said[: len(text)], services.made) == (code, text, 0)


@pytest.mark.parametrize(("module", "call", "request_"), JUST_SO)
def test_what_is_not_too_much_is_decided(
    module: ModuleType, call: str, request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much as there may be becomes a command, and is refused for what else is wrong with it."""
    services = Services(monkeypatch)
    services.house.may = False
    assert services.refused(module, call, request_)[0] is StatusCode.PERMISSION_DENIED
    assert services.made
