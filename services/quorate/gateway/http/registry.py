"""The schema registry's own part: Confluent's API, read-only, over the schemas this build was generated from.

Rules: errors are Confluent's (``error_code``, ``message``); what it does not know is 404, for stock deserializers ask
first for things only newer servers have; whatever would change it is 422. A look-up is a POST and changes nothing;
to register what is there already is one too (Confluent's ``registerOrForward`` looks first). The log holds many types,
so the subject ``<topic>-value`` has every schema, version n being schema id n; each event also has one of its own.
Source: Confluent Schema Registry API reference; ``TopicNameStrategy``, ``RecordNameStrategy``.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from quorate.gateway.http.messages import REGISTRY_JSON, Response
from quorate.gateway.http.routing import Call

NAMESPACE = "quorate.events"
TYPE_UNKNOWN = (404, 40403, "Schema not found")
SUBJECT_UNKNOWN = (404, 40401, "Subject not found")
VERSION_UNKNOWN = (404, 40402, "Version not found")
SCHEMA_INVALID = (422, 42201, 'The schema is no JSON text in {"schema": …}')
NOT_CHECKED = (422, 42205, "The log's own subjects are read-only: they are compared when schemas come with a build")
NO_SUCH_CALL = (405, 405, "HTTP 405 Method Not Allowed")
VERSION_INVALID = (422, 42202, "The version is neither a number from 1 nor 'latest'")
READ_ONLY = (422, 42205, "The log's own subjects, and all modes, are read-only: the log's schemas come with the build")


class _Named(msgspec.Struct):
    name: str


class AskedSchema(msgspec.Struct, rename="camel"):
    """Body of what names a schema; whatever else clients put there changes nothing here."""

    schema: str
    schema_type: str | None = None
    references: Sequence[object] | None = None
    id: int | None = None
    version: int | None = None
    metadata: dict[str, object] | None = None
    rule_set: dict[str, object] | None = None

    @property
    def unheeded(self) -> str:
        """What is asked for and would not be done; empty: nothing."""
        asked = {
            "references": self.references,
            "metadata": self.metadata,
            "ruleSet": self.rule_set,
            "id": self.id not in (None, 0, -1),
            "version": self.version not in (None, 0, -1),
        }
        return ", ".join(name for name, value in asked.items() if value)


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
        self._parsed = {schema_id: msgspec.json.decode(text) for schema_id, text in self._schemas.items()}

    def subjects(self, call: Call) -> None:
        """GET /subjects."""
        prefix = call.request.query.get("subjectPrefix", "")
        call.respond(registry_json(sorted(name for name in self._subjects if name.startswith(prefix))))

    def look_up(self, call: Call) -> None:
        """POST /subjects/{subject}: which version of it is this schema?"""
        outcome = self._same(call, call.found["subject"])
        if isinstance(outcome, Response):
            call.respond(outcome)
        else:
            call.respond(self._told(call.found["subject"], outcome))

    def register(self, call: Call) -> None:
        """POST /subjects/{subject}/versions: a schema that is there has its id, no other comes in."""
        outcome = self._same(call, call.found["subject"])
        if isinstance(outcome, Response):
            call.respond(registry_error(READ_ONLY) if outcome.status == 404 else outcome)
        else:
            call.respond(registry_json({"id": self._subjects[call.found["subject"]][outcome]}))

    def compatible(self, call: Call) -> None:
        """POST /compatibility/subjects/{subject}/versions[/{version}]: a version of it is; others are not judged."""
        subject, version = call.found["subject"], call.found.get("version", "latest")
        target = self._find(subject, version)
        outcome = target if isinstance(target, Response) else self._same(call, subject)
        if not isinstance(outcome, Response):
            call.respond(registry_json({"is_compatible": True}))
        else:
            unjudged = outcome is not target and outcome.status == 404
            call.respond(registry_error(NOT_CHECKED) if unjudged else outcome)

    def _same(self, call: Call, subject: str) -> int | Response:
        """The subject's version that is the schema of this body, however it is written."""
        versions = self._subjects.get(subject)
        if versions is None:
            return registry_error(SUBJECT_UNKNOWN)
        try:
            asked = msgspec.json.decode(call.request.body, type=AskedSchema)
            schema = msgspec.json.decode(asked.schema)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return registry_error(SCHEMA_INVALID)
        same = [version for version, schema_id in versions.items() if self._parsed[schema_id] == schema]
        if not same or asked.schema_type not in (None, "AVRO"):
            return registry_error(TYPE_UNKNOWN)
        return same[-1]

    def _told(self, subject: str, version: int) -> Response:
        schema_id = self._subjects[subject][version]
        schema = self._schemas[schema_id]
        return registry_json({"subject": subject, "version": version, "id": schema_id, "schema": schema})

    def schemas(self, call: Call) -> None:
        """GET /schemas: every version of every subject."""
        prefix, latest = call.request.query.get("subjectPrefix", ""), call.request.query.get("latestOnly") == "true"
        items = [
            {
                "subject": subject,
                "version": version,
                "id": versions[version],
                "schema": self._schemas[versions[version]],
            }
            for subject, versions in sorted(self._subjects.items())
            if subject.startswith(prefix)
            for version in (list(versions)[-1:] if latest else versions)
        ]
        call.respond(registry_json(items))

    def schema_subjects(self, call: Call) -> None:
        """GET /schemas/ids/{id}/subjects."""
        if not self._schema(call):
            call.respond(registry_error(TYPE_UNKNOWN))
            return
        schema_id = int(call.found["id"])
        call.respond(
            registry_json(sorted(s for s, versions in self._subjects.items() if schema_id in versions.values()))
        )

    def contexts(self, call: Call) -> None:
        """GET /contexts: the default one."""
        call.respond(registry_json(["."]))

    def versions(self, call: Call) -> None:
        """GET /subjects/{subject}/versions."""
        versions = self._subjects.get(call.found["subject"])
        call.respond(registry_json(list(versions)) if versions else registry_error(SUBJECT_UNKNOWN))

    def version(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}."""
        outcome = self._find(call.found["subject"], call.found["version"])
        if isinstance(outcome, Response):
            call.respond(outcome)
            return
        call.respond(self._told(call.found["subject"], outcome[0]))

    def version_schema(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}/schema: the bare schema."""
        outcome = self._find(call.found["subject"], call.found["version"])
        if isinstance(outcome, Response):
            call.respond(outcome)
        else:
            call.respond(Response(200, self._schemas[outcome[1]].encode(), REGISTRY_JSON))

    def referenced_by(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}/referencedby: nobody, for no schema refers to another."""
        outcome = self._find(call.found["subject"], call.found["version"])
        call.respond(outcome if isinstance(outcome, Response) else registry_json([]))

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
        """GET /mode, GET /mode/{subject}."""
        if call.found and call.found["subject"] not in self._subjects:
            call.respond(registry_error(SUBJECT_UNKNOWN))
        else:
            call.respond(registry_json({"mode": "READONLY"}))

    def no_such_call(self, call: Call) -> None:
        """A method that no version of the API has at this path."""
        call.respond(registry_error(NO_SUCH_CALL))

    def unknown(self, call: Call) -> None:
        """A part of the API that is not here; the answer that makes newer clients fall back."""
        call.respond(registry_error((404, 404, "HTTP 404 Not Found")))

    def refuse(self, call: Call) -> None:
        """Anything that would change the registry."""
        call.respond(registry_error(READ_ONLY))

    def set_compatibility(self, call: Call) -> None:
        """PUT /config, PUT /config/{subject}."""
        self.refuse(call)

    def unset_compatibility(self, call: Call) -> None:
        """DELETE /config, DELETE /config/{subject}."""
        self.refuse(call)

    def delete_subject(self, call: Call) -> None:
        """DELETE /subjects/{subject}."""
        self.refuse(call)

    def delete_version(self, call: Call) -> None:
        """DELETE /subjects/{subject}/versions/{version}."""
        self.refuse(call)
