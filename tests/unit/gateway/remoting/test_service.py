"""What each request code answers: codes, remarks, fields and bodies of the Java controller, over the real rules."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.controller.outcomes import Answered, Busy, NotLeader, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.errors import UsageError
from quorate.events import ClusterCreated, Stamp
from quorate.gateway.access import Access, Quota
from quorate.gateway.remoting.node_config import NodeConfig
from quorate.gateway.remoting.server import Connection
from quorate.gateway.remoting.service import _ROUTES, CONFIG_BYTES_MAX, RemotingService
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metadata.commands import ChangeConfig, ElectMaster, RegisterBroker
from quorate.metrics import Metrics
from quorate.model.evolve import evolve
from quorate.wire.remoting import (
    REQUEST_TYPES,
    FrameSplitter,
    HeaderType,
    HeartbeatRequest,
    Message,
    Response,
    decode_request,
    decode_response,
    encode_request,
)
from quorate.wire.remoting_headers import RequestCode
from tests.stand_ins import Heartbeat
from tests.unit.controller.bench import Bench
from tests.unit.gateway.remoting.fakes import AtOnce, InstantController

REJECTED = "Rejecting alter syncStateSet request"
A1, A2 = "127.0.0.1:30911", "127.0.0.1:30921"
SET = {"clusterName": "C", "brokerName": "b"}
ROOT = Path(__file__).resolve().parents[4]
PUSHED = {RequestCode.NOTIFY_BROKER_ROLE_CHANGED}
NODES = {1: "127.0.0.1:9878", 2: "127.0.0.1:9868", 3: "127.0.0.1:9858"}


class Peer(Connection):
    """A connection without a socket: keeps what it is answered."""

    def __init__(self) -> None:
        self.address = "127.0.0.1:5"
        self.last = None
        self.in_flight = 0
        self.caller = Connection.ANONYMOUS
        self.sent: list[Message | None] = []
        self.large = 0

    def answer(self, header_type: HeaderType, opaque: int, message: Message | None) -> None:
        self.sent.append(message)

    def later(self, make: Callable[[], None]) -> None:
        self.large += 1
        make()


class Gateway:
    """The service over the instant controller, spoken to in frames."""

    def __init__(self, settings: RemotingSettings | None = None, **more: object) -> None:
        self.controller = InstantController()
        self.metrics = Metrics()
        self.service = RemotingService(
            self.controller,
            AtOnce(self.controller),
            settings or RemotingSettings(),
            node_id=1,
            group="group1",
            addresses=NODES,
            now=self.controller.clock.monotonic,
            metrics=self.metrics,
            **more,  # type: ignore[arg-type]
        )
        self.peer = Peer()

    def raw(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", oneway: bool = False
    ) -> Message | None:
        (frame,) = FrameSplitter().feed(encode_request(code, 7, fields, body=body, oneway=oneway))
        request = decode_request(frame)
        if isinstance(request, HeartbeatRequest):
            return self.service.heartbeat(request, self.peer)
        before = len(self.peer.sent)
        self.service.handle(request, frame, self.peer)
        assert len(self.peer.sent) == before + 1, "exactly one answer"
        return self.peer.sent[-1]

    def ask(self, code: int, body: bytes | object = b"", /, **fields: object) -> Response:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        message = self.raw(code, {name: str(value) for name, value in fields.items()}, encoded)
        assert message is not None
        (frame,) = FrameSplitter().feed(message.frame(HeaderType.JSON, 7))
        return decode_response(frame)

    def beat(self, broker_id: int, address: str = A1, **more: object) -> None:
        fields = {"clusterName": "C", "brokerName": "b", "brokerId": broker_id, "brokerAddr": address, **more}
        assert self.ask(904, **fields).code == 0

    def boot(self, broker_id: int, address: str) -> None:
        """A broker's start as stock brokers do it, up to its heartbeat."""
        assert self.ask(1013, **SET, appliedBrokerId=broker_id, registerCheckCode=f"{address};1").code == 0
        assert self.ask(1003, **SET, brokerId=broker_id, brokerAddress=address).code == 0
        self.beat(broker_id, address)

    def pair(self) -> None:
        """Two brokers in sync, 1 is master."""
        self.boot(1, A1)
        assert self.ask(1002, **SET, brokerId=1).code == 0
        self.boot(2, A2)
        answer = self.ask(
            1001, {"syncStateSet": [1, 2], "syncStateSetEpoch": 1}, brokerName="b", masterBrokerId=1, masterEpoch=1
        )
        assert answer.code == 0


def test_every_request_is_served_compared_with_java_and_documented() -> None:
    """Each code but that of our own push has a route, is asked in a contract case, and stands in the table of codes."""
    served = set(REQUEST_TYPES) - PUSHED
    assert {code for code, kind in REQUEST_TYPES.items() if kind in (*_ROUTES, HeartbeatRequest)} == served
    calls = [
        node
        for file in ("cases.py", "names.py")
        for node in ast.walk(ast.parse((ROOT / "tests/contract" / file).read_text()))
        if isinstance(node, ast.Call)
    ]
    asked = {arg.value for call in calls for arg in call.args if isinstance(arg, ast.Constant)}
    assert served - asked == set()
    (table,) = re.findall(r"\| code \| what.*?\n\n", (ROOT / "docs/remoting.md").read_text(), re.DOTALL)
    rows = re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(",")} - PUSHED == served


def said(answer: Response) -> tuple[int, str | None, dict[str, str], object]:
    """Everything an answer says."""
    return answer.code, answer.remark, answer.fields, json.loads(answer.body) if answer.body else None


def test_a_channel_is_known_by_the_registered_broker_last_heard_on_it() -> None:
    """A heartbeat alone makes nobody known: the broker must be registered, at that address, and heard nowhere else."""
    gateway = Gateway()
    gateway.beat(1)
    assert not gateway.service.knows(gateway.peer)
    assert gateway.ask(1013, **SET, appliedBrokerId=1, registerCheckCode=f"{A1};1").code == 0
    gateway.beat(1)
    assert not gateway.service.knows(gateway.peer)
    assert gateway.ask(1003, **SET, brokerId=1, brokerAddress=A1).code == 0
    assert gateway.service.knows(gateway.peer)
    gateway.beat(1, A2)
    assert not gateway.service.knows(gateway.peer)
    gateway.beat(1, A1)
    first, gateway.peer = gateway.peer, Peer()
    gateway.beat(1, A1)
    assert (gateway.service.knows(first), gateway.service.knows(gateway.peer)) == (False, True)


def test_the_life_of_a_pair_is_answered_as_by_java() -> None:
    """Id, registration, election, growth of the sync state set: as recorded from the Java controller."""
    gateway = Gateway()
    assert said(gateway.ask(1012, **SET)) == (0, None, {**SET, "nextBrokerId": "1"}, None)
    assert said(gateway.ask(1013, **SET, appliedBrokerId=1, registerCheckCode=f"{A1};1")) == (0, None, SET, None)
    empty = {"syncStateSet": [], "syncStateSetEpoch": 0}
    assert said(gateway.ask(1003, **SET, brokerId=1, brokerAddress=A1)) == (0, None, SET, empty)
    master = {"masterBrokerId": "1", "masterAddress": A1, "masterEpoch": "1", "syncStateSetEpoch": "1"}
    group = {"brokerAddrs": {"1": A1}, "brokerName": "b", "cluster": "C"}
    first = {"brokerMemberGroup": group, "syncStateSet": [1]}
    assert said(gateway.ask(1002, **SET, brokerId=1, designateElect="false")) == (0, None, master, first)
    info = {"masterBrokerId": "1", "masterAddress": A1, "masterEpoch": "1"}
    one = {"syncStateSet": [1], "syncStateSetEpoch": 1}
    assert said(gateway.ask(1004, brokerName="b")) == (0, None, info, one)
    gateway.beat(1)
    assert said(gateway.ask(1012, **SET))[2]["nextBrokerId"] == "2"
    gateway.boot(2, A2)
    assert said(gateway.ask(1003, **SET, brokerId=2, brokerAddress=A2)) == (0, None, {**SET, **master}, one)
    two = {"syncStateSet": [1, 2], "syncStateSetEpoch": 1}
    answer = gateway.ask(1001, two, brokerName="b", masterBrokerId=1, masterEpoch=1)
    assert said(answer) == (0, None, {"newSyncStateSetEpoch": "2"}, {**two, "syncStateSetEpoch": 2})
    replicas = [
        {"alive": True, "brokerAddress": address, "brokerId": number, "brokerName": "b"}
        for number, address in ((1, A1), (2, A2))
    ]
    table = {
        "inSyncReplicas": replicas, "notInSyncReplicas": [], "masterAddress": A1, "masterBrokerId": 1, "masterEpoch": 1,
        "syncStateSetEpoch": 2,
    }  # fmt: skip
    assert said(gateway.ask(1006, ["b", "nobody", "b"])) == (0, None, {}, {"replicasInfoTable": {"b": table}})


def test_the_master_that_stays_is_told_with_its_data() -> None:
    """2011 carries header and set, and no member group."""
    gateway = Gateway()
    gateway.pair()
    code, remark, fields, body = said(gateway.ask(1002, **SET, brokerId=2))
    assert (code, remark) == (2011, "The old master 1 is still alive, not need to elect new master for broker b")
    assert fields == {"masterBrokerId": "1", "masterAddress": A1, "masterEpoch": "1", "syncStateSetEpoch": "2"}
    assert body == {"syncStateSet": [1, 2]}


def test_designating_switches_over_and_is_recorded_as_admin() -> None:
    """``mqadmin electMaster``: a healthy in-sync target becomes master."""
    gateway = Gateway()
    gateway.pair()
    code, _, fields, body = said(gateway.ask(1002, **SET, brokerId=2, designateElect="true"))
    assert (code, fields["masterBrokerId"], fields["masterEpoch"]) == (0, "2", "2")
    assert body == {
        "brokerMemberGroup": {"brokerAddrs": {"1": A1, "2": A2}, "brokerName": "b", "cluster": "C"},
        "syncStateSet": [2],
    }
    command = gateway.controller.submitted[-1][0]
    assert isinstance(command, ElectMaster)
    assert (command.trigger, command.designate) == ("admin", True)


def test_an_election_nobody_asked_for_and_nobody_wins_is_2004() -> None:
    """Id -1: recorded, and answered with an error and nothing else."""
    gateway = Gateway()
    gateway.pair()
    for number in (1, 2):
        gateway.controller.dies("C", "b", number)
    answer = said(gateway.ask(1002, **SET, brokerId=-1))
    assert answer == (2004, "Old master has down and failed to elect a new broker master", {}, None)
    assert said(gateway.ask(1002, **SET, brokerId=2)) == (2012, "Failed to elect a new master", {}, None)


@pytest.mark.parametrize(
    ("alter", "code", "remark"),
    [
        ({"brokerName": "nobody"}, 2013, "Broker metadata is not existed"),
        ({"set": [1, 2]}, 2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"),
        ({"masterBrokerId": 2}, 2002, f"{REJECTED} because the current leader is:{{1}}, not {{2}}"),
        ({"masterBrokerId": None}, 2002, f"{REJECTED} because the current leader is:{{1}}, not {{null}}"),
        ({"masterEpoch": 7}, 2000, f"{REJECTED} because the current master epoch is:{{1}}, not {{7}}"),
        ({"epoch": 1}, 2001, f"{REJECTED} because the current syncStateSet epoch is:{{2}}, not {{1}}"),
        ({"set": [1, 9]}, 2003, f"{REJECTED} because the replicas {{9}} don't exist"),
        ({"set": [2]}, 2013, f"{REJECTED} because the newSyncStateSet don't contains origin leader {{1}}"),
    ],
)  # fmt: skip
def test_a_refused_alter_carries_epoch_0_and_java_s_remark(alter: dict[str, object], code: int, remark: str) -> None:
    """Java's checks in Java's words; the header is there even so, and nothing was written."""
    gateway = Gateway()
    gateway.pair()
    before = len(gateway.controller.events)
    fields: dict[str, object] = {"brokerName": "b", "masterBrokerId": 1, "masterEpoch": 1}
    fields |= {name: alter[name] for name in fields if name in alter}
    body = {"syncStateSet": alter.get("set", [1]), "syncStateSetEpoch": alter.get("epoch", 2)}
    assert said(gateway.ask(1001, body, **fields)) == (code, remark, {"newSyncStateSetEpoch": "0"}, None)
    assert len(gateway.controller.events) == before


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"syncStateSet":null}', b"null", b"\xff"])
def test_an_alter_without_a_readable_body_is_code_1(body: bytes) -> None:
    """Java: an exception in the handler; no header, nothing written."""
    gateway = Gateway()
    gateway.pair()
    before = len(gateway.controller.events)
    answer = gateway.ask(1001, body, brokerName="b", masterBrokerId=1, masterEpoch=1)
    assert (answer.code, answer.fields, answer.body) == (1, {}, b"")
    assert answer.remark
    assert len(gateway.controller.events) == before


def test_refused_registrations_still_name_the_set() -> None:
    """2010 and 2014 carry clusterName and brokerName, as Java's result objects do."""
    gateway = Gateway()
    assert said(gateway.ask(1003, **SET, brokerId=1, brokerAddress=A1)) == (
        2010, "Broker-set: b hasn't been registered in controller", SET, None,
    )  # fmt: skip
    assert said(gateway.ask(1013, **SET, appliedBrokerId=2, registerCheckCode="x;1")) == (
        2014, "Broker-set: b hasn't been registered in controller, but broker try to apply brokerId: 2", SET, None,
    )  # fmt: skip
    gateway.boot(1, A1)
    assert said(gateway.ask(1003, **SET, brokerId=9, brokerAddress=A1)) == (
        2010, "BrokerId: 9 hasn't been registered in broker-set: b", SET, None,
    )  # fmt: skip
    assert said(gateway.ask(1013, **SET, appliedBrokerId=1, registerCheckCode="other;1")) == (
        2014, "Fail to apply brokerId: 1 in broker-set: b", SET, None,
    )  # fmt: skip
    assert gateway.ask(1013, **SET, appliedBrokerId=1, registerCheckCode=f"{A1};1").code == 0, "idempotent"


def test_an_application_without_its_fields_is_code_1() -> None:
    """Java: a NullPointerException; here a remark that names them, and no header."""
    code, remark, fields, _ = said(Gateway().ask(1013, **SET))
    assert (code, fields) == (1, {})
    assert remark == "appliedBrokerId and registerCheckCode are needed"


@pytest.mark.parametrize("code", [1001, 1003, 1004, 1011, 1012, 1013])
def test_a_request_without_its_set_is_code_1(code: int) -> None:
    """Java: a NullPointerException; nothing is submitted."""
    gateway = Gateway()
    body = b'{"syncStateSet":[1]}' if code == 1001 else b""
    assert said(gateway.ask(code, body, brokerId=1)) == (1, "brokerName is missing", {}, None)
    assert gateway.controller.submitted == []


def test_a_registration_without_an_id_is_code_1() -> None:
    """Java: a NullPointerException; nothing is submitted."""
    gateway = Gateway()
    assert said(gateway.ask(1003, **SET, brokerAddress=A1)) == (1, "brokerId is missing", {}, None)
    assert gateway.controller.submitted == []


def test_unknown_sets_have_no_replica_info() -> None:
    """2008, without a header."""
    assert said(Gateway().ask(1004, brokerName="b")) == (2008, "Broker metadata is not existed", {}, None)


def test_replica_info_follows_every_change() -> None:
    """The kept bytes are used only for the very value they encode."""
    gateway = Gateway()
    gateway.pair()
    first = gateway.raw(1004, {"brokerName": "b"})
    assert gateway.raw(1004, {"brokerName": "b"}) is first
    gateway.ask(1002, **SET, brokerId=2, designateElect="true")
    assert gateway.ask(1004, brokerName="b").fields["masterBrokerId"] == "2"
    gateway.ask(1011, **SET, isCleanLivingBroker="true")
    assert gateway.ask(1004, brokerName="b").code == 2008


@pytest.mark.parametrize("body", [b"", b"[]", b"null"])
def test_sync_state_data_of_nothing_is_code_1(body: bytes) -> None:
    """Java's processor falls through to "no code"."""
    assert said(Gateway().ask(1006, body)) == (1, "not set any response code", {}, None)


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"[", b"\xff"])
def test_unreadable_names_are_code_1(body: bytes) -> None:
    """A typed error, not a closed connection."""
    answer = Gateway().ask(1006, body)
    assert answer.code == 1
    assert answer.remark
    assert answer.remark.startswith("body: ")


def test_cleaning_speaks_java_s_words() -> None:
    """2009 with its three remarks, then success with neither header nor body."""
    gateway = Gateway()
    gateway.pair()
    assert said(gateway.ask(1011, **SET)) == (2009, "Broker b is still alive, clean up failure", {}, None)
    assert said(gateway.ask(1011, **SET, brokerControllerIdsToClean="2"))[:2] == (
        2009, "Broker [b,  2] is still alive, clean up failure",
    )  # fmt: skip
    assert said(gateway.ask(1011, clusterName="C", brokerName="x"))[:2] == (
        2009, "Broker x is not existed,clean broker data failure.",
    )  # fmt: skip
    gateway.controller.dies("C", "b", 2)
    assert said(gateway.ask(1011, **SET, brokerControllerIdsToClean="2")) == (0, None, {}, None)


def test_any_node_tells_who_leads_and_no_node_invents_a_leader() -> None:
    """1005 with a leader, without one, and of a leader outside the configured nodes."""
    gateway = Gateway()
    peers = "n1:127.0.0.1:9878;n2:127.0.0.1:9868;n3:127.0.0.1:9858;"
    assert gateway.ask(1005).fields == {
        "group": "group1", "controllerLeaderId": "n1", "controllerLeaderAddress": NODES[1], "isLeader": "true",
        "peers": peers,
    }  # fmt: skip
    gateway.controller.is_leader = False
    gateway.controller.leader_id = 3
    assert gateway.ask(1005).fields["controllerLeaderAddress"] == NODES[3]
    for unknown in (None, 9):
        gateway.controller.leader_id = unknown
        assert gateway.ask(1005).fields == {"group": "group1", "isLeader": "false", "peers": peers}


def test_brokers_are_spread_over_the_nodes_that_are_connected() -> None:
    """With ``spread_brokers`` each broker is told its own node, the same by every node that reaches the same ones; a
    node that is gone moves its own brokers alone; tools are told the leader, and nobody is told more without a proof.
    """
    connected = {1, 2, 3}

    def told(broker_id: int) -> str:
        gateway = Gateway(RemotingSettings(spread_brokers=True), connected=connected.__contains__)
        gateway.controller.leader_id, gateway.controller.is_leader = 2, False
        assert gateway.ask(1005).fields["controllerLeaderAddress"] == NODES[2]
        gateway.peer.last = None
        gateway.beat(broker_id)
        fields = gateway.ask(1005).fields
        assert fields["isLeader"] == "false"
        gateway.controller.proof = Unavailable("no majority")
        assert "controllerLeaderAddress" not in gateway.ask(1005).fields
        return fields["controllerLeaderAddress"]

    before = [told(broker_id) for broker_id in range(1, 40)]
    assert set(before) == {NODES[1], NODES[2], NODES[3]}
    connected.remove(3)
    after = [told(broker_id) for broker_id in range(1, 40)]
    assert set(after) == {NODES[1], NODES[2]}
    assert all(10 <= before.count(address) <= 16 for address in NODES.values()), "names of one length, a third each"
    assert all(then == now for then, now in zip(before, after, strict=True) if then != NODES[3])


def test_brokers_are_not_spread_over_nodes_that_send_them_on() -> None:
    """The two settings contradict each other."""
    with pytest.raises(UsageError, match="forward_to_leader"):
        RemotingSettings(spread_brokers=True, forward_to_leader=False)


def test_a_leader_that_does_not_prove_itself_is_not_advertised() -> None:
    """A paused or cut-off node must not send brokers to itself, nor to a leader that is gone."""
    gateway = Gateway()
    for leads, leader in ((True, 1), (False, 2)):
        gateway.controller.is_leader, gateway.controller.leader_id = leads, leader
        for outcome in (Unavailable("no majority"), Busy("full")):
            gateway.controller.proof = outcome
            fields = gateway.ask(1005).fields
            assert (fields.get("controllerLeaderAddress"), fields["isLeader"]) == (None, "false")
        gateway.controller.proof = None
        assert gateway.ask(1005).fields["controllerLeaderAddress"] == NODES[leader]


def test_replica_info_of_a_leader_that_is_none_any_more_is_2007() -> None:
    """The read could not be confirmed: nothing is said about the set."""
    gateway = Gateway()
    gateway.pair()
    for said_instead in (Unavailable("no majority"), NotLeader(3)):
        gateway.controller.view_with = said_instead
        assert gateway.ask(1004, brokerName="b").code == 2007


def test_heartbeats_with_endless_names_are_refused() -> None:
    """The live table keeps names, so they are bounded; nothing is kept of this one."""
    gateway = Gateway()
    answer = gateway.ask(904, clusterName="C", brokerName="x" * 1025, brokerId=1, brokerAddr=A1)
    assert (answer.code, answer.remark) == (2005, "Heart beat with names that are too long")
    assert len(gateway.controller.live) == 0


def test_a_follower_forwards_unless_told_not_to() -> None:
    """forward_to_leader=False is Java's behaviour: 2007 to everything but 904, 1005, 1009 and 1010."""
    for forward in (True, False):
        gateway = Gateway(RemotingSettings(forward_to_leader=forward))
        gateway.controller.is_leader = False
        gateway.controller.leader_id = 2
        for code in (1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013):
            answer = gateway.ask(
                code, {"syncStateSet": [1]} if code == 1001 else ["b"] if code == 1006 else b"", **SET, brokerId=1
            )
            if forward:
                assert answer.code != 2007
            else:
                assert said(answer) == (2007, "The controller is not in leader state", {}, None)
        assert gateway.ask(1005).code == 0
        assert gateway.ask(1010).code == 0
        gateway.beat(1)


@pytest.mark.parametrize(
    ("outcome", "code", "remark"),
    [
        (NotLeader(2), 2007, "The controller is not in leader state"),
        (Unavailable("no leader in time"), 2007, "The controller is not in leader state"),
        (Busy("full"), 2, "[OVERLOAD]system busy, start flow control for a while"),
        (UnknownOutcome("proposed"), 1, "unknown outcome: proposed"),
    ],
)
def test_what_is_known_decides_the_code(outcome: Outcome, code: int, remark: str) -> None:
    """2007 only where provably nothing was proposed; a proposed command that timed out says so."""
    gateway = Gateway()
    gateway.controller.answer_with = outcome
    assert said(gateway.ask(1003, **SET, brokerId=1)) == (code, remark, {}, None)
    if not isinstance(outcome, UnknownOutcome):
        assert not isinstance(outcome, Answered | Refused)
        gateway.controller.view_with = outcome
        assert said(gateway.ask(1012, **SET)) == (code, remark, {}, None)


@pytest.mark.parametrize("code", [0, 1, 1000, 1007, 1008, 1014, 1018, 51001, -3])
def test_other_codes_are_not_supported(code: int) -> None:
    """Code 3 and Java's remark, leading space included."""
    assert said(Gateway().ask(code)) == (3, f" request type {code} not supported", {}, None)


def test_oneway_requests_are_done_and_not_answered() -> None:
    """The command is submitted; the answer is nothing."""
    gateway = Gateway()
    fields = {**SET, "appliedBrokerId": "1", "registerCheckCode": "x;1"}
    assert gateway.raw(1013, fields, oneway=True) is None
    assert len(gateway.controller.events) == 1


def test_a_body_beyond_the_limit_is_code_1() -> None:
    """Nothing is submitted."""
    gateway = Gateway(RemotingSettings(body_bytes_max=10))
    answer = gateway.ask(1001, b"x" * 11, brokerName="b")
    assert (answer.code, answer.remark) == (1, "a body of 11 bytes is too large")
    assert gateway.controller.submitted == []


def test_heartbeats_update_the_live_table_only() -> None:
    """904 with everything, with the least, and without an id; nothing is ever submitted for it."""
    gateway = Gateway()
    gateway.beat(1, epoch=3, maxOffset=500, confirmOffset=400, heartbeatTimeoutMills=3000, electionPriority=7)
    gateway.beat(2)
    live = gateway.controller.live
    full, least = live.get("C", "b", 1), live.get("C", "b", 2)
    assert full is not None
    assert least is not None
    assert (full.epoch, full.max_offset, full.confirm_offset, full.timeout_s, full.priority) == (3, 500, 400, 3.0, 7)
    assert (least.epoch, least.max_offset, least.timeout_s, least.priority) == (-1, -1, 10.0, 2**31 - 1)
    assert full.channel is gateway.peer
    assert said(gateway.ask(904, clusterName="C", brokerName="b")) == (2005, "Heart beat with empty brokerId", {}, None)
    assert gateway.controller.submitted == []


def test_registration_keeps_what_the_body_says() -> None:
    """Capabilities and topics of a 1003 body reach the command; a broken body is code 1."""
    gateway = Gateway()
    gateway.boot(1, A1)
    body = {"capabilities": {"asyncLearner": "true"}, "topics": ["T"], "later": 1}
    assert gateway.ask(1003, body, **SET, brokerId=1, brokerAddress=A1).code == 0
    command = gateway.controller.submitted[-1][0]
    assert isinstance(command, RegisterBroker)
    assert (command.capabilities, command.topics) == ({"asyncLearner": "true"}, ("T",))
    assert gateway.ask(1003, b"[", **SET, brokerId=1, brokerAddress=A1).code == 1


class Levelled(Gateway):
    """In a cluster of feature level 2, with the broker 1 of a set."""

    def __init__(self, settings: RemotingSettings | None = None) -> None:
        super().__init__(settings)
        created = ClusterCreated(cluster_id="c", voters=(), feature_level=2)
        self.controller.state = evolve(self.controller.state, created, Stamp(offset=0, term=1, time_ms=1))
        self.controller.events.append(created)
        assert self.ask(1013, **SET, appliedBrokerId=1, registerCheckCode=f"{A1};1").code == 0

    def register(self, epoch: int) -> Response:
        return self.ask(1003, **SET, brokerId=1, brokerAddress=A1, registrationEpoch=epoch)


def test_a_broker_is_told_the_epoch_of_its_life_and_an_older_life_is_refused() -> None:
    """1003, 904 and 1011 that say which life they come from; one that says nothing is answered as by Java."""
    gateway = Levelled()
    assert gateway.ask(1003, **SET, brokerId=1, brokerAddress=A1).fields == SET
    first, second = (int(gateway.register(0).fields["registrationEpoch"]) for _ in range(2))
    assert second > first > 0
    beat = {**SET, "brokerId": 1, "brokerAddr": A1}
    late = gateway.ask(904, **beat, registrationEpoch=first)
    assert (late.code, late.remark) == (
        2014, f"StaleRegistrationEpoch: the broker registered again, in the epoch {second}"
    )  # fmt: skip
    assert len(gateway.controller.live) == 0
    assert gateway.ask(904, **beat, registrationEpoch=second).code == 0
    assert gateway.ask(904, **beat).code == 0
    assert gateway.register(first).code == 2014
    assert gateway.register(second).fields["registrationEpoch"] == str(second)
    clean = {**SET, "brokerControllerIdsToClean": "1", "isCleanLivingBroker": "true"}
    assert gateway.ask(1011, **clean, registrationEpoch=first).code == 2014
    assert gateway.ask(1011, **clean, registrationEpoch=second).code == 0


def test_by_the_setting_every_broker_says_which_life_it_is() -> None:
    """``registration_epochs_required``: 1003 and 904 without an epoch are refused and change nothing; 1011 is not, for
    tools clean too.
    """
    gateway = Levelled(RemotingSettings(registration_epochs_required=True))
    before = list(gateway.controller.events)
    for code, where in ((1003, {"brokerAddress": A1}), (904, {"brokerAddr": A1})):
        answer = gateway.ask(code, **SET, brokerId=1, **where)
        assert (answer.code, answer.remark) == (
            2005, "registrationEpoch is missing; a broker registers with 0 and is told its own"
        )  # fmt: skip
    assert (gateway.controller.events, len(gateway.controller.live)) == (before, 0)
    epoch = gateway.register(0).fields["registrationEpoch"]
    assert gateway.ask(904, **SET, brokerId=1, brokerAddr=A1, registrationEpoch=epoch).code == 0
    assert gateway.ask(1011, **SET, brokerControllerIdsToClean="1", isCleanLivingBroker="true").code == 0


def test_every_mutation_names_its_caller_and_cause() -> None:
    """Principal and address of the connection, and the request's name."""
    gateway = Gateway()
    gateway.ask(1013, **SET, appliedBrokerId=1, registerCheckCode="x;1")
    _, caller, cause = gateway.controller.submitted[0]
    assert (caller, cause) == (Connection.ANONYMOUS, "CONTROLLER_APPLY_BROKER_ID")


class Nobody:
    """Permits one operation."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self.asked: list[tuple[str, str, str]] = []

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        self.asked.append((principal, operation, resource))
        return operation == self._operation

    def admit(self, principal: str, operation: str) -> bool:
        return operation == self._operation


def test_every_request_asks_the_access_hook() -> None:
    """What is not permitted is answered 16 and does nothing; 1005 is open, or nobody could find the leader."""
    hook: Access = Nobody("NextBrokerId")
    gateway = Gateway(access=hook)
    assert gateway.ask(1012, **SET).code == 0
    for code in (17, 21, 215, 351, 904, 1001, 1002, 1003, 1004, 1006, 1009, 1010, 1011, 1013):
        body = b'{"syncStateSet":[1]}' if code == 1001 else b'["b"]' if code == 1006 else b"mappedFileSize=1"
        body = b"" if code == 1003 else body
        fields = {**SET, "brokerId": 1, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topic": "T"}
        assert said(gateway.ask(code, body, **fields)) == (16, "not permitted", {}, None), code
    assert gateway.controller.submitted == []
    assert len(gateway.controller.live) == 0


def test_every_request_but_heartbeats_asks_the_quota_hook() -> None:
    """Too many is 2, flow control in Java's words."""
    hook: Quota = Nobody("NextBrokerId")
    gateway = Gateway(quota=hook)
    assert gateway.ask(1012, **SET).code == 0
    answer = gateway.ask(1004, brokerName="b")
    assert (answer.code, answer.remark) == (2, "[OVERLOAD]system busy, start flow control for a while")
    gateway.beat(1)


def test_topics_are_created_changed_read_listed_and_deleted() -> None:
    """17, 351, 21, 215 with RocketMQ's own fields and bodies."""
    gateway = Gateway()
    created = {
        "topic": "T", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false", "attributes": "+message.type=FIFO",
    }  # fmt: skip
    assert said(gateway.ask(17, **created)) == (0, None, {}, None)
    topic = {
        "attributes": {"message.type": "FIFO"}, "order": False, "perm": 6, "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG", "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 4,
    }  # fmt: skip
    assert said(gateway.ask(351, topic="T")) == (0, None, {}, topic)
    code, _, fields, body = said(gateway.ask(21))
    assert isinstance(body, dict)
    assert (code, fields, body["topicConfigTable"]) == (0, {"totalTopicNum": "1"}, {"T": topic})
    assert body["dataVersion"]["counter"] == 1
    assert said(gateway.ask(215, topic="T")) == (0, None, {}, None)
    assert said(gateway.ask(351, topic="T")) == (17, "No topic in this broker. topic: T", {}, None)


@pytest.mark.parametrize(
    ("change", "code", "remark"),
    [
        (
            {"topic": "a b"},
            29,
            "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ({"topic": ""}, 29, "The specified topic is blank."),
        ({"attributes": "message.type=FIFO"}, 1, "add/alter attribute format is wrong: message.type"),
        ({"attributes": "x"}, 1, "delete attribute format is wrong: x"),
        ({"attributes": "+a=1,+a=2"}, 1, "key duplication: +a"),
        ({"attributes": "+a="}, 1, "attribute without a value: +a"),
        ({"readQueueNums": "x"}, 1, "readQueueNums, writeQueueNums and perm are needed"),
    ],
)
def test_bad_topics_are_refused(change: dict[str, str], code: int, remark: str) -> None:
    """RocketMQ's codes and remarks; nothing written."""
    gateway = Gateway()
    fields = {"topic": "T", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", **change}
    assert said(gateway.ask(17, **fields)) == (code, remark, {}, None)
    assert gateway.controller.events == []


def test_what_grows_with_the_cluster_is_answered_in_its_own_turn() -> None:
    """21 and 1006, at any level: a thousand of them may be known in one turn; small answers are made at once."""
    gateway = Gateway()
    gateway.pair()
    for fields in ({}, {"level": "stale"}):
        assert gateway.ask(21, **fields).code == 0
        assert gateway.ask(1006, ["b"], **fields).code == 0
    assert gateway.peer.large == 4
    assert gateway.ask(1004, brokerName="b").code == 0
    assert gateway.peer.large == 4


def test_the_list_of_topics_is_encoded_once_until_something_happens() -> None:
    """It may be asked for thousands of times a second; what it says is never older than the state."""
    gateway = Gateway()
    topic = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    gateway.ask(17, topic="T", **topic)
    first = gateway.raw(21)
    assert gateway.raw(21) is first
    gateway.ask(17, topic="U", **topic)
    assert set(json.loads(gateway.ask(21).body)["topicConfigTable"]) == {"T", "U"}
    gateway.ask(215, topic="T")
    assert set(json.loads(gateway.ask(21).body)["topicConfigTable"]) == {"U"}


def test_all_topics_are_told_at_once() -> None:
    """RocketMQ knows no pages here."""
    gateway = Gateway()
    for number in range(7):
        gateway.ask(17, topic=f"T{number}", readQueueNums=1, writeQueueNums=1, perm=6)
    _, _, fields, body = said(gateway.ask(21))
    assert isinstance(body, dict)
    assert sorted(body["topicConfigTable"]) == [f"T{number}" for number in range(7)]
    assert fields == {"totalTopicNum": "7"}


def shown(gateway: Gateway) -> dict[str, str]:
    """The lines 1010 answers."""
    lines = gateway.ask(1010).body.decode().splitlines()
    assert lines == sorted(lines)
    return dict(line.split("=", 1) for line in lines)


def test_config_is_shown_changed_and_kept_in_the_log() -> None:
    """1009 for a live switch: shown by 1010, in the log under the node's scope, in force for elections."""
    gateway = Gateway()
    assert shown(gateway)["enableElectUncleanMaster"] == "false"
    assert shown(gateway)["controllerDLegerPeers"] == "n1-127.0.0.1:9878;n2-127.0.0.1:9868;n3-127.0.0.1:9858"
    body = b"enableElectUncleanMaster=TRUE\nprocessReadEvent=true\nscanNotActiveBrokerInterval=4000\n"
    assert said(gateway.ask(1009, body)) == (0, None, {}, None)
    changes = {"enableElectUncleanMaster": "true", "processReadEvent": "true", "scanNotActiveBrokerInterval": "4000"}
    assert gateway.controller.submitted[-1][0] == ChangeConfig(scope="node/1", changes={**changes})
    now = shown(gateway)
    assert (now["enableElectUncleanMaster"], now["isProcessReadEvent"]) == ("true", "true")
    assert now["scanNotActiveBrokerInterval"] == "4000"


@pytest.mark.parametrize("body", [b"", b"# nothing\n", b"noSuchKey=1\n", b"mappedFileSize=many\n"])
def test_what_java_ignores_in_silence_is_success_and_no_event(body: bytes) -> None:
    """Null body, unknown keys, unparsable numbers."""
    gateway = Gateway()
    assert said(gateway.ask(1009, body)) == (0, None, {}, None)
    assert gateway.controller.submitted == []


@pytest.mark.parametrize("key", ["configBlackList", "configStorePath", "rocketmqHome", "mine"])
def test_black_listed_keys_are_refused_with_everything_beside_them(key: str) -> None:
    """16, and not one of the changes is made."""
    gateway = Gateway(facts={"configBlackList": "configBlackList;mine"})
    answer = said(gateway.ask(1009, f"mappedFileSize=5\n{key}=x\n".encode()))
    assert answer == (16, "Can not update config in black list.", {}, None)
    assert gateway.controller.submitted == []


def test_unreadable_properties_are_code_1() -> None:
    """A bad escape, as java.util.Properties refuses it."""
    assert said(Gateway().ask(1009, rb"a=\u12")) == (1, "string2Properties error", {}, None)


@pytest.mark.parametrize("code", [1009, 318])
def test_settings_are_read_for_those_who_may_change_them(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A text is long in the reading: what is refused, or too long, is not read. One change takes one of a quota."""
    read: list[str] = []

    def counted(config: NodeConfig, text: str) -> dict[str, str | None]:
        read.append(text)
        return {"mappedFileSize": "5"}

    monkeypatch.setattr(NodeConfig, "changes", counted)
    body = b"mappedFileSize=5"
    assert said(Gateway(access=Nobody("")).ask(code, body)) == (16, "not permitted", {}, None)
    assert Gateway(quota=Nobody("")).ask(code, body).code == 2
    assert Gateway().ask(code, body + b" " * CONFIG_BYTES_MAX).remark == "a body of 131088 bytes is too large"
    assert read == []
    asked: list[str] = []

    class Quotas:
        def admit(self, principal: str, operation: str) -> bool:
            asked.append(operation)
            return True

    assert Gateway(quota=Quotas()).ask(code, body).code == 0
    assert (read, asked) == (["mappedFileSize=5"], ["ChangeConfig"])


def test_requests_are_counted_by_name_and_status() -> None:
    """RocketMQ's request_total and request_latency; a heartbeat touches no metric object."""
    gateway = Gateway()
    gateway.ask(1012, **SET)
    gateway.ask(1006, b"")
    gateway.ask(4711)
    gateway.beat(1)
    assert gateway.metrics.requests == {
        (RequestCode.CONTROLLER_GET_NEXT_BROKER_ID.name, "success"): 1,
        (RequestCode.CONTROLLER_GET_SYNC_STATE_DATA.name, "failed"): 1,
        ("UNKNOWN", "success"): 1,
    }
    assert sum(gateway.metrics.request_us["UNKNOWN"].counts) == 1


def test_a_command_without_an_answer_in_time_is_counted_as_a_timeout() -> None:
    """Neither success nor failure: its entry is proposed, the bound passes, and it is told code 1, outcome unknown."""
    bench, metrics, peer = Bench(), Metrics(), Peer()
    bench.open()
    service = RemotingService(
        bench.controller,
        AtOnce(bench.controller),
        RemotingSettings(),
        node_id=1,
        group="group1",
        addresses=NODES,
        now=bench.loop.monotonic,
        metrics=metrics,
    )
    (frame,) = FrameSplitter().feed(
        encode_request(1013, 7, {**SET, "appliedBrokerId": "1", "registerCheckCode": "x;1"})
    )
    service.handle(decode_request(frame), frame, peer)
    bench.after(2.0)
    assert (peer.sent, metrics.requests) == ([], {})
    bench.after(1.0)
    (answer,) = peer.sent
    assert answer is not None
    assert (answer.code, answer.remark) == (1, "unknown outcome: no answer in time; proposed")
    assert metrics.requests == {(RequestCode.CONTROLLER_APPLY_BROKER_ID.name, "timeout"): 1}


def test_a_closed_connection_is_told_to_the_controller() -> None:
    """The live table decides what it means."""
    gateway = Gateway()
    gateway.controller.heartbeat(Heartbeat("C", "b", 1, A1), gateway.peer)
    gateway.service.closed(gateway.peer)
    assert gateway.controller.closed_channels == [gateway.peer]


def test_a_broker_that_asks_is_told_of_its_set() -> None:
    """Role, members, settings in force for the set, who leads; beside Java's fields, and only to who asks."""
    gateway = Gateway()
    gateway.boot(1, A1)
    told = gateway.ask(1003, **SET, brokerId=1, brokerAddress=A1, withTopology="true").fields
    leader = {"controllerLeaderId": "n1", "controllerLeaderAddress": NODES[1]}
    members, settings = json.loads(told.pop("members")), json.loads(told.pop("configuration"))
    assert (told, members) == ({**SET, **leader, "role": ""}, {"1": A1})
    assert settings == {"enableElectUncleanMaster": "false", "notifyBrokerRoleChanged": "true"}
    assert gateway.ask(1002, **SET, brokerId=1).code == 0
    gateway.boot(2, A2)
    for scope, name, value in (
        ("broker-set/b", "learners", "2"),
        ("controller", "mappedFileSize", "5"),
        ("controller", "enableElectUncleanMaster", "true"),
        ("node/1", "notifyBrokerRoleChanged", "false"),
    ):
        change = ChangeConfig(scope=scope, changes={name: value})
        gateway.controller.submit(change, gateway.peer.caller, lambda _: None, cause="", forward=True)
    told = gateway.ask(1003, **SET, brokerId=2, brokerAddress=A2, withTopology="TRUE").fields
    assert (told["role"], json.loads(told["members"])) == ("slave", {"1": A1, "2": A2})
    in_force = {"enableElectUncleanMaster": "true", "notifyBrokerRoleChanged": "true"}
    assert json.loads(told["configuration"]) == {"learners": "2", **in_force}, "node/1 does not lead"
    assert (told["masterBrokerId"], told["masterAddress"]) == ("1", A1)
    assert gateway.ask(1003, **SET, brokerId=1, brokerAddress=A1, withTopology="true").fields["role"] == "master"
    stock = gateway.ask(1003, **SET, brokerId=2, brokerAddress=A2).fields
    assert set(told) - set(stock) == {*leader, "role", "members", "configuration"}
    gateway.controller.leader_id = None
    answer = gateway.ask(1003, **SET, brokerId=2, brokerAddress=A2, withTopology="true")
    assert set(leader).isdisjoint(answer.fields)
    refused = gateway.ask(1003, **SET, brokerId=7, brokerAddress=A2, withTopology="true")
    assert (refused.code, refused.fields) == (2010, SET)


def test_a_body_in_java_s_form_tells_topics() -> None:
    """The topics of a ``RegisterBrokerBody``, with the bare keys that fastjson writes; ours beside it."""
    gateway = Gateway()
    gateway.boot(1, A1)
    body = (
        b'{"filterServerList":[],"capabilities":{"x":"y"},"topicConfigSerializeWrapper":{"topicConfigTable":{"t":'
        b'{"topicName":"t"},"s":{"topicName":"s"}},"topicQueueMappingInfoMap":{"t":{"currIdMap":{0:0}}}}}'
    )
    assert gateway.ask(1003, body, **SET, brokerId=1, brokerAddress=A1).code == 0
    replica = gateway.controller.state.broker_sets["b"].replica(1)
    assert replica is not None
    assert (replica.topics, replica.capabilities) == (("s", "t"), {"x": "y"})
