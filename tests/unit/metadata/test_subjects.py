"""Schemas of other services: registered, checked, hidden and deleted; ids that are never given again."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.events import SCHEMAS, SchemaAdded, SchemaDeleted, SchemaRegistered
from quorate.metadata import avro_schemas, subjects
from quorate.metadata.commands import (
    ChangeConfig,
    DeleteSchema,
    RaiseFeatureLevel,
    RecordNodeStart,
    Refusal,
    RegisterSchema,
    SchemaIs,
    SchemasAreDeleted,
)
from quorate.metadata.configs import heeded, unread
from quorate.metadata.subjects import FIRST_ID
from quorate.model.subjects import level_in_force
from quorate.model.words import sentence
from tests.unit.metadata.kit import ADDRESSES, CREATE, World

INT, LONG, TEXT = '"int"', '"long"', '"string"'
STARTED = RecordNodeStart(node_id=1, dir_uuid="u1", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2)


def world() -> World:
    """A cluster at level 2."""
    made = World()
    for command in (CREATE, STARTED, RaiseFeatureLevel(level=2)):
        made.do(command)
    return made


def register(made: World, subject: str, schema: str) -> tuple[int, int]:
    """Id and version of a schema that is registered."""
    reply = made.reply(RegisterSchema(subject=subject, schema=schema), SchemaIs)
    return reply.schema_id, reply.version


def test_the_first_schema_is_two_facts() -> None:
    """It has an id, and a subject has it; what is said of them. The log's own ids are far below."""
    made = world()
    events = made.events(RegisterSchema(subject="s", schema=' "int" '))
    assert events == (
        SchemaAdded(schema_id=FIRST_ID, schema_type="AVRO", schema=INT),
        SchemaRegistered(subject="s", version=1, schema_id=FIRST_ID, compatibility="BACKWARD"),
    )
    assert [sentence(event) for event in events] == [
        "a schema of 5 B has the id 1000001 (AVRO)",
        "subject s: version 1 is schema 1000001, checked as BACKWARD",
    ]
    assert 1000 * len(SCHEMAS) < FIRST_ID


def test_a_schema_has_one_id_and_is_registered_once() -> None:
    """Again in the same subject: nothing happens. In another one: the same id. Anything else: the next one."""
    made = world()
    assert register(made, "s", INT) == (FIRST_ID, 1)
    assert made.events(RegisterSchema(subject="s", schema='{"type": "int"}')) != ()
    assert made.events(RegisterSchema(subject="s", schema=INT)) == ()
    assert register(made, "s", INT) == (FIRST_ID, 1)
    assert register(made, "t", INT) == (FIRST_ID, 1)
    assert register(made, "t", LONG) == (FIRST_ID + 2, 2)


def test_below_its_level_nothing_is_registered() -> None:
    """Other builds could not read it."""
    made = World()
    made.do(CREATE)
    for command in (RegisterSchema(subject="s", schema=INT), DeleteSchema(subject="s")):
        assert made.refused(command).code == "UnsupportedFeatureLevel"


def test_a_version_is_checked_against_those_that_are_not_deleted() -> None:
    """By the level of its subject, else by that of all; a level that cannot be does not count."""
    made = world()
    register(made, "s", LONG)
    refusal = made.refused(RegisterSchema(subject="s", schema=INT))
    assert refusal.code == "SchemaIncompatible"
    assert 'for subject "s", details: [' in refusal.remark
    assert "cannot read version 1: /: the reader has int, the writer long" in refusal.remark
    made.do(ChangeConfig(scope="subject/s", changes={"compatibility": "FORWARD"}))
    assert register(made, "s", INT)[1] == 2
    made.do(ChangeConfig(scope="cluster", changes={"schemas.compatibility": "NONE"}))
    assert (level_in_force(made.state, "s"), level_in_force(made.state, "t")) == ("FORWARD", "NONE")
    assert made.refused(RegisterSchema(subject="s", schema=TEXT)).code == "SchemaIncompatible"
    for version in (1, 2):
        made.do(DeleteSchema(subject="s", version=version))
    assert register(made, "s", TEXT)[1] == 3
    made.do(ChangeConfig(scope="subject/s", changes={"compatibility": None}))
    assert made.events(RegisterSchema(subject="s", schema=INT))[-1] == SchemaRegistered(
        subject="s", version=4, schema_id=FIRST_ID + 1, compatibility="NONE"
    )


def test_what_is_only_asked_about_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The types of a text that nobody registered: else questions, which write nothing, would fill a node."""
    kept = avro_schemas._Kept()
    monkeypatch.setattr(avro_schemas, "_kept", kept)
    made = world()
    register(made, "s", INT)
    before = made.state.subjects["s"].versions
    for number in range(9):
        fixed = subjects.schema_text(f'{{"type": "fixed", "name": "F{number}", "size": 4}}', "AVRO")
        assert subjects.broken(made.state, "BACKWARD", fixed, before)
    assert list(kept._types) == [INT]
    assert subjects.broken(made.state, "BACKWARD", INT, before) == []
    assert list(kept._types) == [INT]


def test_the_settings_of_subjects_are_checked() -> None:
    """They mean something, and are one of the levels; the subject need not be there."""
    made = world()
    assert made.refused(ChangeConfig(scope="subject/s", changes={"compatibility": "full"})).code == "InvalidConfigValue"
    refusal = made.refused(ChangeConfig(scope="cluster", changes={"schemas.compatibility": "UP"}))
    assert refusal.code == "InvalidConfigValue"
    assert heeded("subject/s") == frozenset({"compatibility"})
    assert unread("subject/s", {"other": "1"}) == "nothing reads other in subject/s; there it is compatibility"
    assert unread("cluster", {"schemas.compatibility": "NONE"}) == ""


def test_softly_then_for_good() -> None:
    """What is deleted softly is hidden, and may come back as a newer version; only what is hidden goes for good."""
    made = world()
    made.do(ChangeConfig(scope="subject/s", changes={"compatibility": "NONE"}))
    for schema in (INT, LONG, TEXT):
        register(made, "s", schema)
    assert made.refused(DeleteSchema(subject="s", version=2, permanent=True)).code == "VersionNotDeleted"
    assert made.events(DeleteSchema(subject="s", version=-1)) == (
        SchemaDeleted(subject="s", versions=(3,), permanent=False),
    )
    assert made.refused(DeleteSchema(subject="s", version=3)).code == "VersionDeleted"
    assert made.refused(DeleteSchema(subject="s", version=4)).code == "VersionNotFound"
    assert register(made, "s", TEXT) == (FIRST_ID + 2, 4)
    assert made.refused(DeleteSchema(subject="s", permanent=True)).code == "SubjectNotDeleted"
    assert made.reply(DeleteSchema(subject="s", version=3, permanent=True), SchemasAreDeleted).versions == (3,)
    assert made.reply(DeleteSchema(subject="s"), SchemasAreDeleted).versions == (1, 2, 4)
    assert made.refused(DeleteSchema(subject="s")).code == "SubjectDeleted"
    assert made.refused(DeleteSchema(subject="s", version=-1)).code == "VersionNotFound"
    assert made.reply(DeleteSchema(subject="s", permanent=True), SchemasAreDeleted).versions == (1, 2, 4)
    assert "s" not in made.state.subjects
    assert made.refused(DeleteSchema(subject="s")).code == "SubjectNotFound"
    assert register(made, "s", '"bytes"') == (FIRST_ID + 3, 1)
    assert len(made.state.schemas) == 4


def test_deletions_in_words() -> None:
    """One or more, softly or not."""
    assert sentence(SchemaDeleted(subject="s", versions=(2,), permanent=False)) == "subject s: version 2 was deleted"
    for_good = SchemaDeleted(subject="s", versions=(1, 2), permanent=True)
    assert sentence(for_good) == "subject s: versions 1, 2 were deleted for good"
    unchecked = SchemaRegistered(subject="s", version=1, schema_id=7, compatibility="NONE")
    assert sentence(unchecked) == "subject s: version 1 is schema 7, unchecked"


@pytest.mark.parametrize(
    ("subject", "schema", "schema_type", "code"),
    [
        ("", INT, "AVRO", "InvalidSubject"),
        ("n" * 256, INT, "AVRO", "InvalidSubject"),
        ("a\nb", INT, "AVRO", "InvalidSubject"),
        ("\ud800", INT, "AVRO", "InvalidSubject"),
        (":.context:s", INT, "AVRO", "InvalidSubject"),
        ("quorate.events.KeyPut", INT, "AVRO", "ReservedSubject"),
        ("s", "", "AVRO", "InvalidSchema"),
        ("s", "int", "AVRO", "InvalidSchema"),
        ("s", '{"type": "object"}', "JSON", "InvalidSchema"),
        ("s", 'syntax = "proto3";', "PROTOBUF", "InvalidSchema"),
        ("s", INT, "", "InvalidSchema"),
    ],
)
def test_what_is_refused_by_itself(subject: str, schema: str, schema_type: str, code: str) -> None:
    """By name, and nothing changes."""
    made = world()
    before = made.state
    assert made.refused(RegisterSchema(subject=subject, schema=schema, schema_type=schema_type)).code == code
    assert made.state is before


def test_there_is_an_end_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of schemas, subjects, versions, and of what one decision compares."""
    for name, value in (("SCHEMAS_MAX", 3), ("SUBJECTS_MAX", 2), ("VERSIONS_MAX", 2)):
        monkeypatch.setattr(subjects, name, value)
    made = world()
    made.do(ChangeConfig(scope="cluster", changes={"schemas.compatibility": "NONE"}))
    register(made, "s", INT)
    register(made, "s", LONG)
    assert made.refused(RegisterSchema(subject="s", schema=TEXT)).remark.startswith("a subject has at most 2")
    register(made, "t", TEXT)
    assert made.refused(RegisterSchema(subject="u", schema=INT)).remark == "there are 2 subjects"
    assert made.refused(RegisterSchema(subject="t", schema='"bytes"')).code == "TooManySchemas"
    made.do(ChangeConfig(scope="cluster", changes={"schemas.compatibility": "FULL_TRANSITIVE"}))
    monkeypatch.setattr(subjects, "COMPARED_BYTES_MAX", 4)
    assert made.refused(RegisterSchema(subject="t", schema=INT)).code == "SchemaTooLarge"


def test_what_cannot_be_compared_soon_is_refused() -> None:
    """Two unions of many types with nothing in common."""
    made = world()
    first, second = (
        json.dumps([{"type": "fixed", "name": f"{name}{number}", "size": 1} for number in range(1000)]) for name in "ab"
    )
    register(made, "s", first)
    assert made.refused(RegisterSchema(subject="s", schema=second)).code == "SchemaTooLarge"


COMMANDS = st.one_of(
    st.builds(
        RegisterSchema, subject=st.sampled_from("st"), schema=st.sampled_from([INT, LONG, TEXT, '["null", "int"]'])
    ),
    st.builds(
        DeleteSchema,
        subject=st.sampled_from("st"),
        version=st.sampled_from([None, -1, 1, 2, 3]),
        permanent=st.booleans(),
    ),
    st.builds(
        ChangeConfig,
        scope=st.just("subject/s"),
        changes=st.fixed_dictionaries({"compatibility": st.sampled_from(["NONE", "FULL_TRANSITIVE", None])}),
    ),
)


@given(st.lists(COMMANDS, max_size=40))
@settings(max_examples=150, deadline=None)
def test_an_id_once_given_stands_for_its_schema_for_ever(commands: list[Any]) -> None:
    """Ids have no gaps and no second meaning; a subject's versions rise, and none is there twice while not deleted."""
    made, given_ids = world(), dict[int, str]()
    for command in commands:
        outcome = made.do(command)
        for number, schema in made.state.schemas.items():
            assert given_ids.setdefault(number, schema.schema) == schema.schema
        assert sorted(given_ids) == list(range(FIRST_ID, FIRST_ID + len(given_ids)))
        assert dict(made.state.schema_ids) == {schema.schema: n for n, schema in made.state.schemas.items()}
        for subject in made.state.subjects.values():
            numbers = [one.version for one in subject.versions]
            assert numbers == sorted(set(numbers)) != []
            living = [one.schema_id for one in subject.versions if not one.deleted]
            assert len(living) == len(set(living))
        if isinstance(command, RegisterSchema) and not isinstance(outcome, Refusal):
            assert any(not one.deleted for one in made.state.subjects[command.subject].versions)
