"""Stock tools read the log of a real cluster: kcat, Kafka's own console tools, and a registry client's deserializer."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quorate.wire.kafka import Api
from quorate.wire.records import scan
from tests.clusters import Started
from tests.kafka_tools.conftest import http, log, metric
from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.raw import Client, fetch, fetched
from tests.peers import PEERS, peer

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "all-groups": "org.apache.kafka.tools.GroupsCommand",
    "configs": "kafka.admin.ConfigCommand",
    "quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "dump": "org.apache.kafka.tools.DumpLogSegments",
}
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
NODES = pytest.mark.parametrize("index", range(3))


def run(command: Sequence[str], timeout_s: float = 60.0) -> str:
    """Run a tool to its end, which must be a good one; what it printed."""
    done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="replace")


def kcat(cluster: Started, index: int, *arguments: str) -> str:
    """Kcat against a node."""
    return run([str(peer("kcat") / "kcat"), "-b", cluster.nodes[index]["kafka"], *arguments])


def console(tool: str, *arguments: str) -> list[str]:
    """What starts one of Kafka's console tools, from its jars."""
    return ["java", *JVM, "-cp", f"{PEERS / 'kafka'}{os.sep}*", TOOLS[tool], *arguments]


def java(tool: str, *arguments: str) -> str:
    """Run one of them."""
    peer("kafka")
    return run(console(tool, *arguments))


def end(cluster: Started) -> int:
    """The end of the log."""
    offset: int = http(cluster, 0, "/v1/topics")["offset"]
    return offset


@NODES
def test_kcat_lists_the_cluster(cluster: Started, index: int) -> None:
    """Every node names all nodes, the leader as controller, and the one topic with its one partition."""
    found = json.loads(kcat(cluster, index, "-L", "-J"))
    assert {broker["id"]: broker["name"] for broker in found["brokers"]} == {
        node["id"]: node["kafka"] for node in cluster.nodes
    }
    assert found["controllerid"] == http(cluster, index, "/v1/quorum")["leader"]
    ((topic, partitions),) = [(t["topic"], t["partitions"]) for t in found["topics"]]
    assert topic == TOPIC
    assert [(p["partition"], p["leader"]) for p in partitions] == [(0, found["controllerid"])]


@NODES
def test_kcat_reads_the_whole_log_from_each_node(cluster: Started, index: int) -> None:
    """With the node's own rack the records come from that node: gapless, with keys and headers, equal everywhere."""
    before = metric(cluster, index, "quorate_kafka_sent_bytes_total")
    rack = f"client.rack=node-{cluster.nodes[index]['id']}"
    form = '{"offset":%o,"key":"%k","headers":"%h","size":%S}\\n'
    text = kcat(cluster, index, "-q", "-C", "-t", TOPIC, "-p", "0", "-o", "beginning", "-e", "-X", rack, "-f", form)
    records = [json.loads(line) for line in text.splitlines()]
    events = log(cluster, index)
    assert [record["offset"] for record in records] == list(range(len(events)))
    assert [record["key"] for record in records] == [event["key"] for event in events]
    for record, event in zip(records, events, strict=True):
        headers = dict(pair.split("=", 1) for pair in record["headers"].split(","))
        assert headers["type"] == event["type"]
        assert int(headers["offset"]) == event["offset"]
        assert int(headers["term"]) == event["term"]
        assert int(headers["time_ms"]) == event["time_ms"]
        assert headers["principal"] == event["principal"]
    sent = metric(cluster, index, "quorate_kafka_sent_bytes_total") - before
    assert sent > sum(record["size"] for record in records)


def test_kcat_as_a_group_resumes_where_it_stopped(cluster: Started) -> None:
    """A subscriber reads everything once; the same group, started again, reads only what is new."""
    options = ("-q", "-G", "kcat-group", "-X", "auto.offset.reset=earliest", "-e", "-f", "%o\\n", TOPIC)
    assert [int(line) for line in kcat(cluster, 0, *options).split()] == list(range(end(cluster)))
    assert kcat(cluster, 1, *options).split() == []
    new = http(cluster, 2, "/v1/config/cluster", "PUT", {"changes": {"resumed": "yes"}, "unread": True})["offset"] - 1
    assert [int(line) for line in kcat(cluster, 2, *options).split()] == [new]


def test_producing_is_refused_with_a_reason(cluster: Started) -> None:
    """Kcat is told it may not; the log does not grow."""
    before = end(cluster)
    done = subprocess.run(
        [str(peer("kcat") / "kcat"), "-b", cluster.nodes[0]["kafka"], "-P", "-t", TOPIC],
        input=b"an event of mine\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert b"Topic authorization failed" in done.stderr
    assert end(cluster) == before


@NODES
def test_kafka_topics_lists_the_topic(cluster: Started, index: int) -> None:
    """The stock admin tool sees one topic on any node."""
    assert java("topics", "--bootstrap-server", cluster.nodes[index]["kafka"], "--list").split() == [TOPIC]


def test_kafka_get_offsets_tells_both_ends(cluster: Started) -> None:
    """Latest is the end of the log, earliest its start, by any node."""
    for index, (time, expected) in enumerate((("-1", end(cluster)), ("-2", 0), ("latest", end(cluster)))):
        where = ("--bootstrap-server", cluster.nodes[index]["kafka"], "--topic", TOPIC)
        assert java("offsets", *where, "--time", time).split() == [f"{TOPIC}:0:{expected}"]


def consumed(text: str) -> list[int]:
    """Offsets the console consumer printed."""
    return [int(offset) for offset in re.findall(r"Offset:(\d+)", text)]


def test_console_consumer_reads_by_offset(cluster: Started) -> None:
    """From an offset on, in order."""
    start, count = 7, 20
    where = ("--bootstrap-server", cluster.nodes[1]["kafka"], "--topic", TOPIC)
    what = ("--partition", "0", "--offset", str(start), "--max-messages", str(count))
    text = java("consumer", *where, *what, "--formatter-property", "print.offset=true", "--timeout-ms", "20000")
    assert consumed(text) == list(range(start, start + count))


def test_console_consumer_reads_by_group(cluster: Started) -> None:
    """A group reads its share once, and goes on from its committed offset."""
    where = ("--bootstrap-server", cluster.nodes[2]["kafka"], "--topic", TOPIC, "--group", "java-group")
    how = ("--formatter-property", "print.offset=true", "--from-beginning", "--timeout-ms", "20000")
    assert consumed(java("consumer", *where, *how, "--max-messages", "15")) == list(range(15))
    assert consumed(java("consumer", *where, *how, "--max-messages", "5")) == list(range(15, 20))


def segment(cluster: Started, folder: Path) -> tuple[Path, int]:
    """All our record batches as a log segment; the file and their number."""
    host, port = cluster.nodes[0]["kafka"].rsplit(":", 1)
    assert host == "127.0.0.1"
    client, data, offset = Client(int(port)), b"", 0
    while records := fetched(client.ask(Api.FETCH, 11, fetch(offset)))["records"]:
        data += records
        offset = list(scan(records))[-1].last_offset + 1
    client.socket.close()
    assert offset == end(cluster)
    file = folder / "00000000000000000000.log"
    file.write_bytes(data)
    return file, len(list(scan(data)))


def test_our_batches_pass_kafka_dump_log(cluster: Started, tmp_path: Path) -> None:
    """Kafka's own reader finds every batch valid, every offset, and our keys; a flipped bit it does find."""
    file, batches = segment(cluster, tmp_path)
    text = java("dump", "--files", str(file), "--print-data-log", "--deep-iteration")
    assert len(re.findall(r"isvalid: true", text)) == batches
    assert "isvalid: false" not in text
    offsets = [int(offset) for offset in re.findall(r"\| offset: (\d+)", text)]
    assert offsets == list(range(end(cluster)))
    assert f"key: {log(cluster)[-1]['key']}" in text
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(bytes(damaged))
    assert "isvalid: true" in java("dump", "--files", str(file))
    assert len(re.findall(r"isvalid: true", java("dump", "--files", str(file)))) < batches


def by_confluent(cluster: Started, index: int, decode: Any) -> list[Any]:
    """The whole log, read from one node by confluent-kafka, values decoded."""
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": cluster.nodes[index]["kafka"],
            "client.rack": f"node-{cluster.nodes[index]['id']}",
            "group.id": "reader",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent.TopicPartition(TOPIC, 0, 0)])
    values: list[Any] = []
    last = end(cluster)
    while len(values) < last:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            assert message.offset() == len(values)
            values.append(decode(message.value()))
    consumer.close()
    return values


@NODES
def test_the_stock_avro_deserializer_reads_every_event(cluster: Started, index: int) -> None:
    """confluent-kafka's AvroDeserializer against this node's registry gives what the node's own API tells."""
    reason = "absent peer: confluent-kafka[avro,schemaregistry]"
    registry = pytest.importorskip("confluent_kafka.schema_registry", reason=reason, exc_type=ImportError)
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro", reason=reason, exc_type=ImportError)
    serialization = pytest.importorskip("confluent_kafka.serialization")
    expected = [
        {name: value for name, value in event["event"].items() if name != "type"} for event in log(cluster, index)
    ]
    with registry.SchemaRegistryClient({"url": f"http://{cluster.nodes[index]['http']}"}) as client:
        deserialize = avro.AvroDeserializer(client)
        context = serialization.SerializationContext(TOPIC, serialization.MessageField.VALUE)
        values = by_confluent(cluster, index, lambda value: deserialize(value, context))
        assert values[: len(expected)] == expected
        assert client.get_latest_version(f"{TOPIC}-value").schema.schema_type == "AVRO"
        with pytest.raises(registry.SchemaRegistryError, match="Schema not found"):
            client.get_schema(999_999)
