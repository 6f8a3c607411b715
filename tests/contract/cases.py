"""The contract: what a controller is asked, case by case. What is right is what Java answered (golden/java-*.json).

A case is a function; its steps have names. Every case runs against both Java controllers (recorded, and again under the
marker ``oracle``) and against Quorate through a leader's and a follower's address, with JSON and with binary headers.
"""

import json
import re
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from quorate.wire.remoting import Response
from tests.contract.client import Remoting
from tests.contract.speaker import Answer, Speaker, shape

Case = Callable[[Speaker], None]


def framed(header: bytes, body: bytes = b"", header_type: int = 0) -> bytes:
    """A frame by hand."""
    return struct.pack(">II", 4 + len(header) + len(body), header_type << 24 | len(header)) + header + body


def named(s: Speaker) -> Mapping[str, Any]:
    """The two names of most requests."""
    return {"clusterName": "C", "brokerName": s.set}


def has_master(broker_id: int) -> Callable[[Response], bool]:
    """Is this the master?"""
    return lambda answer: answer.fields.get("masterBrokerId") == str(broker_id)


def settled_without_master() -> Callable[[Response], bool]:
    """No master, and the master epoch has not moved for a second: Java fails the same election up to three times."""
    seen: dict[str, float] = {}

    def so(answer: Response) -> bool:
        epoch = answer.fields.get("masterEpoch", "")
        since = seen.setdefault(epoch, time.monotonic())
        return "masterBrokerId" not in answer.fields and time.monotonic() - since > 1.0

    return so


def unknown_or_in_epoch(master_epoch: int) -> Callable[[Response], bool]:
    """An unknown set (Java), or one whose changed members have brought about another failed election (ours)."""
    return lambda answer: answer.code != 0 or answer.fields.get("masterEpoch") == str(master_epoch)


def a_pair_lives(s: Speaker) -> None:
    """Boot of two brokers, first election, growth of the sync state set, the state of the set."""
    a1, a2 = s.serves(1), s.serves(2)
    s.ask("next id of an unknown set", 1012, **named(s))
    s.ask("first id", 1013, **named(s), appliedBrokerId=1, registerCheckCode=f"{a1};1")
    s.ask("first registration", 1003, **named(s), brokerId=1, brokerAddress=a1)
    s.ask("replica info without a master", 1004, brokerName=s.set)
    s.ask("first election", 1002, **named(s), brokerId=1, designateElect=False)
    s.beat(1)
    s.ask("replica info", 1004, brokerName=s.set)
    s.ask("next id", 1012, **named(s))
    s.ask("second id", 1013, **named(s), appliedBrokerId=2, registerCheckCode=f"{a2};1")
    s.ask("second registration", 1003, **named(s), brokerId=2, brokerAddress=a2)
    s.beat(2)
    s.ask("second tries", 1002, **named(s), brokerId=2)
    body = {"syncStateSet": [1, 2], "syncStateSetEpoch": 1}
    s.ask("grow", 1001, body, brokerName=s.set, masterBrokerId=1, masterEpoch=1)
    s.ask("state", 1006, [s.set])
    s.ask("registers again", 1003, **named(s), brokerId=2, brokerAddress=a2)
    s.ask("replica info of two", 1004, brokerName=s.set)


def ids(s: Speaker) -> None:
    """1013 and 1012: which ids are given, and what a missing field does."""
    s.ask("not the first", 1013, **named(s), appliedBrokerId=2, registerCheckCode="x;1")
    s.ask("the first", 1013, **named(s), appliedBrokerId=1, registerCheckCode="x;1")
    s.ask("again", 1013, **named(s), appliedBrokerId=1, registerCheckCode="x;1")
    s.ask("taken", 1013, **named(s), appliedBrokerId=1, registerCheckCode="y;1")
    s.ask("any free one", 1013, **named(s), appliedBrokerId=7, registerCheckCode="z;1")
    s.ask("next", 1012, **named(s))
    s.ask("plus sign", 1013, **named(s), appliedBrokerId="+8", registerCheckCode="w;1")
    s.ask("zero", 1013, **named(s), appliedBrokerId=0, registerCheckCode="v;1")


def registration(s: Speaker) -> None:
    """1003: who must apply first, what a changed address does, and a wrong cluster."""
    s.ask("unknown set", 1003, **named(s), brokerId=1, brokerAddress=s.serves(1))
    s.boot(1)
    s.ask("unknown id", 1003, **named(s), brokerId=4, brokerAddress=s.serves(4))
    s.quiet(1002, **named(s), brokerId=1)
    s.ask("same address", 1003, **named(s), brokerId=1, brokerAddress=s.serves(1))
    s.ask("changed address", 1003, **named(s), brokerId=1, brokerAddress=s.serves(11))
    s.ask("after the change", 1003, **named(s), brokerId=1, brokerAddress=s.serves(11))
    s.ask("wrong cluster", 1003, clusterName="D", brokerName=s.set, brokerId=1, brokerAddress=s.serves(11))
    s.ask("replica info", 1004, brokerName=s.set)


def elections(s: Speaker) -> None:
    """1002: who may ask, who is elected, what is said when nothing changes."""
    s.ask("unknown set", 1002, **named(s), brokerId=1)
    s.replicas(1, 2)
    s.boot(3)
    s.ask("old master stays", 1002, **named(s), brokerId=2)
    s.ask("designate the master", 1002, **named(s), brokerId=1, designateElect=True)
    s.ask("designate out of sync", 1002, **named(s), brokerId=3, designateElect=True)
    s.ask("designate unknown", 1002, **named(s), brokerId=9, designateElect=True)
    s.ask("designate in sync", 1002, **named(s), brokerId=2, designateElect="TRUE")
    s.ask("after", 1004, brokerName=s.set)
    s.ask("nobody asks", 1002, **named(s), brokerId=-1)
    s.ask("yes is not true", 1002, **named(s), brokerId=3, designateElect="yes")


def first_election_of_a_stranger(s: Speaker) -> None:
    """1002 before there ever was a master, for an id nobody has."""
    s.boot(1)
    s.ask("elect", 1002, **named(s), brokerId=9)
    s.ask("replica info", 1004, brokerName=s.set)


def first_election_of_nobody(s: Speaker) -> None:
    """1002 before there ever was a master, with id -1."""
    s.boot(1)
    s.ask("elect", 1002, **named(s), brokerId=-1)
    s.ask("replica info", 1004, brokerName=s.set)


def alterations(s: Speaker) -> None:
    """1001: the eight checks in their order, and shrinking."""
    s.replicas(1, 2)
    who = {"brokerName": s.set, "masterBrokerId": 1, "masterEpoch": 1}
    one, two = {"syncStateSet": [1], "syncStateSetEpoch": 2}, {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}
    s.ask("unknown set", 1001, one, **{**who, "brokerName": "nobody"})
    s.ask("same set, everything else wrong", 1001, {**two, "syncStateSetEpoch": 9}, **{**who, "masterBrokerId": 5})
    s.ask("not the master", 1001, {**one, "syncStateSetEpoch": 9}, **{**who, "masterBrokerId": 2, "masterEpoch": 9})
    s.ask("stale master epoch", 1001, {**one, "syncStateSetEpoch": 9}, **{**who, "masterEpoch": 0})
    s.ask("stale set epoch", 1001, {"syncStateSet": [1, 9], "syncStateSetEpoch": 1}, **who)
    s.ask("unknown replica", 1001, {"syncStateSet": [1, 9], "syncStateSetEpoch": 2}, **who)
    s.quiet(1013, **named(s), appliedBrokerId=3, registerCheckCode="x;1")
    s.ask("dead replica", 1001, {"syncStateSet": [1, 3], "syncStateSetEpoch": 2}, **who)
    s.ask("without its master", 1001, {"syncStateSet": [2], "syncStateSetEpoch": 2}, **who)
    s.ask("empty", 1001, {"syncStateSet": [], "syncStateSetEpoch": 2}, **who)
    s.ask("twice the same id", 1001, {"syncStateSet": [1, 1], "syncStateSetEpoch": 2}, **who)
    s.ask("shrunk to one", 1004, brokerName=s.set)


def questions(s: Speaker) -> None:
    """1004 and 1006 about unknown sets, nothing, and nonsense."""
    s.replicas(1)
    s.ask("replica info of nobody", 1004, brokerName="nobody")
    s.ask("no names", 1006)
    s.ask("empty list", 1006, [])
    s.ask("unknown among known", 1006, ["nobody", s.set])
    s.ask("only unknown", 1006, ["nobody"])
    s.ask("not a list", 1006, {})
    s.ask("broken", 1006, b"[")


def cleaning(s: Speaker) -> None:
    """1011: what is refused, by id, with a wrong cluster, living brokers."""
    s.ask("unknown set", 1011, **named(s))
    s.replicas(1, 2)
    s.ask("whole, with a master", 1011, **named(s))
    s.ask("living id", 1011, **named(s), brokerControllerIdsToClean="2")
    s.ask("not a number", 1011, **named(s), brokerControllerIdsToClean="2;x")
    s.ask("unknown id", 1011, **named(s), brokerControllerIdsToClean="9")
    s.ask("wrong cluster", 1011, clusterName="D", brokerName=s.set, brokerControllerIdsToClean="2")
    s.ask("after", 1006, [s.set])
    s.ask("next id", 1012, **named(s))
    s.ask("cleaned id registers", 1003, **named(s), brokerId=2, brokerAddress=s.serves(2))
    s.ask("whole, living", 1011, **named(s), isCleanLivingBroker=True)
    s.ask("gone", 1004, brokerName=s.set)
    s.ask("ids start again", 1012, **named(s))


def cleaning_living_by_id(s: Speaker) -> None:
    """1011 with living brokers and a list of ids."""
    s.replicas(1, 2)
    s.ask("clean", 1011, **named(s), brokerControllerIdsToClean="2", isCleanLivingBroker=True)
    s.ask("replica info", 1004, brokerName=s.set)


def cleaning_the_only_in_sync(s: Speaker) -> None:
    """1011 by id of the one replica in sync, while another remains."""
    s.replicas(1)
    s.boot(2)
    s.die(1)
    s.eventually("nobody leads", settled_without_master(), 1004, brokerName=s.set)
    s.ask("clean", 1011, **named(s), brokerControllerIdsToClean="1")
    s.eventually("replica info", unknown_or_in_epoch(3), 1004, brokerName=s.set)
    s.ask("next id", 1012, **named(s))
    s.ask("the other registers", 1003, **named(s), brokerId=2, brokerAddress=s.serves(2))


def heartbeats(s: Speaker) -> None:
    """904, two-way, registered or not, complete or not."""
    s.ask("unregistered", 904, **named(s), brokerId=1, brokerAddr=s.serves(1), heartbeatTimeoutMills=1000)
    s.ask("without an id", 904, **named(s))
    s.ask("id that is no number", 904, **named(s), brokerId="x")
    s.ask("the least", 904, **named(s), brokerId=2)


def leniency(s: Speaker) -> None:
    """Numbers and booleans as Java parses them; missing names; extra fields."""
    s.ask("extra fields", 1012, **named(s), AccessKey="k", Signature="s")
    s.boot(1)
    s.ask("id with a plus", 1003, **named(s), brokerId="+1", brokerAddress=s.serves(1))
    s.ask("time that is no number", 1003, **named(s), brokerId=1, brokerAddress=s.serves(1), invokeTime="now")


def missing_fields(s: Speaker) -> None:
    """What Java's handlers end on with a NullPointerException: code 1. (It stops JRaft's state machine for good.)"""
    s.boot(1)
    who = {"brokerName": s.set, "masterBrokerId": 1, "masterEpoch": 1}
    s.ask("1013 no check code", 1013, **named(s), appliedBrokerId=9)
    s.ask("1013 no id", 1013, **named(s), registerCheckCode="q;1")
    s.ask("1013 unparsable id", 1013, **named(s), appliedBrokerId="one", registerCheckCode="q;1")
    s.ask("1012 no fields at all", 1012)
    s.ask("1013 no name", 1013, clusterName="C", appliedBrokerId=1, registerCheckCode="q;1")
    s.ask("1003 no name", 1003, clusterName="C", brokerId=1, brokerAddress="x")
    s.ask("1003 no id", 1003, **named(s), brokerAddress=s.serves(4))
    s.ask("1003 id with a blank", 1003, **named(s), brokerId=" 1", brokerAddress=s.serves(1))
    s.ask("1003 id beyond 64 bits", 1003, **named(s), brokerId="9223372036854775808", brokerAddress=s.serves(1))
    s.ask("1004 no name", 1004)
    s.ask("1011 no name", 1011)
    s.ask("1001 no name", 1001, {"syncStateSet": [1], "syncStateSetEpoch": 0})
    s.ask("1001 no body", 1001, **who)
    s.ask("1001 broken body", 1001, b"{", **who)
    s.ask("1001 body without a set", 1001, {"syncStateSetEpoch": 3}, **who)
    s.ask("1001 null set", 1001, {"syncStateSet": None, "syncStateSetEpoch": 3}, **who)
    s.ask("still served", 1012, **named(s))


def codes(s: Speaker) -> None:
    """Codes nobody serves here, some of them Java's own inner ones."""
    for code in (0, 1, 1000, 1007, 1008, 1014, 1016, 1018, 1999):
        s.ask(f"code {code}", code)


def topics(s: Speaker) -> None:
    """17, 351, 21, 215: the Java controller serves no topics."""
    create = {
        "topic": s.set, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, "attributes": "+message.type=FIFO",
    }  # fmt: skip
    s.ask("create", 17, **create)
    s.ask("read", 351, topic=s.set)
    listed = s.quiet(21)
    names = sorted(json.loads(listed.body)["topicConfigTable"]) if listed.body else []
    s.note("all", {"code": str(listed.code), "remark": json.dumps(listed.remark), "names": json.dumps(names)})
    s.ask("delete", 215, topic=s.set)
    s.ask("deleted", 351, topic=s.set)


def oneway(s: Speaker) -> None:
    """A one-way request is done and not answered: the next answer on the connection is the next request's."""
    s._client.send(1013, oneway=True, **named(s), appliedBrokerId=1, registerCheckCode="x;1")
    s._client.send(1999, oneway=True)
    s.eventually("it was done", lambda answer: answer.fields.get("nextBrokerId") == "2", 1012, **named(s))


def malformed(s: Speaker) -> None:
    """Frames that cannot be: the connection closes, nothing is answered."""
    header = json.dumps({"code": 1012, "opaque": 1, "flag": 0, "extFields": named(s)}).encode()
    s.raw("whole", framed(header))
    s.raw("oversize", struct.pack(">I", 16_777_216) + bytes(60))
    s.raw("largest length", struct.pack(">I", 0x7FFFFFFF) + bytes(60))
    s.raw("negative length", struct.pack(">I", 0xFFFFFFF0) + bytes(60))
    s.raw("header longer than the frame", struct.pack(">II", 20, 100) + bytes(16))
    s.raw("unknown header type", framed(header, header_type=7))
    s.raw("header that is no JSON", framed(b"not json at all"))
    s.raw("header cut off", framed(header[:-5]))
    s.raw("binary header cut off", framed(b"\x03\xec\x00\x01", header_type=1))
    s.raw("binary header with a negative text", framed(bytes(13) + b"\xff\xff\xff\xff" + bytes(4), header_type=1))
    s.raw("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


def failover(s: Speaker) -> None:
    """The master's connections close: the other becomes master, alone in sync; the dead one returns as slave."""
    s.replicas(1, 2)
    s.die(1)
    s.eventually("the other leads", has_master(2), 1004, brokerName=s.set)
    s.ask("state", 1006, [s.set])
    s.beat(1)
    s.ask("the old one registers", 1003, **named(s), brokerId=1, brokerAddress=s.serves(1))
    s.ask("and tries", 1002, **named(s), brokerId=1)
    s.ask(
        "fenced out",
        1001,
        {"syncStateSet": [1], "syncStateSetEpoch": 2},
        brokerName=s.set,
        masterBrokerId=1,
        masterEpoch=1,
    )


def election_order(s: Speaker) -> None:
    """Among the in-sync: greater epoch first, then greater offset, then lower priority value."""
    s.replicas(
        1, 2, 3, 4,
        b2={"epoch": 1, "maxOffset": 900, "electionPriority": 1},
        b3={"epoch": 2, "maxOffset": 100, "electionPriority": 9},
        b4={"epoch": 2, "maxOffset": 100, "electionPriority": 5},
    )  # fmt: skip
    s.die(1)
    s.eventually("epoch, then priority", has_master(4), 1004, brokerName=s.set)


def offsets_4_gib_apart(s: Speaker) -> None:
    """Of two candidates 2^32 bytes apart, which one? (The Java controllers subtract in 32 bits.)"""
    s.replicas(1, 2, 3, b2={"epoch": 1, "maxOffset": 100}, b3={"epoch": 1, "maxOffset": 100 + 2**32})
    s.die(1)
    s.eventually("elected", lambda a: a.fields.get("masterBrokerId") in ("2", "3"), 1004, brokerName=s.set)


def nobody_left(s: Speaker) -> None:
    """All in sync are dead, one out of sync lives: no master, and it cannot become one; the old one returns and is."""
    s.replicas(1)
    s.boot(2)
    s.die(1)
    s.eventually("no master", settled_without_master(), 1004, brokerName=s.set)
    s.ask("out of sync tries", 1002, **named(s), brokerId=2)
    s.ask("registers", 1003, **named(s), brokerId=2, brokerAddress=s.serves(2))
    s.beat(1)
    s.ask("the old one tries", 1002, **named(s), brokerId=1)


def unclean(s: Speaker) -> None:
    """With enableElectUncleanMaster an out-of-sync replica may lead. (Set on every node, and taken back.)"""
    for value in ("true", "false"):
        for address in s.controllers:
            change(
                s, f"unclean {value} at {s.controllers.index(address)}", address, f"enableElectUncleanMaster={value}\n"
            )
        if value == "true":
            s.replicas(1)
            s.boot(2)
            s.die(1)
            s.eventually("the unclean one leads", has_master(2), 1004, brokerName=s.set)


def change(s: Speaker, step: str, address: str, text: str) -> None:
    """1009 at one node."""
    with Remoting(address, s.header_type) as client:
        s.note(step, shape(client.ask(1009, text.encode())))


def config(s: Speaker) -> None:
    """1009 and 1010: what is set, ignored, refused."""
    s.ask("nothing", 1009)
    s.ask("a number", 1009, b"scanNotActiveBrokerInterval=4000\n")
    s.ask("no number", 1009, b"scanNotActiveBrokerInterval=soon\n")
    s.ask("an unknown key", 1009, b"noSuchKey=1\n")
    s.ask("read event", 1009, b"processReadEvent=false\n")
    for key in ("configBlackList", "configStorePath", "rocketmqHome"):
        s.ask(f"black-listed {key}", 1009, f"mappedFileSize=7\n{key}=x\n".encode())
    s.ask("broken escape", 1009, b"a=\\u12\n")
    s.eventually("shown", lambda answer: b"BrokerInterval=4000" in answer.body, 1010)
    text = s.story.pop("shown")["body"]
    lines = text.split("\n")
    s.note("shown", settings_shown(text))
    s.note("order", {"sorted": str(lines[:-1] == sorted(lines[:-1])), "ends with a line end": str(lines[-1] == "")})


def settings_shown(text: str) -> Answer:
    """The body of 1010, a path for each setting."""
    pairs = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    return {f"body.{key}": _unplaced(key, value) for key, value in pairs.items()}


def _unplaced(key: str, value: str) -> str:
    """A setting without what belongs to this machine and this run."""
    if key == "listenPort":
        return "a port"
    value = "a path" if value.startswith(("/", "$WORK")) else re.sub(r"@[0-9a-f]+$", "@hash", value)
    return re.sub(r"\bn\d\b", "$id", value)


def metadata(s: Speaker) -> None:
    """1005: the leader's id and address, all peers, and who is asked."""
    answer = s.quiet(1005)
    fields = dict(answer.fields)
    peers = fields.pop("peers")
    ends = [part.rpartition(":") for part in peers.removesuffix(";").split(";")]
    s.note(
        "anybody",
        {
            "code": str(answer.code),
            "names": str(sorted(answer.fields)),
            "leader is a controller": str(fields["controllerLeaderAddress"] in s.controllers),
            "is leader": str((fields["controllerLeaderAddress"] == s.address) == (fields["isLeader"] == "true")),
            "peers": f"{len(ends)}, ended by {peers[-1]}",
            "peers are id and address": str(all(len(head.split(":")) == 2 for head, _, _ in ends)),
        },
    )


def follower(s: Speaker) -> None:
    """What a node that does not lead answers."""
    s.replicas(1)
    leader = s.quiet(1005).fields["controllerLeaderAddress"]
    other = next(address for address in s.controllers if address != leader)
    with Remoting(other, s.header_type) as client:
        for code in (1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013):
            body: object = [s.set] if code == 1006 else {"syncStateSet": [1]} if code == 1001 else b""
            s.note(f"code {code}", shape(client.ask(code, body, **named(s), brokerId=1)))  # type: ignore[arg-type]
        s.note("heartbeat", shape(client.ask(904, **named(s), brokerId=1, heartbeatTimeoutMills=600_000)))


CASES: Mapping[str, Case] = {
    case.__name__: case
    for case in (
        a_pair_lives, ids, registration, elections, first_election_of_a_stranger, first_election_of_nobody, alterations,
        questions, cleaning, cleaning_living_by_id, cleaning_the_only_in_sync, heartbeats, leniency, codes, topics,
        oneway, malformed, missing_fields, failover, election_order, offsets_4_gib_apart, nobody_left, unclean, config,
        metadata, follower,
    )
}  # fmt: skip

POISON: Mapping[str, frozenset[str]] = {"dledger": frozenset(), "jraft": frozenset({"missing_fields"})}
"""Cases that end a kind of Java controller, so that it has no answers to compare with."""
