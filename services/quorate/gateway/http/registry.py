"""The schema registry: Confluent's API, read-only, over the schemas this build was generated from.

Rules: errors are Confluent's (``error_code``, ``message``); what it does not know is 404, for stock deserializers ask
first for things only newer servers have; whatever would change it is 422. The log holds many types, so the subject
``<topic>-value`` has every schema, version n being schema id n; each event also has a subject of its own.
Source: Confluent Schema Registry API reference; ``TopicNameStrategy``, ``RecordNameStrategy``.
"""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from quorate.gateway.http.messages import REGISTRY_JSON, Response
from quorate.gateway.http.routing import Call

NAMESPACE = "quorate.events"
TYPE_UNKNOWN = (404, 40403, "Schema not found")
SUBJECT_UNKNOWN = (404, 40401, "Subject not found")
VERSION_UNKNOWN = (404, 40402, "Version not found")
VERSION_INVALID = (422, 42202, "The version is neither a number from 1 nor 'latest'")
READ_ONLY = (422, 42205, "This registry is read-only: schemas come with the build")


class _Named(msgspec.Struct):
    name: str


def registry_json(value: object, status: int = 200) -> Response:
    """A value in the registry's content type."""
    return Response(status, msgspec.json.encode(value), REGISTRY_JSON)


def registry_error(error: tuple[int, int, str]) -> Response:
    """(status, error code, message) as the registry says it."""
    status, code, message = error
    return registry_json({"error_code": code, "message": message}, status)


class Registry:
    """The handlers. ``schemas``: id → Avro JSON, ids from 1 without gaps."""

    def __init__(self, schemas: Mapping[int, str], topic: str) -> None:
        self._schemas = dict(sorted(schemas.items()))
        subjects: dict[str, dict[int, int]] = defaultdict(dict)
        for schema_id, text in self._schemas.items():
            subjects[f"{topic}-value"][schema_id] = schema_id
            of_event = subjects[f"{NAMESPACE}.{msgspec.json.decode(text, type=_Named).name}"]
            of_event[len(of_event) + 1] = schema_id
        self._subjects: dict[str, dict[int, int]] = dict(subjects)
        """Subject → version → schema id."""

    def subjects(self, call: Call) -> None:
        """GET /subjects."""
        prefix = call.request.query.get("subjectPrefix", "")
        call.respond(registry_json(sorted(name for name in self._subjects if name.startswith(prefix))))

    def versions(self, call: Call) -> None:
        """GET /subjects/{subject}/versions."""
        versions = self._subjects.get(call.found["subject"])
        call.respond(registry_json(list(versions)) if versions else registry_error(SUBJECT_UNKNOWN))

    def version(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}."""
        found = self._find(call.found["subject"], call.found["version"])
        if isinstance(found, Response):
            call.respond(found)
            return
        version, schema_id = found
        subject, schema = call.found["subject"], self._schemas[schema_id]
        call.respond(registry_json({"subject": subject, "version": version, "id": schema_id, "schema": schema}))

    def version_schema(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}/schema: the bare schema."""
        found = self._find(call.found["subject"], call.found["version"])
        if isinstance(found, Response):
            call.respond(found)
        else:
            call.respond(Response(200, self._schemas[found[1]].encode(), REGISTRY_JSON))

    def _find(self, subject: str, version: str) -> tuple[int, int] | Response:
        versions = self._subjects.get(subject)
        if versions is None:
            return registry_error(SUBJECT_UNKNOWN)
        if version in ("latest", "-1"):
            return max(versions.items())
        if not version.isdecimal() or len(version) > 9 or int(version) < 1:
            return registry_error(VERSION_INVALID)
        schema_id = versions.get(int(version))
        return registry_error(VERSION_UNKNOWN) if schema_id is None else (int(version), schema_id)

    def schema(self, call: Call) -> None:
        """GET /schemas/ids/{id}."""
        text = self._schema(call)
        call.respond(registry_json({"schema": text}) if text else registry_error(TYPE_UNKNOWN))

    def bare_schema(self, call: Call) -> None:
        """GET /schemas/ids/{id}/schema."""
        text = self._schema(call)
        call.respond(Response(200, text.encode(), REGISTRY_JSON) if text else registry_error(TYPE_UNKNOWN))

    def schema_versions(self, call: Call) -> None:
        """GET /schemas/ids/{id}/versions: where a schema is used."""
        if not self._schema(call):
            call.respond(registry_error(TYPE_UNKNOWN))
            return
        schema_id = int(call.found["id"])
        uses = [(s, v) for s, versions in sorted(self._subjects.items()) for v, i in versions.items() if i == schema_id]
        call.respond(registry_json([{"subject": subject, "version": version} for subject, version in uses]))

    def _schema(self, call: Call) -> str | None:
        text = call.found["id"]
        return self._schemas.get(int(text)) if text.isdecimal() and len(text) <= 9 else None

    def types(self, call: Call) -> None:
        """GET /schemas/types."""
        call.respond(registry_json(["AVRO"]))

    def compatibility(self, call: Call) -> None:
        """GET /config, GET /config/{subject}: what ``quorate.events.compat`` checks of every schema."""
        if call.found and call.found["subject"] not in self._subjects:
            call.respond(registry_error(SUBJECT_UNKNOWN))
        else:
            call.respond(registry_json({"compatibilityLevel": "FULL_TRANSITIVE"}))

    def mode(self, call: Call) -> None:
        """GET /mode."""
        call.respond(registry_json({"mode": "READONLY"}))

    def unknown(self, call: Call) -> None:
        """A part of the API that is not here; the answer that makes newer clients fall back."""
        call.respond(registry_error((404, 404, "HTTP 404 Not Found")))

    def refuse(self, call: Call) -> None:
        """Anything that would change the registry."""
        call.respond(registry_error(READ_ONLY))
