"""The schema registry by Confluent's own client, and what that client does not ask."""

import json
from typing import Any

import pytest

from quorate.events import SCHEMAS
from quorate.gateway.http.interface import REGISTRY_PARTS, registry_routes
from quorate.gateway.http.messages import Request, Response
from quorate.gateway.http.registry import Registry
from quorate.gateway.http.routing import Router
from tests.newer import served

SUBJECT = "the.topic-value"
ROUTER = Router(registry_routes(Registry(SCHEMAS, "the.topic")))


def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
    """(status, answer) of the registry."""
    answers: list[Response] = []
    path, _, query = path.partition("?")
    told = dict(part.split("=") for part in query.split("&")) if query else {}
    segments = tuple(part for part in path.split("/") if part)
    ROUTER(Request(method, segments, told, {}, json.dumps(body).encode(), "127.0.0.1:1"), answers.append)
    (answer,) = answers
    assert answer.content_type == "application/vnd.schemaregistry.v1+json"
    return answer.status, json.loads(answer.body)


def test_confluents_client_gets_what_it_asks_for() -> None:
    """Every reading call, the look-up of a schema, and the registration of one that is there; a new one is refused."""
    confluent = pytest.importorskip("confluent_kafka.schema_registry", reason="absent peer", exc_type=ImportError)
    with served(SCHEMAS) as address, confluent.SchemaRegistryClient({"url": f"http://{address}"}) as client:
        for schema_id, text in SCHEMAS.items():
            schema = confluent.Schema(json.dumps(json.loads(text), indent=1), "AVRO")
            found = client.lookup_schema(SUBJECT, schema)
            assert (found.subject, found.version, found.schema_id) == (SUBJECT, schema_id, schema_id)
            assert client.register_schema(SUBJECT, schema) == schema_id
        assert SUBJECT in client.get_subjects()
        assert client.get_versions(SUBJECT) == list(SCHEMAS)
        assert client.get_referenced_by(SUBJECT) == client.get_referenced_by(SUBJECT, 1) == []
        assert client.get_latest_version(SUBJECT).schema_id == len(SCHEMAS)
        assert client.test_compatibility(SUBJECT, confluent.Schema(SCHEMAS[len(SCHEMAS)], "AVRO"))
        assert client.get_compatibility() == "FULL_TRANSITIVE"
        new = confluent.Schema('{"type": "record", "name": "New", "fields": []}', "AVRO")
        errors = []
        for call in (client.lookup_schema, client.register_schema, client.test_compatibility):
            with pytest.raises(confluent.SchemaRegistryError) as raised:
                call(SUBJECT, new)
            errors.append((raised.value.http_status_code, raised.value.error_code))
        assert errors == [(404, 40403), (422, 42205), (422, 42205)]
        with pytest.raises(confluent.SchemaRegistryError) as raised:
            client.lookup_schema("unheard-of", new)
        assert raised.value.error_code == 40401


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "part"),
    [
        ("POST", f"/subjects/{SUBJECT}", {"schema": "{"}, 422, {"error_code": 42201}),
        ("POST", f"/subjects/{SUBJECT}", ["no body"], 422, {"error_code": 42201}),
        ("POST", f"/subjects/{SUBJECT}", {"schema": "[" * 5_000}, 422, {"error_code": 42201}),
        ("POST", f"/subjects/{SUBJECT}", {"schema": SCHEMAS[1], "schemaType": "JSON"}, 404, {"error_code": 40403}),
        ("POST", f"/subjects/{SUBJECT}", {"schema": SCHEMAS[1], "schemaType": "AVRO"}, 200, {"id": 1}),
        ("POST", f"/compatibility/subjects/{SUBJECT}/versions/9999", {"schema": "{}"}, 404, {"error_code": 40402}),
        ("POST", f"/compatibility/subjects/{SUBJECT}/versions", {"schema": SCHEMAS[1]}, 200, {"is_compatible": True}),
        ("POST", "/compatibility/subjects/nope/versions/1", {"schema": "{}"}, 404, {"error_code": 40401}),
        ("GET", "/mode/nope", None, 404, {"error_code": 40401}),
        ("GET", f"/mode/{SUBJECT}", None, 200, {"mode": "READONLY"}),
        ("GET", "/schemas/ids/9999/subjects", None, 404, {"error_code": 40403}),
    ],
)
def test_what_is_asked_and_what_is_told(
    method: str, path: str, body: object, status: int, part: dict[str, Any]
) -> None:
    """Statuses and error codes are those of Confluent's API reference."""
    found = ask(method, path, body)
    assert found[0] == status
    assert {name: found[1][name] for name in part} == part


def test_lists() -> None:
    """Contexts, all schemas, those of some subjects, only the latest of each; and whose a schema is."""
    assert ask("GET", "/contexts") == (200, ["."])
    everything = ask("GET", "/schemas")[1]
    assert len(everything) == 2 * len(SCHEMAS)
    latest = ask("GET", "/schemas?latestOnly=true&subjectPrefix=the.")[1]
    assert [(one["subject"], one["version"], one["id"]) for one in latest] == [(SUBJECT, len(SCHEMAS), len(SCHEMAS))]
    name = json.loads(SCHEMAS[1])["name"]
    assert ask("GET", "/schemas/ids/1/subjects") == (200, [f"quorate.events.{name}", SUBJECT])


@pytest.mark.parametrize("part", REGISTRY_PARTS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_what_is_not_there_is_told_in_the_registry_s_own_shape(method: str, part: str) -> None:
    """Stock clients look for ``error_code``, whatever they ask for below these paths."""
    for path in (f"/{part}/what/ever/this/is", f"/{part}"):
        status, found = ask(method, path)
        if status != 200:
            assert set(found) == {"error_code", "message"}, path
            assert str(found["error_code"])[:3] == str(status)
