"""The name server's part: what a route says, who is asked, what is kept and for how long. What Java answers to each
request is compared in tests/contract/names.py.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from quorate.events import FeatureLevelChanged, Stamp
from quorate.gateway.access import OpenAccess
from quorate.gateway.http.answers import DataVersion
from quorate.gateway.remoting import announced, kv, naming
from quorate.gateway.remoting.announced import LOOK_EVERY_S, SET_MAX, SILENT_AFTER_S, Announced, Set
from quorate.gateway.remoting.naming import ASK_AGAIN_S, ASKED_MAX, WAITED_S
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.model.evolve import evolve
from quorate.model.ordered import OrderedMap, building
from quorate.model.routes import QueueData
from quorate.model.state import KeyValue
from quorate.node.announcements import announcements
from quorate.slices import finished
from quorate.wire.name_server import AnnouncedTopic
from quorate.wire.remoting import FrameSplitter, Response, decode_request, encode_request
from tests.unit.gateway.remoting.test_service import A1, A2, SET, Gateway, Peer

NAMES = RemotingSettings()
CODES = (100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 322, 327, 901)
VERSION = {"counter": 1, "stateVersion": 1, "timestamp": 1}


def table(*topics: str, **version: int) -> dict[str, Any]:
    """Java ``TopicConfigSerializeWrapper``."""
    configs = {topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for topic in topics}
    return {"dataVersion": {**VERSION, **version}, "topicConfigTable": configs}


def ha(address: str) -> str:
    """Where a broker copies from."""
    return address.replace(":", ".ha:")


class Named(Gateway):
    """A gateway whose brokers can be asked for their topics."""

    def __init__(self, settings: RemotingSettings | None = None) -> None:
        self.asked: list[tuple[str, Callable[[bytes | None], None]]] = []
        super().__init__(settings, ask_topics=lambda address, done: self.asked.append((address, done)))
        self.announced = self.service.names.announced if self.service.names is not None else None

    def quiet(self, code: int, **fields: str) -> None:
        """Ask, and wait for no answer."""
        (frame,) = FrameSplitter().feed(encode_request(code, 7, fields))
        self.service.handle(decode_request(frame), frame, self.peer)

    def announce(self, address: str, broker_id: int, *topics: str, name: str = "b", **more: Any) -> Response:
        """103."""
        body = {"topicConfigSerializeWrapper": table(*topics, **more.pop("version", {}))}
        return self.ask(
            103, body, clusterName="C", brokerName=name, brokerAddr=address, brokerId=broker_id,
            **{"haServerAddr": ha(address), "enableActingMaster": "false", **more},
        )  # fmt: skip

    def addresses(self, topic: str) -> dict[str, str] | None:
        """Id → address of set ``b`` in the route; None: there is no route."""
        answer = self.ask(105, topic=topic)
        if answer.code == 17:
            return None
        (one,) = json.loads(answer.body)["brokerDatas"]
        found: dict[str, str] = one["brokerAddrs"]
        return found


def test_a_route_names_the_new_master_as_soon_as_it_is_elected() -> None:
    """Whatever the brokers said of their roles: who is master is decided, and who is fenced is in no route."""
    gateway = Named()
    gateway.pair()
    assert gateway.announce(A1, 0, "t", "u").code == 0
    assert gateway.announce(A2, 2, "t", "u").code == 0
    assert gateway.addresses("t") == {"0": A1, "2": A2}
    assert gateway.ask(1002, **SET, brokerId=2, designateElect="true").code == 0
    assert gateway.addresses("t") == {"0": A2, "1": A1}
    answer = gateway.announce(A1, 1, "t", "u")
    assert (answer.fields["masterAddr"], answer.fields["haServerAddr"]) == (A2, ha(A2))


def test_a_slave_is_told_its_master_before_that_one_announced_itself() -> None:
    """A node that has just begun knows who is master; only where its log is read it does not."""
    gateway = Named()
    gateway.pair()
    answer = gateway.announce(A2, 2, "t", "u")
    assert (answer.fields.get("masterAddr"), answer.fields.get("haServerAddr")) == (A1, None)
    assert "masterAddr" not in gateway.announce(A1, 0, "t", "u").fields


def test_topics_of_a_known_set_outlive_its_connections() -> None:
    """The set is decided to serve: a connection that ends takes nothing from its route."""
    gateway = Named()
    gateway.pair()
    gateway.announce(A1, 0, "t", "u")
    gateway.service.closed(gateway.peer)
    assert gateway.addresses("t") == {"0": A1, "2": A2}
    assert gateway.announced is not None and len(gateway.announced) == 0


def test_a_cleaned_set_is_in_no_route_and_forgotten() -> None:
    """1011: the controller knows it no more, and nobody announces it."""
    gateway = Named()
    gateway.pair()
    gateway.announce(A1, 0, "t", "u")
    gateway.service.closed(gateway.peer)
    assert gateway.ask(1011, **SET, isCleanLivingBroker="true").code == 0
    assert gateway.addresses("t") is None
    gateway.controller.clock.advance(LOOK_EVERY_S + 1)
    gateway.addresses("t")
    assert gateway.announced is not None and (gateway.announced.sets, gateway.announced.queues) == ({}, 0)


def test_a_node_that_was_told_nothing_asks_the_master_first() -> None:
    """Every client waits for the same question; what the master announces itself meanwhile is newer."""
    gateway = Named()
    gateway.pair()
    (one, two) = (Peer(), Peer())
    for gateway.peer in (one, two):
        gateway.quiet(105, topic="t")
    ((address, done),) = gateway.asked
    assert (address, one.sent, two.sent) == (A1, [], [])
    done(json.dumps(table("t")).encode())
    assert [message.code for peer in (one, two) for message in peer.sent if message is not None] == [0, 0]
    assert gateway.addresses("t") == {"0": A1, "2": A2}
    assert gateway.addresses("nobody's") is None
    assert len(gateway.asked) == 1


def many_sets(count: int) -> Named:
    """A gateway that knows so many sets, named ``s0`` on, each with a master; and was told nothing."""
    gateway = Named()
    gateway.pair()
    state = gateway.controller.state
    one = state.broker_sets["b"]
    for number in range(count):
        replicas = tuple(msgspec.structs.replace(each, address=f"10.0.{number}.1:1") for each in one.replicas)
        copy = msgspec.structs.replace(one, name=f"s{number}", replicas=replicas)
        state = msgspec.structs.replace(state, broker_sets=state.broker_sets.set(copy.name, copy))
    gateway.controller.state = msgspec.structs.replace(state, broker_sets=state.broker_sets.delete("b"))
    return gateway


def test_a_node_that_was_told_nothing_asks_every_master_before_it_denies_a_topic() -> None:
    """So many at a time; the topic is at the one that is asked last."""
    gateway = many_sets(ASKED_MAX + 6)
    gateway.peer = peer = Peer()
    gateway.quiet(105, topic="t")
    most = 0
    answered = 0
    while answered < len(gateway.asked):
        most = max(most, len(gateway.asked) - answered)
        _, done = gateway.asked[answered]
        answered += 1
        assert peer.sent == []
        last = answered == ASKED_MAX + 6
        done(json.dumps(table("t" if last else f"t{answered}")).encode())
    assert (answered, most) == (ASKED_MAX + 6, ASKED_MAX)
    assert [message.code for message in peer.sent if message is not None] == [0]


class Looked(dict[str, Set]):
    """Counts how often a set is looked for."""

    looks = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(name, default)


@pytest.mark.parametrize("answers", [True, False])
def test_sets_are_gone_through_once_for_topics_that_nobody_has(answers: bool) -> None:
    """Clients ask for such topics all the time. They are gone through again when the sets have changed, and in five
    seconds, when a master that said nothing may be asked again.
    """
    gateway = many_sets(100)
    assert gateway.announced is not None
    gateway.announced.sets = looked = Looked()

    def asked() -> int:
        gateway.quiet(105, topic="nobody's")
        while gateway.asked:
            gateway.asked.pop()[1](json.dumps(table("t")).encode() if answers else None)
        found, looked.looks = looked.looks, 0
        return found

    assert [asked() for _ in range(3)] == [100, 0, 0]
    state = gateway.controller.state
    gateway.controller.state = msgspec.structs.replace(state, broker_sets=state.broker_sets.delete("s0"))
    assert [asked() for _ in range(3)] == [99, 0, 0]
    gateway.controller.clock.advance(ASK_AGAIN_S)
    assert [asked() for _ in range(3)] == [0 if answers else 99, 0, 0]


def test_whoever_waits_too_long_for_masters_is_told_to_ask_again() -> None:
    """Not that there is no such topic, which nobody knows. What is told by then counts."""
    gateway = many_sets(2)
    (one, two) = (Peer(), Peer())
    for gateway.peer, topic in (one, "t"), (two, "u"):
        gateway.quiet(105, topic=topic)
    (_, first), (_, second) = gateway.asked
    gateway.controller.clock.advance(WAITED_S)
    first(json.dumps(table("u")).encode())
    assert [message.code for peer in (one, two) for message in peer.sent if message is not None] == [2, 0]
    gateway.peer = three = Peer()
    gateway.quiet(105, topic="t")
    second(None)
    assert [message.code for message in three.sent if message is not None] == [17]


def test_no_more_requests_wait_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told to ask again."""
    monkeypatch.setattr(naming, "WAITING_MAX", 1)
    gateway = many_sets(1)
    gateway.quiet(105, topic="t")
    gateway.peer = Peer()
    gateway.quiet(105, topic="t")
    assert [message.code for message in gateway.peer.sent if message is not None] == [2]


def test_a_registration_that_tells_topics_is_as_good_as_an_answer_of_the_master() -> None:
    """1003 with Java's body: a node that was told nothing has the topics of the set's master, with their
    configurations and their version; what was announced (103) is newer, and a slave's word is not asked for.
    """
    gateway = Named()
    gateway.pair()
    assert gateway.announced is not None
    wrapper = table("T", counter=7)
    wrapper["topicConfigTable"]["T"] |= {"order": True, "attributes": {"message.type": "FIFO"}}

    def register(broker_id: int, address: str, body: dict[str, Any]) -> None:
        told = {"topicConfigSerializeWrapper": body}
        assert gateway.ask(1003, told, **SET, brokerId=broker_id, brokerAddress=address).code == 0

    register(2, A2, wrapper)
    assert "b" not in gateway.announced.sets
    register(1, A1, wrapper)
    known = gateway.announced.sets["b"]
    assert known.version is not None
    assert known.version.counter == 7
    assert (known.configs["T"].order, known.configs["T"].attributes) == (True, {"message.type": "FIFO"})
    assert gateway.addresses("T") is not None
    register(1, A1, table("T", "U"))
    assert set(known.topics) == {"T"}
    assert gateway.ask(216, topic="T").code == 0
    assert known.configs == {}


def test_a_mapping_that_is_none_leaves_nothing_of_its_table() -> None:
    """A registration is answered, for it holds whatever a broker says of topics; an announcement is refused whole."""
    gateway = Named()
    gateway.pair()
    assert gateway.announced is not None
    told = {"topicConfigSerializeWrapper": {**table("T"), "topicQueueMappingInfoMap": {"T": 1}}}
    assert gateway.ask(1003, told, **SET, brokerId=1, brokerAddress=A1).code == 0
    fields = {"clusterName": "C", "brokerName": "b", "brokerAddr": A1, "brokerId": 0}
    answer = gateway.ask(103, told, **fields)
    assert (answer.code, (answer.remark or "")[:8]) == (1, "mapping:")
    assert (gateway.announced.sets, len(gateway.announced)) == ({}, 0)


def test_mappings_are_kept_of_a_set_s_own_topics_and_go_with_them() -> None:
    """However many names a broker maps; said again it is no news, and what is kept is not the body it came in."""
    gateway = Named()
    assert gateway.announced is not None

    def announce(name: str, epoch: int) -> None:
        mapped = {topic: {"topic": topic, "bname": name, "epoch": epoch} for topic in ("t", "u", "nobody's")}
        told = {"topicConfigSerializeWrapper": {**table("t", "u"), "topicQueueMappingInfoMap": mapped}}
        fields = {"clusterName": "C", "brokerName": name, "brokerAddr": A1 if name == "b" else A2, "brokerId": 0}
        assert gateway.ask(103, told, **fields).code == 0

    def kept() -> dict[str, dict[str, int]]:
        assert gateway.announced is not None
        found = gateway.announced.mappings.items()
        return {topic: {name: json.loads(bytes(one))["epoch"] for name, one in sets.items()} for topic, sets in found}

    announce("b", 1)
    announce("c", 1)
    revision, gateway.peer = gateway.announced.revision, Peer()
    announce("b", 1)
    assert gateway.announced.revision == revision
    announce("b", 2)
    assert kept() == {"t": {"b": 2, "c": 1}, "u": {"b": 2, "c": 1}}
    assert gateway.ask(216, topic="t").code == 0
    assert kept() == {"u": {"b": 2, "c": 1}}
    assert gateway.ask(104, clusterName="C", brokerName="c", brokerAddr=A2, brokerId=0).code == 0
    assert kept() == {"u": {"b": 2}}
    gateway.service.closed(gateway.peer)
    assert gateway.announced.mappings == {}


def test_brokers_that_announced_themselves_are_listed_by_id() -> None:
    """With which version of the topics each told."""
    gateway = Named()
    assert gateway.announced is not None
    gateway.announce(A2, 1, "T", "U")
    gateway.announce(A1, 0, "T", "U", version={"counter": 9})
    told = gateway.announced.brokers_of("b")
    assert [(one.broker_id, one.address, one.version.counter) for one in told] == [(0, A1, 9), (1, A2, 1)]
    found = announcements(gateway.announced, "b", gateway.controller.clock.monotonic())
    assert found is not None
    assert found.version == DataVersion(state_version=1, timestamp_ms=1, counter=9)
    assert [(one.ha_address, one.silent_for_ms) for one in found.brokers] == [(ha(A1), 0), (ha(A2), 0)]
    assert gateway.announced.brokers_of("nobody") == []
    assert announcements(gateway.announced, "nobody", 0.0) is announcements(None, "b", 0.0) is None


@pytest.mark.parametrize("body", [None, b"{", b"{}"])
def test_a_master_that_says_nothing_useful_is_asked_again_later(body: bytes | None) -> None:
    """Who waited is told that there is no such topic; five seconds later it is asked once more, unless it has none."""
    gateway = Named()
    gateway.pair()
    gateway.quiet(105, topic="t")
    gateway.asked.pop()[1](body)
    assert gateway.peer.sent[-1] is not None and gateway.peer.sent[-1].code == 17
    assert gateway.addresses("t") is None
    gateway.controller.clock.advance(6)
    gateway.quiet(105, topic="t")
    assert len(gateway.asked) == (body != b"{}")


def test_whoever_is_silent_for_two_minutes_is_gone() -> None:
    """A broker of no controller; 103 and 322 are words of it, and so is 904 where it wants to be missed sooner."""
    gateway = Named()
    patient, hasty = "127.0.0.1:1", "127.0.0.1:2"
    gateway.announce(patient, 0, "t", "u", name="patient")
    gateway.announce(hasty, 0, "t", "u", name="hasty", heartbeatTimeoutMillis=10_000)
    clock = gateway.controller.clock
    clock.advance(9)
    gateway.ask(904, clusterName="C", brokerName="hasty", brokerId=0, brokerAddr=hasty)
    clock.advance(9)
    assert {one["brokerName"] for one in json.loads(gateway.ask(105, topic="t").body)["brokerDatas"]} == {
        "patient", "hasty",
    }  # fmt: skip
    clock.advance(11)
    assert {one["brokerName"] for one in json.loads(gateway.ask(105, topic="t").body)["brokerDatas"]} == {"patient"}
    clock.advance(SILENT_AFTER_S - 30)
    gateway.ask(322, VERSION, clusterName="C", brokerName="patient", brokerId=0, brokerAddr=patient)
    clock.advance(SILENT_AFTER_S - 1)
    assert gateway.ask(105, topic="t").code == 0
    clock.advance(LOOK_EVERY_S)
    assert gateway.ask(105, topic="t").code == 17


def test_a_late_end_of_a_former_connection_takes_nobody_out() -> None:
    """apache/rocketmq#11045: whoever has come back on another connection is there."""
    gateway = Named()
    first = gateway.peer
    gateway.announce(A1, 0, "t", "u")
    gateway.peer = Peer()
    gateway.announce(A1, 0, "t", "u")
    gateway.service.closed(first)
    assert gateway.addresses("t") == {"0": A1}
    gateway.service.closed(gateway.peer)
    assert gateway.addresses("t") is None


def test_a_broker_that_names_another_set_has_left_its_former_one() -> None:
    """At the same address, also while its former connection is there: nothing else would take that address out."""
    gateway = Named()
    kept = gateway.announced
    assert kept is not None
    gateway.announce(A2, 1, "t", "u", name="x")
    gateway.announce(A1, 0, "t", "u", name="x")
    gateway.announce(A1, 0, "v", "w", name="y")
    assert (kept.sets["x"].addresses, kept.sets["y"].addresses) == ({1: A2}, {0: A1})
    gateway.announce(A2, 1, "v", "w", name="y")
    assert set(kept.sets) == {"y"}
    assert gateway.ask(105, topic="t").code == 17
    assert gateway.addresses("v") == {"0": A1, "1": A2}
    gateway.service.closed(gateway.peer)
    assert (kept.sets, kept.queues, len(kept)) == ({}, 0, 0)


def test_names_of_sets_at_one_address_do_not_pile_up() -> None:
    """Whoever makes them: as many sets are kept as brokers, and those that the controller knows."""
    gateway = Named(RemotingSettings(announced_max=2))
    gateway.pair()
    gateway.announce(A1, 0, "t", "u")
    for number in range(10):
        assert gateway.announce(A1, 0, name=f"s{number}").code == 0
    assert gateway.announced is not None
    assert set(gateway.announced.sets) == {"b", "s9"}


def test_nothing_is_left_of_whom_a_later_epoch_keeps_out() -> None:
    """Not the id that it had before, as in Java, nor what it listed: it is no broker any more, so none of it would
    ever end.
    """
    gateway = Named()
    kept = gateway.announced
    assert kept is not None
    gateway.announce(A1, 0, "t", "u", version={"stateVersion": 5})
    gateway.announce(A2, 1, "t", "u", version={"stateVersion": 4})
    assert gateway.addresses("t") == {"0": A1, "1": A2}
    older = {"topicConfigSerializeWrapper": table("t", "u", stateVersion=4), "filterServerList": ["f:1"]}
    fields = {"clusterName": "C", "brokerName": "b", "brokerAddr": A2}
    for broker_id, addresses, filters in ((5, {"0": A1, "5": A2}, [("C", A2)]), (0, {"0": A1}, [])):
        assert gateway.ask(103, older, **fields, brokerId=broker_id).code == 0
        assert (gateway.addresses("t"), list(kept.filters), len(kept)) == (addresses, filters, len(addresses))


def test_what_is_said_again_is_read_once() -> None:
    """The same announcement on the same connection costs no look at its topics; one topic less is put back by it."""
    gateway = Named()
    gateway.announce(A1, 0, "t", "u")
    assert gateway.announced is not None
    revision = gateway.announced.revision
    gateway.announce(A1, 0, "t", "u")
    assert gateway.announced.revision == revision
    assert gateway.ask(216, topic="t").code == 0
    assert gateway.addresses("t") is None
    gateway.announce(A1, 0, "t", "u")
    assert gateway.addresses("t") == {"0": A1}


def test_of_a_table_that_is_told_again_what_differs_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker tells all of its topics when one of them has changed. What was changed here by itself (205) is as the
    broker says again.
    """
    made: list[str] = []
    queues_of = announced.queues_of

    def counted(broker_set: str, topic: AnnouncedTopic, *, read_only: bool = False) -> QueueData:
        made.append(topic.topic_name)
        return queues_of(broker_set, topic, read_only=read_only)

    monkeypatch.setattr(announced, "queues_of", counted)
    gateway = Named()
    assert gateway.announced is not None
    names = [str(number) for number in range(100)]

    def announce(counter: int, **changed: Any) -> list[str]:
        wrapper = table(*names, counter=counter)
        wrapper["topicConfigTable"]["7"] |= changed
        made.clear()
        fields = {"clusterName": "C", "brokerName": "b", "brokerAddr": A1, "brokerId": 0}
        assert gateway.ask(103, {"topicConfigSerializeWrapper": wrapper}, **fields).code == 0
        return list(made)

    assert announce(1) == names
    revision = gateway.announced.revision
    assert (announce(2), gateway.announced.revision) == ([], revision)
    assert (announce(3, perm=4), announce(4, perm=4, order=True)) == (["7"], ["7"])
    known = gateway.announced.sets["b"]
    assert (known.topics["7"].perm, known.configs["7"].order) == (4, True)
    assert announce(5) == ["7"]
    assert gateway.ask(205, brokerName="b").code == 0
    assert announce(6) == names
    assert known.topics["7"].perm == 6


def test_what_is_kept_is_bounded() -> None:
    """One more topic, or broker, is refused by name; those that are there stay."""
    gateway = Named(RemotingSettings(announced_max=2))
    assert gateway.announce(A1, 0, "t", "u").code == 0
    answer = gateway.announce(A1, 0, "t", "u", "v", version={"counter": 2})
    assert (answer.code, answer.remark) == (1, "2 topics of sets are kept")
    assert gateway.announce(A2, 2, "t", "u").code == 0
    answer = gateway.announce("127.0.0.1:3", 3, "t", "u")
    assert (answer.code, answer.remark) == (1, "2 brokers are kept")
    assert gateway.addresses("t") == {"0": A1, "2": A2}
    half = "C" * (NAMES.names_max // 2)
    for names in ({"clusterName": 2 * half}, {"clusterName": half, "__ZONE_NAME": half}):
        answer = gateway.ask(103, **{"brokerName": "b", "brokerAddr": A1, "brokerId": 0, **names})
        assert answer.remark == "Registration with names that are too long"


def test_a_set_is_looked_at_once_when_many_of_its_brokers_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection may have announced a thousand: neither its set nor the topics are gone through for each."""
    permits: list[str] = []
    permit = Announced.permit

    def counted(kept: Announced, broker_set: str, change: Callable[[int], int]) -> int:
        permits.append(broker_set)
        return permit(kept, broker_set, change)

    monkeypatch.setattr(Announced, "permit", counted)
    gateway = Named()
    kept = gateway.announced
    assert kept is not None
    gateway.announce("h:1", 1, "t", "u", enableActingMaster="true")
    first, gateway.peer = gateway.peer, Peer()
    for number in (0, *range(2, SET_MAX)):
        assert gateway.announce(f"h:{number + 1000}", number, "t", "u", enableActingMaster="true").code == 0
    answer = gateway.announce("h:5000", 5000, "t", "u")
    assert (answer.code, answer.remark) == (1, "1000 brokers of a set are kept")
    assert gateway.announce("h:5000", 2, "t", "u", enableActingMaster="true").code == 0
    addresses = kept.sets["b"].addresses
    gateway.service.closed(gateway.peer)
    assert (permits, addresses, kept.sets["b"].topics["t"].perm) == (["b"], {1: "h:1"}, 4)
    assert kept.sets["b"].addresses is addresses
    gateway.service.closed(first)
    assert (kept.sets, len(kept), permits) == ({}, 0, ["b"])


@pytest.mark.parametrize(("topics", "large"), [(64, 0), (65, 2)])
def test_the_topics_of_a_large_set_are_gone_through_in_a_turn_that_has_time(topics: int, large: int) -> None:
    """205, 327: a hundred thousand take tens of milliseconds, and a turn takes many requests."""
    gateway = Named()
    gateway.announce(A1, 0, *map(str, range(topics)))
    assert gateway.ask(205, brokerName="b").fields == {"wipeTopicCount": str(topics)}
    assert gateway.announced is not None and gateway.announced.sets["b"].topics["0"].perm == 4
    assert gateway.ask(327, brokerName="b").fields == {"addTopicCount": str(topics)}
    assert gateway.announced.sets["b"].topics["0"].perm == 6
    assert gateway.ask(327, brokerName="nobody").fields == {"addTopicCount": "0"}
    assert gateway.peer.large == large


def test_filter_servers_are_few() -> None:
    """What a broker lists beside its topics is kept for each broker; a few bytes, deflated, list a million."""
    gateway = Named()
    for filters, code in ((["aa"] * 65, 1), (["aa"] * 64, 0)):
        body = {"topicConfigSerializeWrapper": table("t", "u"), "filterServerList": filters}
        assert gateway.announced is not None
        assert gateway.announced.filters == {}
        assert gateway.ask(103, body, clusterName="C", brokerName="b", brokerAddr=A1, brokerId=0).code == code


def test_what_topics_have_beside_their_queues_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, attributes and mappings of all topics count together; what is replaced or removed counts no more."""
    monkeypatch.setattr(announced, "DETAILS_MAX", 1000)
    gateway = Named()
    kept = gateway.announced
    assert kept is not None

    def announce(size: int, mapped: int) -> Response:
        wrapper = table("t", "u", counter=1000 * size + mapped)
        wrapper["topicConfigTable"]["t"]["attributes"] = {"a": "x" * size}
        wrapper["topicQueueMappingInfoMap"] = {"t": {"topic": "t", "x": "y" * mapped}}
        body = {"topicConfigSerializeWrapper": wrapper}
        return gateway.ask(103, body, clusterName="C", brokerName="b", brokerAddr=A1, brokerId=0)

    for size, mapped in ((700, 100), (100, 700), (100, 100), (700, 100)):
        assert announce(size, mapped).code == 0
    for size, mapped in ((800, 200), (700, 300)):
        answer = announce(size, mapped)
        assert (answer.code, answer.remark) == (1, "1000 bytes of topics' names, attributes and mappings are kept")
    assert gateway.ask(217, {"queueDatas": [{"brokerName": "b"}]}, topic="w" * 500).code == 1
    gateway.service.closed(gateway.peer)
    assert kept._details == 0
    assert announce(800, 0).code == 0


def test_a_longer_body_is_let_in_for_an_announcement_alone() -> None:
    """A broker with many topics; everything else keeps to ``body_bytes_max``."""
    gateway = Named(RemotingSettings(body_bytes_max=100, announcement_bytes_max=2000))
    assert gateway.announce(A1, 0, *(f"topic-{number}" for number in range(10))).code == 0
    assert "too large" in (gateway.announce(A1, 0, *(f"topic-{number}" for number in range(50))).remark or "")
    assert "too large" in (gateway.ask(217, {"queueDatas": [], "x": "y" * 100}, topic="t").remark or "")


def test_a_topic_of_the_controller_s_is_deleted_with_its_route() -> None:
    """216, as ``mqadmin deleteTopic`` ends: it would else be told to brokers again."""
    gateway = Named()
    assert gateway.ask(17, topic="t", readQueueNums=1, writeQueueNums=1, perm=6).code == 0
    assert gateway.ask(216, topic="t", clusterName="other").code == 0
    assert "t" in gateway.controller.state.topics
    assert gateway.ask(216, topic="t").code == 0
    assert "t" not in gateway.controller.state.topics
    assert gateway.ask(216, topic="t").code == 0


def test_texts_are_keys_and_need_their_feature_level() -> None:
    """100 is refused by name below level 2, and is a key from it on."""
    gateway = Named()
    refused = gateway.ask(100, namespace="N", key="k", value="v")
    assert refused.code == 2005 and "needs feature level 2" in (refused.remark or "")
    stamp = Stamp(offset=0, term=1, time_ms=0, principal="", cause="")
    gateway.controller.state = evolve(gateway.controller.state, FeatureLevelChanged(old=1, new=2), stamp)
    assert gateway.ask(100, namespace="N", key="k", value="v").code == 0
    assert gateway.controller.state.keys.get(b"/rocketmq/kv/N/k") is not None
    assert gateway.ask(101, namespace="N", key="k").fields == {"value": "v"}
    assert json.loads(gateway.ask(219, namespace="N").body) == {"table": {"k": "v"}}


def ordered(gateway: Named, texts: int, size: int = 1) -> None:
    """So many ordered topics, each with a text of so many bytes."""
    pairs = [
        (name.encode(), KeyValue(key=name, value=b"v" * size, create_revision=1, mod_revision=1, version=1))
        for name in (f"/rocketmq/kv/ORDER_TOPIC_CONFIG/{number:06d}" for number in range(texts))
    ]
    gateway.controller.state = msgspec.structs.replace(gateway.controller.state, keys=finished(building(pairs)))


def test_the_ordered_topics_are_read_once_and_told_in_a_turn_that_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker is told all of them every 30 s: they are read anew when a key has changed, and no turn makes more
    than one long answer of them.
    """
    reads: list[bytes] = []
    items = OrderedMap.items

    def counted(keys: OrderedMap[KeyValue], start: bytes = b"", end: bytes | None = None) -> object:
        reads.append(start)
        return items(keys, start, end)

    gateway = Named()
    monkeypatch.setattr(OrderedMap, "items", counted)
    for texts, large in ((64, 0), (65, 128)):
        ordered(gateway, texts)
        told = [gateway.announce(A1, 0, "t", "u").body for _ in range(128)]
        assert [len(json.loads(body)["table"]) for body in (told[0], told[-1])] == [texts, texts]
        assert (len(reads), gateway.peer.large) == (1, large)
        reads.clear()
    assert len(json.loads(gateway.ask(219, namespace="ORDER_TOPIC_CONFIG").body)["table"]) == 65
    assert gateway.peer.large == 129


@pytest.mark.parametrize(("texts", "size"), [(101, 1), (3, 500)])
def test_a_namespace_that_no_frame_holds_is_told_to_nobody(
    monkeypatch: pytest.MonkeyPatch, texts: int, size: int
) -> None:
    """A peer would end its connection at such an answer; a broker is told the rest of what it asked."""
    monkeypatch.setattr(kv, "TEXTS_MAX", 100)
    monkeypatch.setattr(kv, "TEXT_BYTES_MAX", 1000)
    gateway = Named()
    ordered(gateway, texts, size)
    answer = gateway.ask(219, namespace="ORDER_TOPIC_CONFIG")
    assert (answer.code, answer.remark) == (1, "Namespace: ORDER_TOPIC_CONFIG is too large to be told")
    answer = gateway.announce(A1, 0, "t", "u")
    assert (answer.code, answer.body) == (0, b"")


def test_a_node_that_is_no_name_server_says_so() -> None:
    """``name_server`` off: each of these codes is not supported, as at Java's controller."""
    gateway = Named(RemotingSettings(name_server=False))
    for code in (*CODES, 318, 319):
        answer = gateway.ask(code)
        assert (answer.code, answer.remark) == (3, f" request type {code} not supported"), code


class Deaf(OpenAccess):
    """Lets nobody do anything."""

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        return False


def test_every_name_server_s_request_asks_the_access_hook() -> None:
    """Nothing is told and nothing taken of who is not permitted."""
    gateway = Gateway(access=Deaf())
    fields = {"clusterName": "C", "brokerName": "b", "brokerAddr": A1, "brokerId": 0, "topic": "t", "namespace": "N"}
    for code in CODES:
        assert gateway.ask(code, VERSION, key="k", value="v", **fields).code == 16, code


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"address": "somewhere"}, 2005),
        ({"address": "1:2:3:80"}, 2005),
        ({"address": "http://h:1"}, 2005),
        ({"haServerAddr": "somewhere"}, 2005),
        ({"haServerAddr": ""}, 0),
        ({"address": "[2001:db8::1]:10911", "haServerAddr": "[2001:db8::1]:10912"}, 0),
    ],
)
def test_addresses_that_are_none_are_not_announced(wrong: dict[str, Any], code: int) -> None:
    """A route would name them to clients, and a slave would copy from there; nothing of the announcement is kept."""
    gateway = Named()
    assert gateway.announced is not None
    said = gateway.announce(**{"address": "h:1", "broker_id": 0, **wrong})
    assert said.code == code
    assert len(gateway.announced) == (code == 0)
