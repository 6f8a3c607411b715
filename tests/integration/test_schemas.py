"""The schema registry of other services, by Confluent's own client, on a cluster of three real nodes."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from quorate.events import SCHEMAS
from quorate.gateway.http.answers import Done
from quorate.gateway.http.writing import FeatureBody
from quorate.metadata.subjects import FIRST_ID
from tests.clusters import Started, quorate, up

confluent = pytest.importorskip("confluent_kafka.schema_registry", reason="absent peer", exc_type=ImportError)
Client = Callable[[int], Any]
CONTENT = "application/vnd.schemaregistry.v1+json"


def record(*fields: dict[str, Any]) -> str:
    """A schema of orders."""
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}, indent=2)


NUMBER: dict[str, Any] = {"name": "number", "type": "long"}
NOTE: dict[str, Any] = {"name": "note", "type": ["null", "string"], "default": None}
V1, V2 = record(NUMBER), record(NUMBER, NOTE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes at feature level 2; at level 1 a registration is refused by name."""
    with up(tmp_path_factory.mktemp("schemas") / "c", "--feature-level", "1") as started:
        status, _, told = ask(started, 0, "POST", "/subjects/early-value/versions", {"schema": V1})
        assert (status, told["error_code"], "feature level 2" in told["message"]) == (422, 42205, True)
        started.node().send("PUT", "/v1/feature", FeatureBody(level=2), Done)
        yield started


@pytest.fixture
def client(cluster: Started) -> Iterator[Client]:
    """Makes Confluent's clients of a node's registry; each test has its own, for they keep what they were told."""
    with ExitStack() as stack:
        yield lambda node: stack.enter_context(
            confluent.SchemaRegistryClient({"url": f"http://{cluster.nodes[node]['http']}"})
        )


def ask(
    cluster: Started, node: int, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and answer, as Java's client asks."""
    connection = HTTPConnection(cluster.nodes[node]["http"], timeout=10)
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"content-type": CONTENT, "accept": CONTENT, **headers})
    answer = connection.getresponse()
    told = answer.read()
    found = {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    return answer.status, found, json.loads(told) if told else None


def avro(text: str) -> Any:
    """A schema for the client."""
    return confluent.Schema(text, "AVRO")


def code(call: Any, *arguments: object, **named: object) -> tuple[int, int]:
    """Status and error code of a call that fails."""
    with pytest.raises(confluent.error.SchemaRegistryError) as raised:
        call(*arguments, **named)
    return raised.value.http_status_code, raised.value.error_code


def test_a_schema_is_registered_at_any_node_and_found_at_every_other(cluster: Started, client: Client) -> None:
    """It has one id, whoever registers it and however it is written, in every subject; once is enough."""
    first, second = client(1), client(2)
    number = first.register_schema("orders-value", avro(V1))
    assert number >= FIRST_ID
    assert second.register_schema("orders-value", avro(json.dumps(json.loads(V1)))) == number
    assert second.register_schema("orders2-value", avro(V1)) == number
    other = second.register_schema("orders-value", avro(V2))
    assert other != number
    for node in range(3):
        asked = client(node)
        assert json.loads(asked.get_schema(number).schema_str) == json.loads(V1)
        found = asked.lookup_schema("orders-value", avro(V2))
        assert (found.subject, found.version, found.schema_id) == ("orders-value", 2, other)
        latest = asked.get_latest_version("orders-value")
        assert (latest.version, latest.schema_id) == (2, other)
        assert asked.get_versions("orders-value") == [1, 2]
        assert asked.get_referenced_by("orders-value", 2) == []
        assert {"orders-value", "orders2-value"} <= set(asked.get_subjects())
    uses = ask(cluster, 0, "GET", f"/schemas/ids/{number}/versions")[2]
    for subject in ("orders-value", "orders2-value"):
        assert {"subject": subject, "version": 1} in uses
    assert code(first.get_schema, FIRST_ID + 9999) == (404, 40403)
    assert code(first.get_latest_version, "nowhere") == (404, 40401)


def test_what_breaks_the_level_in_force_is_refused(cluster: Started, client: Client) -> None:
    """By the subject's level, else by that of all; the answer says why, and what a check says registering does."""
    asked = client(1)
    asked.register_schema("checked-value", avro(V2))
    worse = avro(record(NUMBER, {"name": "must", "type": "int"}))
    assert asked.get_compatibility() == "BACKWARD"
    assert not asked.test_compatibility("checked-value", worse)
    assert code(asked.register_schema, "checked-value", worse) == (409, 409)
    status, _, told = ask(
        cluster,
        0,
        "POST",
        "/compatibility/subjects/checked-value/versions/latest?verbose=true",
        {"schema": worse.schema_str},
    )
    assert (status, told["is_compatible"]) == (200, False)
    assert "/must: the writer has no such field" in told["messages"][0]
    assert code(asked.get_compatibility, "checked-value") == (404, 40408)
    asked.set_compatibility("checked-value", "NONE")
    assert client(2).get_compatibility("checked-value") == "NONE"
    assert asked.test_compatibility("checked-value", worse)
    assert asked.register_schema("checked-value", worse)
    assert code(asked.set_compatibility, "checked-value", "SIDEWAYS") == (422, 42203)
    asked.set_compatibility(level="FORWARD")
    assert client(2).get_compatibility() == "FORWARD"
    status, _, told = ask(cluster, 0, "DELETE", "/config")
    assert (status, told) == (200, {"compatibilityLevel": "FORWARD"})
    assert asked.get_compatibility() == "BACKWARD"


def test_deleted_versions_are_hidden_and_then_gone_and_their_ids_never_given_again(
    cluster: Started, client: Client
) -> None:
    """Softly first; for good only what was deleted softly; the schema keeps its id through both."""
    asked = client(2)
    assert code(asked.delete_subject, "gone-value") == (404, 40401)
    first = asked.register_schema("gone-value", avro(record(NUMBER, {"name": "a", "type": "int", "default": 1})))
    second = asked.register_schema("gone-value", avro(record(NUMBER)))
    assert code(asked.delete_version, "gone-value", 1, True) == (404, 40407)
    assert asked.delete_version("gone-value", 1) == 1
    assert code(asked.delete_version, "gone-value", 1) == (404, 40406)
    assert code(asked.delete_version, "gone-value", 7) == (404, 40402)
    assert asked.get_versions("gone-value") == [2]
    assert ask(cluster, 0, "GET", "/subjects/gone-value/versions?deleted=true")[2] == [1, 2]
    assert asked.delete_version("gone-value", 1, True) == 1
    status, _, told = ask(cluster, 0, "DELETE", "/subjects/gone-value?permanent=true")
    assert (status, told["error_code"]) == (404, 40405)
    assert asked.delete_subject("gone-value") == [2]
    assert code(asked.delete_subject, "gone-value") == (404, 40404)
    assert "gone-value" not in asked.get_subjects()
    assert "gone-value" in ask(cluster, 0, "GET", "/subjects?deleted=true")[2]
    assert ask(cluster, 0, "DELETE", "/subjects/gone-value?permanent=true")[2] == [2]
    assert "gone-value" not in ask(cluster, 0, "GET", "/subjects?deleted=true")[2]
    anew = client(1)
    assert anew.register_schema("gone-value", avro(record({"name": "other", "type": "string"}))) > second
    assert json.loads(anew.get_schema(first).schema_str)["fields"][1]["name"] == "a"


def test_what_is_the_logs_own_stays_as_it_is(cluster: Started, client: Client) -> None:
    """Its subjects take no schema, no deletion and no level; its ids are those of the build."""
    topic = next(name for name in client(0).get_subjects() if name.endswith("metadata.events-value"))
    for subject in (topic, "quorate.events.KeyPut", "quorate.events.Unheard"):
        status, _, told = ask(cluster, 1, "POST", f"/subjects/{subject}/versions", {"schema": V1})
        assert (status, told["error_code"]) == (422, 42205)
    for method, path, body in (
        ("DELETE", f"/subjects/{topic}", None),
        ("DELETE", f"/subjects/{topic}/versions/1", None),
        ("PUT", f"/config/{topic}", {"compatibility": "NONE"}),
        ("DELETE", f"/config/{topic}", None),
        ("PUT", "/mode", {"mode": "IMPORT"}),
    ):
        status, _, told = ask(cluster, 1, method, path, body)
        assert (status, told["error_code"]) == (422, 42205)
    assert json.loads(client(2).get_schema(1).schema_str) == json.loads(SCHEMAS[1])
    assert client(0).get_compatibility(topic) == "FULL_TRANSITIVE"


def test_messages_are_written_and_read_with_stock_serializers(cluster: Started, client: Client) -> None:
    """The writer registers by itself at one node; a reader with the newer schema reads by another node's word."""
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("trips", MessageField.VALUE)
    written = AvroSerializer(client(1), V1)({"number": 7}, context)
    assert int.from_bytes(written[1:5], "big") >= FIRST_ID
    assert AvroDeserializer(client(2), V2)(written, context) == {"number": 7, "note": None}
    AvroSerializer(client(2), V2)({"number": 8, "note": "n"}, context)
    assert client(0).get_versions("trips-value") == [1, 2]


def test_a_read_says_what_it_reflects(cluster: Started) -> None:
    """As other reads do: of now, of a past offset, and not of one that is not there; errors keep Confluent's shape."""
    before = int(ask(cluster, 0, "GET", "/subjects")[1]["quorate-offset"])
    status, headers, told = ask(cluster, 1, "POST", "/subjects/when-value/versions", {"schema": V1})
    after = int(headers["quorate-offset"])
    assert (status, list(told)) == (200, ["id"])
    assert after > before
    assert "when-value" in ask(cluster, 2, "GET", f"/subjects?min_offset={after}&level=at_least")[2]
    assert "when-value" not in ask(cluster, 2, "GET", f"/subjects?at={before}")[2]
    assert ask(cluster, 2, "GET", f"/subjects/when-value/versions/1?at={before}")[2]["error_code"] == 40401
    assert ask(cluster, 2, "GET", "/subjects?at=99999999")[2]["error_code"] == 416
    assert ask(cluster, 2, "GET", "/subjects?level=guess")[2]["error_code"] == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("POST", "/subjects/bad/versions", {}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": ""}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": 7}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": "[" * 20_000}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": '{"type":"record"}'}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": '"unheard"'}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": json.dumps("é" * 70_000)}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": V1, "schemaType": "PROTOBUF"}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": V1, "schemaType": "JSON"}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": V1, "references": [{"name": "x"}]}, 42201),
        ("POST", "/subjects/bad/versions", {"schema": V1, "id": 7}, 42201),
        ("POST", "/subjects/:.other:bad/versions", {"schema": V1}, 42208),
        ("POST", f"/subjects/{'n' * 300}/versions", {"schema": V1}, 42208),
        ("POST", "/subjects/bad", {"schema": V1}, 40401),
        ("POST", "/subjects/bad", {"schema": "{"}, 42201),
        ("POST", "/subjects/bad", ["no body"], 42201),
        ("GET", "/subjects/bad/versions/0", None, 42202),
        ("GET", "/subjects/bad/versions/x", None, 42202),
        ("GET", "/subjects/bad/versions/99999999999", None, 42202),
        ("GET", "/subjects/bad/versions/1", None, 40401),
        ("DELETE", "/subjects/bad/versions/x", None, 42202),
        ("DELETE", "/subjects/bad/versions/1", None, 40401),
        ("DELETE", "/subjects/bad", None, 40401),
        ("PUT", "/config/bad", {"compatibility": "UP"}, 42203),
        ("PUT", "/config", {"level": "FULL"}, 42203),
        ("PUT", "/config", [], 42203),
        ("PUT", f"/config/{'n' * 300}", {"compatibility": "FULL"}, 42208),
        ("POST", "/compatibility/subjects/bad/versions/1", {"schema": V1}, 40401),
        ("POST", "/compatibility/subjects/bad/versions/latest", {"schema": "{"}, 42201),
        ("GET", "/mode/bad", None, 40409),
        ("GET", "/config/bad", None, 40408),
        ("GET", "/schemas/ids/99999999999", None, 40403),
    ],
)
def test_bad_input_has_confluents_error_and_changes_nothing(
    cluster: Started, method: str, path: str, body: object, error: int
) -> None:
    """Status and body agree; the log is as long as it was."""
    before = ask(cluster, 0, "GET", "/subjects")[1]["quorate-offset"]
    status, _, told = ask(cluster, 1, method, path, body)
    assert (told["error_code"], status) == (error, error // 100)
    assert set(told) == {"error_code", "message"}
    assert ask(cluster, 0, "GET", "/subjects")[1]["quorate-offset"] == before


def test_no_web_page_registers(cluster: Started) -> None:
    """The doors of the other listeners' paths hold here: a foreign origin, and a body that does not say what it is."""
    body = {"schema": V1}
    assert ask(cluster, 0, "POST", "/subjects/page/versions", body, origin="http://evil.example")[0] == 403
    assert ask(cluster, 0, "POST", "/subjects/page/versions", body, **{"content-type": "text/plain"})[0] == 415
    assert ask(cluster, 0, "GET", "/subjects/page/versions")[2]["error_code"] == 40401


def test_the_command_line_registers_shows_judges_and_deletes(cluster: Started, tmp_path: Path) -> None:
    """At any node, and with the registry's own words where it says no."""
    old, new, worse = tmp_path / "old", tmp_path / "new", tmp_path / "worse"
    old.write_text(V1)
    new.write_text(V2)
    worse.write_text(record(NUMBER, {"name": "must", "type": "int"}))

    def said(node: int, *words: str) -> tuple[int, Any, str]:
        done = quorate("schemas", *words, "-o", "json", "--node", cluster.nodes[node]["http"])
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    subject = "shop/typed-value"
    number = said(0, "register", subject, str(old))[1]["id"]
    assert said(1, "register", subject, str(old))[:2] == (0, {"id": number})
    other = said(2, "register", subject, str(new))[1]["id"]
    assert said(1, "list", "--prefix", subject)[1] == [{"subject": subject, "version": 2, "id": other}]
    status, shown, _ = said(2, "show", subject, "--version", "1")
    assert (status, shown["id"], shown["versions"], json.loads(shown["schema"])) == (0, number, [1, 2], json.loads(V1))
    status, told, _ = said(0, "compatibility", subject, "--check", str(worse))
    assert (status, told["compatible"], bool(told["messages"])) == (1, False, True)
    status, _, why = said(1, "register", subject, str(worse))
    assert (status, "incompatible" in why) == (1, True), why
    assert said(1, "compatibility", subject, "--set", "NONE")[:2] == (0, {"subject": subject, "level": "NONE"})
    assert said(2, "compatibility", subject, "--check", str(worse))[0] == 0
    assert said(0, "compatibility", subject, "--unset")[1]["level"] == "BACKWARD"
    assert said(0, "delete", subject, "--version", "latest")[1] == {"versions": [2], "permanent": False}
    assert said(1, "delete", subject)[1]["versions"] == [1]
    status, _, why = said(2, "show", subject)
    assert (status, "not found" in why) == (1, True), why
    assert said(2, "show", subject, "--deleted")[1]["version"] == 2
    assert said(2, "delete", subject, "--permanent")[1] == {"versions": [1, 2], "permanent": True}
    status, _, why = said(0, "delete", "quorate.events.KeyPut")
    assert (status, bool(why)) == (1, True)
