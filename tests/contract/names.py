"""What a name server is asked, case by case. What is right is what RocketMQ's answered (golden/java-names.json).

Names are each case's own, so that lists of everything are compared by what the case put there.
``python -m tests.contract.names`` asks a stock name server and keeps its answers.
"""

import json
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quorate.wire.remoting import HeaderType, Response
from tests.contract.client import Remoting, read_json
from tests.contract.speaker import Speaker, Story, flat, shape

GOLDEN = Path(__file__).parent / "golden" / "java-names.json"
MASTER, SLAVE, OTHER = "127.0.0.1:101", "127.0.0.1:102", "127.0.0.1:103"


def topic(name: str, **more: object) -> dict[str, object]:
    """Java ``TopicConfig``."""
    return {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 4, "topicFilterType": "SINGLE_TAG",
        "topicName": name, "topicSysFlag": 0, "writeQueueNums": 4, **more,
    }  # fmt: skip


def said(*topics: dict[str, object], counter: int = 1, epoch: int = 0, **more: object) -> dict[str, object]:
    """Java ``RegisterBrokerBody``."""
    version = {"counter": counter, "stateVersion": epoch, "timestamp": 7}
    table = {"dataVersion": version, "topicConfigTable": {one["topicName"]: one for one in topics}}
    return {"filterServerList": more.pop("filters", []), "topicConfigSerializeWrapper": {**table, **more}}


def deflated(*topics: str) -> bytes:
    """The compressed form of it."""
    parts = [b'{"counter":3,"stateVersion":0,"timestamp":7}']
    data = struct.pack(">i", len(parts[0])) + parts[0] + struct.pack(">i", len(topics))
    for one in (*(text.encode() for text in topics), b"[]"):
        data += struct.pack(">i", len(one)) + one
    return zlib.compress(data + struct.pack(">i", 0))


def who(s: Speaker, broker_id: int = 0, address: str = MASTER, **more: object) -> dict[str, Any]:
    """The fields of 103."""
    return {
        "clusterName": f"C{s.set}", "brokerName": s.set, "brokerAddr": address, "brokerId": broker_id,
        "haServerAddr": f"{address}9", "enableActingMaster": False, **more,
    }  # fmt: skip


def two(s: Speaker, **more: object) -> tuple[dict[str, object], dict[str, object]]:
    """Two topics of the case."""
    return topic(f"{s.set}-t", **more), topic(f"{s.set}-u")


def listed(s: Speaker, step: str, code: int, **fields: object) -> None:
    """A list of names: those of the case."""
    answer = s.quiet(code, **fields)
    found = read_json(answer.body) if answer.body else {}
    names = sorted(name for name in found.get("topicList", ()) if s.set in name)
    s.note(step, {"code": str(answer.code), "names": json.dumps(names)})


def route(s: Speaker, step: str, name: str = "t") -> None:
    """105; of the sets in the order of their names."""
    s.note(step, routed(s.quiet(105, topic=f"{s.set}-{name}")))


def routed(answer: Response) -> dict[str, str]:
    """What a route says."""
    if not answer.body:
        return shape(answer)
    body = read_json(answer.body)
    body["brokerDatas"].sort(key=lambda one: one["brokerName"])
    body["queueDatas"].sort(key=lambda one: one["brokerName"])
    return {"code": str(answer.code), "remark": json.dumps(answer.remark), **flat(body, "body")}


def a_set_lives(s: Speaker) -> None:
    """A master announces itself, then its slave; permissions; changes; both go."""
    route(s, "nobody has it")
    s.ask("master", 103, said(*two(s)), **who(s))
    route(s, "of one")
    s.ask("slave", 103, said(*two(s)), **who(s, 2, SLAVE))
    route(s, "of two")
    s.ask("members", 901, clusterName=f"C{s.set}", brokerName=s.set)
    everything = read_json(s.quiet(106).body)
    s.note("cluster", flat(everything["brokerAddrTable"][s.set], "set"))
    s.note("clusters", {"sets": json.dumps(everything["clusterAddrTable"][f"C{s.set}"])})
    listed(s, "topics", 206)
    listed(s, "topics of the cluster", 224, cluster=f"C{s.set}")
    listed(s, "topics of no cluster", 224, cluster="nobody")
    listed(s, "system topics", 304)
    version = {"counter": 1, "stateVersion": 0, "timestamp": 7}
    s.ask("known version", 322, version, **who(s))
    s.ask("another version", 322, {**version, "counter": 2}, **who(s))
    s.ask("version of nobody", 322, version, **who(s, 3, OTHER))
    s.ask("no writes", 205, brokerName=s.set)
    route(s, "without writes")
    s.ask("writes", 327, brokerName=s.set)
    route(s, "with writes")
    s.ask("writes of nobody", 327, brokerName="nobody")
    s.ask("changed and not told", 103, said(*two(s, perm=4)), **who(s))
    route(s, "as it was")
    s.ask("changed", 103, said(*two(s, perm=4), counter=2), **who(s))
    route(s, "as it is")
    s.ask("forget it in another cluster", 216, topic=f"{s.set}-t", clusterName="nobody")
    route(s, "still there")
    s.ask("forget it", 216, topic=f"{s.set}-t")
    route(s, "not there")
    s.ask("told again", 103, said(*two(s), counter=2), **who(s))
    route(s, "there again")
    s.ask("without it", 103, said(two(s)[1], topic(f"{s.set}-v"), counter=3), **who(s))
    route(s, "kept all the same")
    s.ask("slave goes", 104, **who(s, 2, SLAVE))
    route(s, "of one again")
    s.ask("master goes", 104, **who(s))
    s.eventually("of none", lambda answer: answer.code == 17, 105, topic=f"{s.set}-t")


def compressed(s: Speaker) -> None:
    """A registration in its deflated form."""
    attributes = '{"message.type":"FIFO"}'
    body = deflated(f"{s.set}-t 3 2 6 SINGLE_TAG {attributes}", f"{s.set}-u 1 1 4 MULTI_TAG {{}}")
    s.ask("deflated", 103, body, **who(s, compressed=True))
    route(s, "one")
    route(s, "other", "u")


def wrong(s: Speaker) -> None:
    """What is not taken."""
    body = json.dumps(said(*two(s))).encode()
    s.ask("wrong sum", 103, body, **who(s, bodyCrc32=5))
    s.ask("right sum", 103, body, **who(s, bodyCrc32=zlib.crc32(body) & 0x7FFFFFFF))
    route(s, "taken")
    s.ask("no JSON", 103, b"{", **who(s))
    s.ask("not deflated", 103, b"{}", **who(s, compressed=True))
    s.ask("no id", 103, body, **who(s, brokerId=None))
    s.ask("no version", 322, b"", **who(s))
    s.ask("goes and never was", 104, **who(s, 9, OTHER))
    s.ask("no namespace", 100, key="k", value="v")


def alone(s: Speaker) -> None:
    """Whoever begins with a single topic, or with none."""
    s.ask("one topic", 103, said(two(s)[0]), **who(s))
    route(s, "not taken")
    s.ask("no topic", 103, b"", **who(s))
    s.ask("one topic later", 103, said(two(s)[0], counter=2), **who(s))
    route(s, "taken")


def rivals(s: Speaker) -> None:
    """Two that say they are the master."""
    s.ask("first", 103, said(*two(s), epoch=2), **who(s))
    s.ask("of an earlier epoch", 103, said(*two(s, perm=4), epoch=1), **who(s, 0, OTHER))
    route(s, "the first")
    s.ask("of a later epoch", 103, said(*two(s, perm=4), epoch=3), **who(s, 0, OTHER))
    route(s, "the later")
    s.ask("becomes a slave", 103, said(*two(s), epoch=3), **who(s, 2, OTHER))
    route(s, "without a master")
    s.ask("a slave becomes master", 103, said(*two(s), epoch=4), **who(s, 0, OTHER))
    route(s, "the slave is master")


def slaves(s: Speaker) -> None:
    """Whose topics count when there is no master."""
    s.ask("an old one", 103, said(*two(s)), **who(s, 2, SLAVE, enableActingMaster=None))
    route(s, "not of an old one")
    s.ask("first", 103, said(*two(s)), **who(s, 2, SLAVE))
    route(s, "of the first")
    s.ask("another", 103, said(topic(f"{s.set}-v"), topic(f"{s.set}-w")), **who(s, 3, OTHER))
    route(s, "not of another", "v")
    s.ask("acts", 103, said(*two(s), counter=2), **who(s, 2, SLAVE, enableActingMaster=True))
    route(s, "read only")
    zone = who(s, 0, MASTER, enableActingMaster=True)
    s.ask("master in a zone", 103, said(*two(s), counter=3), **zone, __ZONE_NAME="z1")
    route(s, "in a zone")
    s.ask("master goes", 104, **who(s))
    s.eventually("it is gone", lambda answer: b'"0":' not in answer.body, 105, topic=f"{s.set}-u")
    route(s, "nobody writes")


def texts(s: Speaker) -> None:
    """What tools keep."""
    mine = {"namespace": f"N{s.set}"}
    s.ask("none", 101, **mine, key="k")
    s.ask("none at all", 219, **mine)
    s.ask("put", 100, **mine, key="k", value="v")
    s.ask("one", 101, **mine, key="k")
    s.ask("all", 219, **mine)
    s.ask("delete", 102, **mine, key="k")
    s.ask("deleted", 101, **mine, key="k")
    s.ask("delete again", 102, **mine, key="k")


def orders(s: Speaker) -> None:
    """Brokers are told which topics are ordered."""
    s.ask("put", 100, namespace="ORDER_TOPIC_CONFIG", key=f"{s.set}-t", value=f"{s.set}:4")
    s.ask("master", 103, said(*two(s)), **who(s))
    route(s, "route")
    s.quiet(102, namespace="ORDER_TOPIC_CONFIG", key=f"{s.set}-t")


def units(s: Speaker) -> None:
    """Topics by their flags."""
    flags = [topic(f"{s.set}-{flag}", topicSysFlag=flag) for flag in range(4)]
    s.ask("master", 103, said(*flags), **who(s))
    listed(s, "units", 311)
    listed(s, "subscriptions", 312)
    listed(s, "subscriptions of no unit", 313)


def static(s: Speaker) -> None:
    """Static topics, with the bare keys that fastjson writes."""
    ids = "{0:0,1:1}"
    tail = f'"dirty":false,"epoch":5,"scope":"__global__","topic":"{s.set}-t","totalQueues":2'
    mapping = f'{{"bname":"{s.set}","currIdMap":{ids},{tail}}}'
    body = json.dumps(said(*two(s), topicQueueMappingInfoMap={f"{s.set}-t": "?"})).replace('"?"', mapping)
    s.ask("master", 103, body.encode(), **who(s))
    route(s, "mapped")
    route(s, "not mapped", "u")


def one_topic(s: Speaker) -> None:
    """217: one topic of sets that are known."""
    queues = {"brokerName": s.set, "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
    s.ask("of a stranger", 217, {"queueDatas": [queues]}, topic=f"{s.set}-x")
    route(s, "not taken", "x")
    s.ask("master", 103, said(*two(s)), **who(s))
    s.ask("of a known one", 217, {"queueDatas": [queues]}, topic=f"{s.set}-x")
    route(s, "taken", "x")
    s.ask("of nobody", 217, {"queueDatas": []}, topic=f"{s.set}-y")
    route(s, "nowhere", "y")


def filters(s: Speaker) -> None:
    """Filter servers."""
    s.ask("master", 103, said(*two(s), filters=["f:1"]), **who(s))
    route(s, "with one")
    s.ask("none", 103, said(*two(s)), **who(s))
    route(s, "without")


def hangs_up(s: Speaker) -> None:
    """A broker's connection ends."""
    with Remoting(s.address, s.header_type) as broker:
        assert broker.ask(103, said(*two(s)), **who(s)).code == 0
        route(s, "there")
    s.eventually("gone", lambda answer: answer.code == 17, 105, topic=f"{s.set}-t")


def settings(s: Speaker) -> None:
    """318 and 319 are answered; what a setting is called is another matter."""
    s.note("get", {"code": str(s.quiet(319).code)})
    s.ask("update nothing", 318)
    s.ask("black list", 318, b"rocketmqHome=x")


CASES: Mapping[str, Callable[[Speaker], None]] = {
    case.__name__: case
    for case in (
        a_set_lives, compressed, wrong, alone, rivals, slaves, texts, orders, units, static, one_topic, filters,
        hangs_up, settings,
    )
}  # fmt: skip


def stories(address: str, header_type: HeaderType = HeaderType.JSON) -> dict[str, Story]:
    """Every case, asked of one name server."""
    found = {}
    for name, case in CASES.items():
        speaker = Speaker(f"{name}-{header_type.name}", [address], address, header_type)
        try:
            case(speaker)
            found[name] = speaker.story
        finally:
            speaker.close()
    return found


def main() -> None:
    """Write golden/java-names.json."""
    from tests.peers import PEERS
    from tests.rocketmq.stock import Stock

    with tempfile.TemporaryDirectory() as work:
        stock = Stock(Path(work), PEERS / "rocketmq" / "lib")
        try:
            found = stories(stock.name_server())
        finally:
            stock.stop()
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
