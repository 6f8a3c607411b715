"""The schema registry of other services: Confluent's API over the schemas in the log.

Rules: subjects and ids of the log's own events are the read-only part (registry.py) and stay so. Writes are commands,
taken by any node and answered once this node has applied them. Reads are as fresh as other reads (``level``,
``min_offset``, ``at``); the header ``quorate-offset`` says what an answer reflects. What an id stands for never
changes: a node that has it asks nobody. Errors are Confluent's, in its shape; 50002 means that nobody knows what became
of a write, 50003 that nothing was done.
Source: Confluent Schema Registry API reference; ``io.confluent.kafka.schemaregistry.rest.exceptions.Errors`` of 7.9.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from quorate.controller import Answered, Caller, Outcome, Refused, UnknownOutcome
from quorate.controller.views import ReadView
from quorate.errors import UsageError
from quorate.gateway.first_answers import FirstAnswers
from quorate.gateway.fresh import Freshness, NotFresh
from quorate.gateway.http.asking import Asking, freshness
from quorate.gateway.http.context import PRINCIPAL, HttpContext
from quorate.gateway.http.messages import REGISTRY_JSON, HttpError, Response
from quorate.gateway.http.registry import AskedSchema, Registry, registry_error, registry_json
from quorate.gateway.http.registry_errors import (
    INVALID_SCHEMA,
    NOT_FORWARDED,
    SCHEMA_UNKNOWN,
    TIMED_OUT,
    error,
    failed,
    no_version,
    not_fresh,
    refused,
    unknown,
)
from quorate.gateway.http.routing import Call
from quorate.metadata.commands import (
    ChangeConfig,
    Command,
    DeleteSchema,
    Refusal,
    RegisterSchema,
    Reply,
    SchemaIs,
    SchemasAreDeleted,
)
from quorate.metadata.limits import SCOPE
from quorate.metadata.subjects import FIRST_ID, LATEST, broken, schema_text
from quorate.model.rows import ROWS_PER_STEP
from quorate.model.state import State, SubjectVersion
from quorate.model.subjects import (
    COMPATIBILITY,
    LEVELS,
    SCHEMAS_COMPATIBILITY,
    is_level,
    level_in_force,
    living_versions,
    own_level,
)
from quorate.slices import Steps, in_slices, sorting

Make = Callable[[State], Steps[Response]]

SEARCHED_MAX: Final = 200
"""Schemas of one answer to ``GET /schemas``."""


class _Level(msgspec.Struct):
    """Body of PUT /config."""

    compatibility: str


class Subjects(Registry):
    """The handlers."""

    def __init__(self, context: HttpContext, asking: Asking, commands: FirstAnswers, own: Mapping[int, str]) -> None:
        super().__init__(own, context.node.topic)
        self._context = context
        self._commands = commands
        self._asking = asking

    # Reads.

    def subjects(self, call: Call) -> None:
        """GET /subjects; with ``deleted=true`` those too of which all versions are."""
        query = call.request.query
        prefix, deleted = query.get("subjectPrefix", ""), _is_true(call, "deleted")

        def make(state: State) -> Steps[Response]:
            found = [name for name in self._subjects if name.startswith(prefix)]
            for count, (name, subject) in enumerate(state.subjects.items(), start=1):
                if name.startswith(prefix) and (deleted or living_versions(subject)):
                    found.append(name)
                if count % ROWS_PER_STEP == 0:
                    yield
            return registry_json(sorted(found))

        self._read(call, make)

    def schemas(self, call: Call) -> None:
        """GET /schemas: versions by subject, a page of them (``offset``, ``limit``)."""
        prefix, deleted = call.request.query.get("subjectPrefix", ""), _is_true(call, "deleted")
        latest, start = _is_true(call, "latestOnly"), _count(call, "offset", 0)
        most = min(_count(call, "limit", SEARCHED_MAX), SEARCHED_MAX)

        def make(state: State) -> Steps[Response]:
            page: list[msgspec.Raw] = []
            passed = 0
            meant = (name for name in {*self._subjects, *state.subjects} if name.startswith(prefix))
            for name in (yield from sorting(meant)):
                yield
                versions = self._versions(state, name, deleted=deleted)
                chosen = versions[-1:] if latest else versions
                left = chosen[max(start - passed, 0) :][: most - len(page)]
                passed += len(chosen)
                for version in left:  # Each is encoded in a step of its own: a schema may have 64 KiB.
                    page.append(msgspec.Raw(msgspec.json.encode(self._item(state, name, *version))))
                    yield
                if len(page) == most:
                    break
            return registry_json(page)

        self._read(call, make)

    def look_up(self, call: Call) -> None:
        """POST /subjects/{subject}."""
        subject = call.found["subject"]
        if subject in self._subjects:
            super().look_up(call)
            return
        deleted = _is_true(call, "deleted")

        def make(state: State) -> Steps[Response]:
            yield
            asked = _asked(call)
            schema_id = state.schema_ids.get(schema_text(asked.schema, asked.schema_type or "AVRO"))
            if not self._versions(state, subject, deleted=deleted):
                return registry_error(unknown(subject))
            same = [version for version in self._versions(state, subject, deleted=deleted) if version[1] == schema_id]
            return registry_json(self._item(state, subject, *same[-1])) if same else registry_error(SCHEMA_UNKNOWN)

        self._read(call, make)

    def compatible(self, call: Call) -> None:
        """POST /compatibility/subjects/{subject}/versions[/{version}]: by the level in force."""
        subject, version = call.found["subject"], call.found.get("version")
        if subject in self._subjects:
            super().compatible(call)
            return

        def make(state: State) -> Steps[Response]:
            yield
            asked, living = _asked(call), living_versions(state.subjects.get(subject))
            if version is not None and (living or not _is_latest(version)):
                found = self._find_in(state, subject, version, deleted=False)
                if isinstance(found, Response):
                    return found
                living = tuple(one for one in living if one.version == found[0])
            text = schema_text(asked.schema, asked.schema_type or "AVRO")
            told = broken(state, level_in_force(state, subject), text, living)
            if isinstance(told, Refusal):
                return registry_error(refused(told))
            messages = {"messages": told} if _is_true(call, "verbose") else {}
            return registry_json({"is_compatible": not told, **messages})

        self._read(call, make)

    def versions(self, call: Call) -> None:
        """GET /subjects/{subject}/versions."""
        subject, deleted = call.found["subject"], _is_true(call, "deleted")

        def make(state: State) -> Steps[Response]:
            yield
            found = self._versions(state, subject, deleted=deleted)
            return registry_json([version for version, _ in found]) if found else registry_error(unknown(subject))

        self._read(call, make, static=subject in self._subjects)

    def version(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}."""
        self._one(call, lambda state, subject, found: registry_json(self._item(state, subject, *found)))

    def version_schema(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}/schema: the bare schema."""
        self._one(call, lambda state, _, found: _bare(self._text(state, found[1])))

    def referenced_by(self, call: Call) -> None:
        """GET /subjects/{subject}/versions/{version}/referencedby."""
        self._one(call, lambda *_: registry_json([]))

    def _one(self, call: Call, told: Callable[[State, str, tuple[int, int]], Response]) -> None:
        subject, deleted = call.found["subject"], _is_true(call, "deleted")

        def make(state: State) -> Steps[Response]:
            yield
            found = self._find_in(state, subject, call.found["version"], deleted=deleted)
            return found if isinstance(found, Response) else told(state, subject, found)

        self._read(call, make, static=subject in self._subjects)

    def schema(self, call: Call) -> None:
        """GET /schemas/ids/{id}."""
        self._by_id(call, super().schema, lambda text: registry_json({"schema": text}))

    def bare_schema(self, call: Call) -> None:
        """GET /schemas/ids/{id}/schema."""
        self._by_id(call, super().bare_schema, _bare)

    def _by_id(self, call: Call, own: Callable[[Call], None], told: Callable[[str], Response]) -> None:
        number = self._foreign_id(call)
        if not number:
            own(call)
            return

        def make(state: State) -> Steps[Response]:
            yield
            schema = state.schemas.get(number)
            return registry_error(SCHEMA_UNKNOWN) if schema is None else told(schema.schema)

        self._read(call, make, static=number in self._context.controller.state.schemas)

    def schema_subjects(self, call: Call) -> None:
        """GET /schemas/ids/{id}/subjects."""
        if self._foreign_id(call):
            self._uses(call, lambda uses: sorted({subject for subject, _ in uses}))
        else:
            super().schema_subjects(call)

    def schema_versions(self, call: Call) -> None:
        """GET /schemas/ids/{id}/versions."""
        if self._foreign_id(call):
            self._uses(call, lambda uses: [{"subject": subject, "version": version} for subject, version in uses])
        else:
            super().schema_versions(call)

    def _uses(self, call: Call, told: Callable[[list[tuple[str, int]]], object]) -> None:
        number, deleted = self._foreign_id(call), _is_true(call, "deleted")

        def make(state: State) -> Steps[Response]:
            if number not in state.schemas:
                return registry_error(SCHEMA_UNKNOWN)
            uses = []
            for count, (name, subject) in enumerate(state.subjects.items(), start=1):
                versions = subject.versions if deleted else living_versions(subject)
                uses += [(name, one.version) for one in versions if one.schema_id == number]
                if count % ROWS_PER_STEP == 0:
                    yield
            return registry_json(told(sorted(uses)))

        self._read(call, make)

    def compatibility(self, call: Call) -> None:
        """GET /config, GET /config/{subject}: of one without a level of its own only with ``defaultToGlobal=true``."""
        subject = call.found.get("subject", "")
        if subject in self._subjects:
            super().compatibility(call)
            return

        def make(state: State) -> Steps[Response]:
            yield
            if subject and not own_level(state, subject) and not _is_true(call, "defaultToGlobal"):
                told = f"Subject '{subject}' does not have subject-level compatibility configured"
                return registry_error(error(40408, told))
            return registry_json({"compatibilityLevel": level_in_force(state, subject)})

        self._read(call, make)

    def mode(self, call: Call) -> None:
        """GET /mode, GET /mode/{subject}: there is one mode for all but the log's own."""
        subject = call.found.get("subject", "")
        if subject in self._subjects:
            super().mode(call)
        elif subject and not _is_true(call, "defaultToGlobal"):
            call.respond(
                registry_error(error(40409, f"Subject '{subject}' does not have subject-level mode configured"))
            )
        else:
            call.respond(registry_json({"mode": "READWRITE"}))

    # Writes.

    def register(self, call: Call) -> None:
        """POST /subjects/{subject}/versions."""
        subject = call.found["subject"]
        if subject in self._subjects:
            super().register(call)
            return
        asked = self._decoded(call)
        if asked is not None:
            command = RegisterSchema(subject=subject, schema=asked.schema, schema_type=asked.schema_type or "AVRO")
            self._submit(call, command, lambda reply: {"id": reply.schema_id} if isinstance(reply, SchemaIs) else None)

    def delete_subject(self, call: Call) -> None:
        """DELETE /subjects/{subject}."""
        command = DeleteSchema(subject=call.found["subject"], permanent=_is_true(call, "permanent"))
        self._delete(call, command, list)

    def delete_version(self, call: Call) -> None:
        """DELETE /subjects/{subject}/versions/{version}."""
        number = _number(call.found["version"])
        if number is None:
            call.respond(registry_error(no_version(call.found["version"])))
            return
        command = DeleteSchema(subject=call.found["subject"], version=number, permanent=_is_true(call, "permanent"))
        self._delete(call, command, lambda versions: versions[0])

    def _delete(self, call: Call, command: DeleteSchema, told: Callable[[tuple[int, ...]], object]) -> None:
        if command.subject in self._subjects:
            self.refuse(call)
        else:
            self._submit(
                call, command, lambda reply: told(reply.versions) if isinstance(reply, SchemasAreDeleted) else None
            )

    def set_compatibility(self, call: Call) -> None:
        """PUT /config, PUT /config/{subject}."""
        if call.found.get("subject") in self._subjects:
            self.refuse(call)
            return
        try:
            level = msgspec.json.decode(call.request.body, type=_Level).compatibility.upper()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            level = ""
        if is_level(level):
            self._change_level(call, level, {"compatibility": level})
        else:
            valid = ", ".join(name.lower() for name in LEVELS)
            call.respond(registry_error(error(42203, f"Invalid compatibility level. Valid values are {valid}")))

    def unset_compatibility(self, call: Call) -> None:
        """DELETE /config, DELETE /config/{subject}: answers with the level that was in force, as this node knows."""
        before = level_in_force(self._context.controller.state, call.found.get("subject", ""))
        self._change_level(call, None, {"compatibilityLevel": before})

    def _change_level(self, call: Call, level: str | None, told: object) -> None:
        subject = call.found.get("subject", "")
        if subject in self._subjects:
            self.refuse(call)
            return
        scope, name = (f"subject/{subject}", COMPATIBILITY) if subject else (SCOPE, SCHEMAS_COMPATIBILITY)
        self._submit(call, ChangeConfig(scope=scope, changes={name: level}), lambda _: told)

    # How both come about.

    def _foreign_id(self, call: Call) -> int:
        """The id that is asked for, where it is none of the log's own; 0: it is, or it is none."""
        text = call.found["id"]
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else 0
        return number if number >= FIRST_ID else 0

    def _versions(self, state: State, subject: str, *, deleted: bool) -> list[tuple[int, int]]:
        """Version and schema id of each."""
        own = self._subjects.get(subject)
        if own is not None:
            return list(own.items())
        found = state.subjects.get(subject)
        versions: Iterable[SubjectVersion] = () if found is None else found.versions
        return [(one.version, one.schema_id) for one in versions if deleted or not one.deleted]

    def _find_in(self, state: State, subject: str, version: str, *, deleted: bool) -> tuple[int, int] | Response:
        versions, number = self._versions(state, subject, deleted=deleted), _number(version)
        if number is None:
            return registry_error(no_version(version))
        if not versions:
            return registry_error(unknown(subject))
        if number == LATEST:
            return versions[-1]
        found = next((one for one in versions if one[0] == number), None)
        return registry_error(error(40402, f"Version {number} not found.")) if found is None else found

    def _text(self, state: State, schema_id: int) -> str:
        return self._schemas.get(schema_id) or state.schemas[schema_id].schema

    def _item(self, state: State, subject: str, version: int, schema_id: int) -> dict[str, object]:
        return {"subject": subject, "version": version, "id": schema_id, "schema": self._text(state, schema_id)}

    def _read(self, call: Call, make: Make, *, static: bool = False) -> None:
        """``static``: what is asked for cannot have changed, so this node's own state will do."""

        def seen(view: ReadView | NotFresh) -> None:
            if isinstance(view, NotFresh):
                call.respond(registry_error(not_fresh(view)))
                return
            stamp = ("quorate-offset", str(view.offset))

            def answered(made: Callable[[], Response]) -> None:
                call.settle(lambda: msgspec.structs.replace(_settled(made), headers=(stamp,)))

            in_slices(make(view.state), self._context.scheduler, answered)

        try:
            self._asking.admit("ReadSchemas")
            fresh = freshness(call, "stale" if static else "linearizable")
        except HttpError as trouble:
            call.respond(registry_error(failed(trouble)))
        else:
            self._context.fresh.read(fresh, seen)

    def _decoded(self, call: Call) -> AskedSchema | None:
        try:
            return _asked(call)
        except UsageError as reason:
            call.respond(registry_error(error(INVALID_SCHEMA, str(reason))))
            return None

    def _submit(self, call: Call, command: Command, told: Callable[[Reply], object]) -> None:
        context, operation, subject = self._context, type(command).__name__, call.found.get("subject", "")
        if not context.access.authorize(PRINCIPAL, operation, f"subject/{subject}"):
            call.respond(registry_error(error(403, f"{operation} of {subject} is not allowed")))
        elif not context.quota.admit(PRINCIPAL, operation):
            call.respond(registry_error(error(429, f"too many {operation}")))
        else:
            caller = Caller(PRINCIPAL, call.request.address)
            request_id, started = call.request.headers.get("idempotency-key", ""), context.scheduler.monotonic()
            self._commands.submit(
                command, caller, lambda end: self._ended(call, end, told, started), cause="http", request_id=request_id
            )

    def _ended(self, call: Call, outcome: Outcome, told: Callable[[Reply], object], started: float) -> None:
        match outcome:
            case Answered():
                stamp = ("quorate-offset", str(outcome.offset))
                answer = msgspec.structs.replace(registry_json(told(outcome.reply)), headers=(stamp,))
                applied = Freshness(linearizable=False, min_offset=outcome.offset)
                self._context.fresh.read(applied, lambda _: call.respond(answer), started=started)
            case Refused(refusal, _):
                call.respond(registry_error(refused(refusal)))
            case UnknownOutcome(reason):
                call.respond(registry_error(error(TIMED_OUT, f"Operation timed out: {reason}; it may have been done")))
            case _:
                told_why = "there is no leader in reach, or it has too much to do; nothing was done"
                call.respond(registry_error(error(NOT_FORWARDED, told_why)))


def _settled(made: Callable[[], Response]) -> Response:
    """The answer; a schema that is none is told as such."""
    try:
        return made()
    except UsageError as reason:
        return registry_error(error(INVALID_SCHEMA, str(reason)))


def _asked(call: Call) -> AskedSchema:
    """Raises UsageError."""
    try:
        asked = msgspec.json.decode(call.request.body, type=AskedSchema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError('The schema is no JSON text in {"schema": …}') from None
    if asked.unheeded:
        raise UsageError(f"{asked.unheeded}: not heeded here, so not taken")
    return asked


def _is_true(call: Call, name: str) -> bool:
    return call.request.query.get(name, "").lower() == "true"


def _is_latest(version: str) -> bool:
    return version in ("latest", "-1")


def _number(version: str) -> int | None:
    """Which version; None: no text of one."""
    if _is_latest(version):
        return LATEST
    number = int(version) if version.isascii() and version.isdecimal() and len(version) <= 10 else 0
    return number if 0 < number < 2**31 else None


def _bare(text: str) -> Response:
    return Response(200, text.encode(), REGISTRY_JSON)


def _count(call: Call, name: str, unsaid: int) -> int:
    """A number of the query string; what is none, or negative, is as if it were not said (as Confluent's -1)."""
    text = call.request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else unsaid
