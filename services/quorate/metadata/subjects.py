"""Schemas of other services: registered and deleted by the rules of Confluent's schema registry.

Rules: a schema has one id, whoever registers it, and keeps it for ever: what is deleted is a subject's version. Ids
follow one another from ``FIRST_ID``, above every one of the log's own. A new version is checked against those before
it that are not deleted, by the level in force (model/subjects.py). To register what is there already changes nothing.
Source: Confluent Schema Registry API reference; ``KafkaSchemaRegistry.register`` and ``deleteSubject`` of 7.9.
"""

from typing import Final

from quorate.errors import UsageError
from quorate.events import Event, SchemaAdded, SchemaDeleted, SchemaRegistered
from quorate.metadata.avro_schemas import canonical, types_of
from quorate.metadata.commands import DeleteSchema, Refusal, RegisterSchema, SchemaIs, SchemasAreDeleted
from quorate.metadata.compatibility import TooManyComparisonsError, breaks
from quorate.metadata.context import Context, Decision
from quorate.metadata.refusals import refuse
from quorate.metadata.texts import fits
from quorate.model.state import State, Subject, SubjectVersion
from quorate.model.subjects import level_in_force, living_versions

FIRST_ID: Final = 1_000_001
"""Ids of the log's own schemas are below."""
LATEST: Final = -1
"""As a version: the newest that is not deleted."""
RESERVED: Final = "quorate.events."
"""Subjects of the log's own events begin so."""
SCHEMAS_MAX: Final = 50_000
SUBJECTS_MAX: Final = 20_000
VERSIONS_MAX: Final = 1_000
"""Of one subject, deleted ones too."""
_INCOMPATIBLE: Final = "Schema being registered is incompatible with an earlier schema for subject"
COMPARED_BYTES_MAX: Final = 512 * 1024
"""Of the schemas that a new one is compared with."""


def register_schema(state: State, command: RegisterSchema, context: Context) -> Decision | Refusal:
    """Refuses InvalidSubject, ReservedSubject, InvalidSchema, SchemaIncompatible, SchemaTooLarge, TooManySchemas."""
    if (refusal := _refused_name(command.subject, context)) is not None:
        return refusal
    try:
        text = schema_text(command.schema, command.schema_type)
    except UsageError as error:
        return refuse("InvalidSchema", str(error))
    subject, schema_id = state.subjects.get(command.subject), state.schema_ids.get(text)
    living = living_versions(subject)
    same = next((one for one in living if one.schema_id == schema_id), None)
    if same is not None:
        return Decision((), SchemaIs(schema_id=same.schema_id, version=same.version))
    level = level_in_force(state, command.subject)
    told = broken(state, level, text, living)
    if isinstance(told, Refusal):
        return told
    if told:
        return refuse("SchemaIncompatible", f'{_INCOMPATIBLE} "{command.subject}", details: {told}; level {level}')
    if (refusal := _refused_number(state, subject, schema_id)) is not None:
        return refusal
    events: list[Event] = []
    if schema_id is None:
        schema_id = FIRST_ID + len(state.schemas)
        events.append(SchemaAdded(schema_id=schema_id, schema_type="AVRO", schema=text))
    version = 1 if subject is None else subject.versions[-1].version + 1
    events.append(SchemaRegistered(subject=command.subject, version=version, schema_id=schema_id, compatibility=level))
    return Decision(tuple(events), SchemaIs(schema_id=schema_id, version=version))


def delete_schema(state: State, command: DeleteSchema, context: Context) -> Decision | Refusal:
    """What is not deleted yet is hidden; what is, and nothing else, goes for good (``permanent``).

    Refuses SubjectNotFound, SubjectDeleted, SubjectNotDeleted, VersionNotFound, VersionDeleted, VersionNotDeleted.
    """
    name, subject = command.subject, state.subjects.get(command.subject)
    if subject is None:
        return refuse("SubjectNotFound", f"Subject '{name}' not found.")
    found = _to_delete(subject, command)
    if isinstance(found, Refusal):
        return found
    numbers = tuple(one.version for one in found)
    event = SchemaDeleted(subject=name, versions=numbers, permanent=command.permanent)
    return Decision((event,), SchemasAreDeleted(versions=numbers))


def schema_text(schema: str, schema_type: str) -> str:
    """The text that stands for a schema of this type. Raises UsageError: why there is none."""
    if schema_type != "AVRO":
        raise UsageError(f"schemas are AVRO here; {schema_type[:40]!r} would not be checked")
    return canonical(schema)


def broken(state: State, level: str, text: str, before: tuple[SubjectVersion, ...]) -> list[str] | Refusal:
    """Why a schema may not follow these versions, in sentences. Refuses SchemaTooLarge."""
    if not level.endswith("_TRANSITIVE"):
        before = before[-1:]
    texts = [state.schemas[one.schema_id].schema for one in before] if level != "NONE" else []
    if sum(map(len, texts)) > COMPARED_BYTES_MAX:
        most = (
            f"at most {COMPARED_BYTES_MAX} bytes of them; delete old versions, or take a level that is not transitive"
        )
        return refuse("SchemaTooLarge", f"a new schema is compared with {most}")
    try:
        earlier = [(one.version, types_of(found)) for one, found in zip(before, texts, strict=False)]
        # The types of what nobody registered are not kept: anybody may ask about any text.
        return breaks(level, types_of(text, kept=text in state.schema_ids), earlier)
    except TooManyComparisonsError:
        return refuse("SchemaTooLarge", "these schemas are too large to be compared with each other")


def _refused_name(subject: str, context: Context) -> Refusal | None:
    if not fits(subject, context.policy.name_length_max) or not subject.isprintable() or subject.startswith(":."):
        return refuse("InvalidSubject", f"The specified subject {subject[:80]!r} is not a valid subject.")
    if subject.startswith(RESERVED):
        return refuse("ReservedSubject", f"Subject {subject} is in read-only mode: its schemas come with the build")
    return None


def _refused_number(state: State, subject: Subject | None, schema_id: int | None) -> Refusal | None:
    if schema_id is None and len(state.schemas) >= SCHEMAS_MAX:
        return refuse("TooManySchemas", f"there are {SCHEMAS_MAX} schemas, and none is ever taken away")
    if subject is None and len(state.subjects) >= SUBJECTS_MAX:
        return refuse("TooManySchemas", f"there are {SUBJECTS_MAX} subjects")
    if subject is not None and len(subject.versions) >= VERSIONS_MAX:
        return refuse("TooManySchemas", f"a subject has at most {VERSIONS_MAX} versions, deleted ones too")
    return None


def _to_delete(subject: Subject, command: DeleteSchema) -> tuple[SubjectVersion, ...] | Refusal:
    name, living = subject.subject, living_versions(subject)
    if command.version is None:
        if command.permanent and living:
            return refuse(
                "SubjectNotDeleted", f"Subject '{name}' was not deleted first before being permanently deleted"
            )
        if not command.permanent and not living:
            remark = f"Subject '{name}' was soft deleted.Set permanent=true to delete permanently"
            return refuse("SubjectDeleted", remark)
        return subject.versions if command.permanent else living
    number = living[-1].version if command.version == LATEST and living else command.version
    found = next((one for one in subject.versions if one.version == number), None)
    if found is None:
        return refuse("VersionNotFound", f"Version {number} not found.")
    if found.deleted and not command.permanent:
        remark = f"Subject '{name}' Version {number} was soft deleted.Set permanent=true to delete permanently"
        return refuse("VersionDeleted", remark)
    if command.permanent and not found.deleted:
        remark = f"Subject '{name}' Version {number} was not deleted first before being permanently deleted"
        return refuse("VersionNotDeleted", remark)
    return (found,)
