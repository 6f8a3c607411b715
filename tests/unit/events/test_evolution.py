"""Schemas change only so that every version ever written stays readable, by us and by readers of the past."""

import ast
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import fastavro
import pytest

from quorate import events
from quorate.errors import UsageError
from quorate.events import compat, generate, registry, schema

Avsc = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the schemas, to be changed."""
    return Path(shutil.copytree(schema.SCHEMAS_DIR, tmp_path / "schemas"))


def edit(folder: Path, name: str, change: Callable[[Avsc], object]) -> None:
    """Change one event's schema."""
    path = folder / f"{name}.avsc"
    avsc = json.loads(path.read_bytes())
    change(avsc)
    path.write_text(json.dumps(avsc))


def named(avsc: Avsc, name: str) -> Avsc:
    """The field of that name."""
    found: Avsc = next(field for field in avsc["fields"] if field["name"] == name)
    return found


def add(avsc: Avsc, name: str, kind: Any, **more: Any) -> None:
    """Append a field."""
    avsc["fields"].append({"name": name, "type": kind, "doc": "New.", **more})


def drop(avsc: Avsc, name: str) -> None:
    """Take a field away."""
    avsc["fields"].remove(named(avsc, name))


def candidate(avsc: Avsc) -> Avsc:
    """The nested record of MasterElected and ElectionFailed."""
    found: Avsc = named(avsc, "candidates")["type"]["items"]
    return found


def both_elections(folder: Path, change: Callable[[Avsc], object]) -> None:
    """Change ``Candidate`` wherever it is defined."""
    for name in ("MasterElected", "ElectionFailed"):
        edit(folder, name, lambda avsc: change(candidate(avsc)))


def raw(folder: Path, name: str) -> Avsc:
    """The schema as fastavro takes it."""
    parsed: Any = fastavro.parse_schema(json.loads((folder / f"{name}.avsc").read_bytes()), {})
    return dict(parsed)


def build(folder: Path) -> ModuleType:
    """The module that would be generated now; the registry in the folder is written."""
    files = generate.plan(folder)
    registry.path_in(folder).write_text(files[registry.path_in(folder)])
    module = ModuleType("evolved")
    sys.modules["evolved"] = module
    exec(compile(files[generate.MODULE], "evolved", "exec"), module.__dict__)
    return module


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    sys.modules.pop("evolved", None)


def test_the_committed_files_are_what_the_generator_writes() -> None:
    """``_generated.py`` and ``registry.json`` follow from the schemas; nobody edited them by hand."""
    assert generate.main(["--check"]) == 0
    assert compat.main([]) == 0


def test_generating_is_deterministic_from_nothing(folder: Path) -> None:
    """Without a registry the ids come out the same each time, from 1."""
    registry.path_in(folder).unlink()
    first, second = generate.plan(folder), generate.plan(folder)
    assert first == second
    entries = json.loads(first[registry.path_in(folder)])["schemas"]
    assert [entry["id"] for entry in entries] == list(
        range(1, len({json.loads(text)["name"] for text in events.SCHEMAS.values()}) + 1)
    )


BREAKS: list[tuple[str, str, Callable[[Avsc], object], str]] = [
    ("a field without a default", "TopicDeleted", lambda a: add(a, "why", "string"), "without a default"),
    ("a field taken away", "MasterElected", lambda a: drop(a, "explanation"), "taken away"),
    ("a field renamed", "NodeStarted", lambda a: named(a, "version").update(name="release"), "default"),
    ("int to long", "FeatureLevelChanged", lambda a: named(a, "new").update(type="long"), "type changed"),
    ("long to int", "BrokerFenced", lambda a: named(a, "detected_ms").update(type="int"), "type changed"),
    ("text to number", "NodeStarted", lambda a: named(a, "version").update(type="long"), "type changed"),
    ("optional made", "TopicCreated", lambda a: named(a, "order").update(type=["null", "boolean"]), "type changed"),
    (
        "array to map",
        "BrokerRegistered",
        lambda a: named(a, "topics").update(type={"type": "map", "values": "string"}, default={}),
        "type changed",
    ),
    (
        "array of others",
        "SyncStateSetAltered",
        lambda a: named(a, "new").update(type={"type": "array", "items": "int"}),
        "type changed",
    ),
    ("text to bytes", "NodeStarted", lambda a: named(a, "version").update(type="bytes"), "type changed"),
    ("a default taken away", "BrokerRegistered", lambda a: named(a, "topics").pop("default"), "default changed"),
    (
        "another default",
        "ControllerLeaderElected",
        lambda a: named(a, "silent_for_ms").update(default=1),
        "default changed",
    ),
    ("another key", "TopicDeleted", lambda a: a.update({"quorate.key": "subject/{topic}"}), "key changed"),
    (
        "a nested field without a default",
        "RoleChangeAcknowledged",
        lambda a: add(named(a, "acks")["type"]["items"], "x", "int"),
        "without a default",
    ),
    (
        "a nested record renamed",
        "RoleChangeAcknowledged",
        lambda a: named(a, "acks")["type"]["items"].update(name="Ack"),
        "is called",
    ),
]


@pytest.mark.parametrize(("name", "change", "says"), [row[1:] for row in BREAKS], ids=[row[0] for row in BREAKS])
def test_a_break_is_noticed(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, change: Callable[[Avsc], object], says: str
) -> None:
    """The check names the event and the break, and the generator refuses and writes nothing."""
    edit(folder, name, change)
    before = registry.path_in(folder).read_bytes(), generate.MODULE.read_bytes()
    assert compat.main(["--schemas", str(folder)]) == 1
    message = capsys.readouterr().err
    assert name in message
    assert says in message
    assert generate.main(["--schemas", str(folder)]) == 1
    assert (registry.path_in(folder).read_bytes(), generate.MODULE.read_bytes()) == before


def test_an_event_cannot_be_taken_away(folder: Path) -> None:
    """What is in somebody's log must be readable."""
    (folder / "TopicDeleted.avsc").unlink()
    assert compat.main(["--schemas", str(folder)]) == 1


def test_a_break_with_any_older_version_is_noticed(folder: Path) -> None:
    """A field that came and went may not come back as something else, though the newest version has no such field."""
    edit(folder, "TopicDeleted", lambda avsc: add(avsc, "reason", "string", default=""))
    build(folder)
    edit(folder, "TopicDeleted", lambda avsc: drop(avsc, "reason"))
    build(folder)
    edit(folder, "TopicDeleted", lambda avsc: add(avsc, "reason", "long", default=0))
    with pytest.raises(UsageError, match="reason: the type changed"):
        generate.plan(folder)


ARRAY = {"type": "array", "items": "long"}
MAP = {"type": "map", "values": "string"}

CHANGES: list[tuple[str, Callable[[Path], object], dict[str, Any]]] = [
    (
        "a field added",
        lambda f: edit(f, "ElectionFailed", lambda a: add(a, "note", "string", default="none")),
        {"note": "none"},
    ),
    (
        "an optional field added",
        lambda f: edit(f, "ElectionFailed", lambda a: add(a, "by", ["null", "long"], default=None)),
        {"by": None},
    ),
    (
        "bytes added",
        lambda f: edit(f, "ElectionFailed", lambda a: add(a, "proof", "bytes", default="")),
        {"proof": b""},
    ),
    (
        "optional bytes added",
        lambda f: edit(f, "ElectionFailed", lambda a: add(a, "proof", ["null", "bytes"], default=None)),
        {"proof": None},
    ),
    ("an array added", lambda f: edit(f, "ElectionFailed", lambda a: add(a, "seen", ARRAY, default=[])), {"seen": ()}),
    ("a map added", lambda f: edit(f, "ElectionFailed", lambda a: add(a, "tags", MAP, default={})), {"tags": {}}),
    ("a nested field added", lambda f: both_elections(f, lambda c: add(c, "zone", "string", default="?")), {}),
    ("a nested field taken away", lambda f: both_elections(f, lambda c: drop(c, "learner")), {}),
    ("fields in another order", lambda f: edit(f, "ElectionFailed", lambda a: a["fields"].reverse()), {}),
]

OLD = events.ElectionFailed(
    cluster="c",
    broker_set="b",
    trigger="broker",
    evidence="",
    old_master=1,
    master_epoch=2,
    explanation="None lives.",
    candidates=(
        events.Candidate(
            broker_id=1,
            alive=False,
            in_sync=True,
            epoch=1,
            max_offset=7,
            confirm_offset=5,
            priority=9,
            learner=True,
            verdict="out",
            out_by="not alive",
        ),
    ),
    last_heartbeat_ms=1,
    detected_ms=2,
    proposed_ms=3,
)


@pytest.mark.parametrize(("change", "news"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_old_events_are_read_as_todays(folder: Path, change: Callable[[Path], object], news: dict[str, Any]) -> None:
    """A frame of the old id gives today's type, its new fields at their defaults, as fastavro resolves it."""
    old_schema = raw(folder, "ElectionFailed")
    change(folder)
    module = build(folder)
    body = events.encode(OLD)[5:]
    value, end = module.READERS[events.schema_id(events.ElectionFailed)](events.encode(OLD), 5)
    assert end == len(body) + 5
    assert type(value) is module.ElectionFailed
    assert {name: getattr(value, name) for name in news} == news
    resolved: Any = fastavro.schemaless_reader(io.BytesIO(body), old_schema, raw(folder, "ElectionFailed"))
    resolved |= {name: value for name, value in news.items() if isinstance(value, bytes)}  # It gives the schema's text.
    new_id = module.SCHEMA_IDS[module.ElectionFailed]
    assert new_id > len(events.SCHEMAS)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, raw(folder, "ElectionFailed"), resolved)
    assert module.WRITERS[module.ElectionFailed](value) == b"\0" + new_id.to_bytes(4, "big") + out.getvalue()


@pytest.mark.parametrize(("change", "_news"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_old_readers_read_todays_events(folder: Path, change: Callable[[Path], object], _news: dict[str, Any]) -> None:
    """A reader with the old schema, given the writer's, finds every field it knows (Avro resolution, by fastavro)."""
    old_schema = raw(folder, "ElectionFailed")
    change(folder)
    module = build(folder)
    value, _ = module.READERS[events.schema_id(events.ElectionFailed)](events.encode(OLD), 5)
    frame = module.WRITERS[module.ElectionFailed](value)
    again: Any = fastavro.schemaless_reader(io.BytesIO(frame[5:]), raw(folder, "ElectionFailed"), old_schema)
    assert again["explanation"] == "None lives."
    assert again["candidates"][0]["out_by"] == "not alive"


def test_a_field_that_is_a_record_of_the_past_is_read_past(folder: Path) -> None:
    """When a nested record has gone, with its field, its bytes in old events are skipped."""
    text = {"name": "text", "type": "string", "doc": "It."}
    note = {"type": "record", "name": "Note", "doc": "A note.", "fields": [text]}
    edit(folder, "TopicDeleted", lambda a: add(a, "notes", {"type": "array", "items": note}, default=[]))
    then = build(folder)
    frame = then.WRITERS[then.TopicDeleted](then.TopicDeleted(topic="t", notes=(then.Note(text="n"),)))
    edit(folder, "TopicDeleted", lambda a: drop(a, "notes"))
    now = build(folder)
    value, end = now.READERS[int.from_bytes(frame[1:5], "big")](frame, 5)
    assert (value, end) == (now.TopicDeleted(topic="t"), len(frame))


def test_the_registry_only_grows(folder: Path) -> None:
    """A new version comes after all others; those before are untouched, and back to the old shape is a new id again."""
    before = registry.load(folder)
    edit(folder, "TopicDeleted", lambda avsc: add(avsc, "reason", "string", default=""))
    build(folder)
    edit(folder, "TopicDeleted", lambda avsc: drop(avsc, "reason"))
    build(folder)
    after = registry.load(folder)
    assert after[: len(before)] == before
    assert [(entry.id, entry.name, entry.version) for entry in after[len(before) :]] == [
        (len(before) + 1, "TopicDeleted", 2),
        (len(before) + 2, "TopicDeleted", 3),
    ]


def test_better_docs_are_no_new_version(folder: Path) -> None:
    """Words may improve; the id stays, and the text served under it is the new one."""
    edit(folder, "TopicDeleted", lambda avsc: avsc.update(doc="Gone."))
    module = build(folder)
    assert module.SCHEMA_IDS[module.TopicDeleted] == events.schema_id(events.TopicDeleted)
    assert "Gone." in module.SCHEMAS[module.SCHEMA_IDS[module.TopicDeleted]]
    assert len(registry.load(folder)) == len(events.SCHEMAS)


@pytest.mark.parametrize(
    "damage",
    [
        lambda items: items.pop(3),
        lambda items: items.reverse(),
        lambda items: items[2].update(id=99),
        lambda items: items[2].update(version=2),
        lambda items: items[2]["schema"]["fields"][0].update(name="other"),
        lambda items: items[2].update(name=items[3]["name"]),
        lambda items: items[2].update(more=1),
        lambda items: items[2]["schema"].pop("quorate.key"),
    ],
    ids=["removed", "moved", "renumbered", "another version", "changed", "renamed", "more", "no key"],
)
def test_a_registry_that_was_edited_is_refused(folder: Path, damage: Callable[[list[Avsc]], object]) -> None:
    """Entries are kept by number and fingerprint: whatever was changed in one is noticed."""
    content = json.loads(registry.path_in(folder).read_bytes())
    damage(content["schemas"])
    registry.path_in(folder).write_text(json.dumps(content))
    with pytest.raises(UsageError):
        registry.load(folder)
    assert compat.main(["--schemas", str(folder)]) == 2


def test_an_id_may_be_any_number() -> None:
    """Also one of whose bytes Python would make a quote: the module that is written can be read."""
    event = schema.load(schema.SCHEMAS_DIR)["TopicDeleted"]
    for number in range(1, 300):
        read = ast.walk(ast.parse(generate._writer(event, prefix=number)))
        assert bytes(1) + number.to_bytes(4) in [node.value for node in read if isinstance(node, ast.Constant)]


NOTE = {"type": "record", "name": "Note", "doc": "A note.", "fields": [{"name": "x", "type": "int", "doc": "It."}]}


def notes(*names: str) -> list[Avsc]:
    """Fields of notes, each with the record written out."""
    return [{"name": name, "type": {"type": "array", "items": NOTE}, "default": [], "doc": "New."} for name in names]


BAD: list[tuple[str, Callable[[Avsc], object], str]] = [
    ("no doc on the record", lambda a: a.pop("doc"), "doc"),
    ("no doc on a field", lambda a: named(a, "topic").pop("doc"), "doc"),
    ("a doc that is no sentence", lambda a: named(a, "topic").update(doc="topic"), "sentence"),
    ("another namespace", lambda a: a.update(namespace="x"), "namespace"),
    ("another name than the file's", lambda a: a.update(name="TopicGone"), "defines TopicGone"),
    ("a name in capitals", lambda a: named(a, "topic").update(name="topicName"), "field name"),
    ("a record name in small letters", lambda a: a.update(name="topicDeleted"), "record name"),
    ("two fields of one name", lambda a: add(a, "topic", "string"), "one name"),
    ("a record defined twice", lambda a: a["fields"].extend(notes("x", "y")), "twice"),
    ("no record", lambda a: a.update(type="enum"), "not a record"),
    ("no fields", lambda a: a.update(fields=[]), "no fields"),
    ("no key", lambda a: a.pop("quorate.key"), "quorate.key"),
    ("a key without its field", lambda a: a.update({"quorate.key": "topic/{name}"}), "needs"),
    ("a float", lambda a: add(a, "x", "double"), "type we do not use"),
    ("an enum", lambda a: add(a, "x", {"type": "enum", "name": "E", "symbols": ["A"]}), "type we do not use"),
    ("null second", lambda a: add(a, "x", ["string", "null"]), "type we do not use"),
    (
        "an array of arrays",
        lambda a: add(a, "x", {"type": "array", "items": {"type": "array", "items": "int"}}),
        "array",
    ),
    (
        "a logical type",
        lambda a: add(a, "x", {"type": "long", "logicalType": "timestamp-millis"}),
        "type we do not use",
    ),
    ("a default of another type", lambda a: add(a, "x", "long", default="0"), "default"),
    ("a truth as a number", lambda a: add(a, "x", "long", default=True), "default"),
    ("a default that is not empty", lambda a: add(a, "x", {"type": "array", "items": "int"}, default=[1]), "default"),
    ("bytes whose default is not empty", lambda a: add(a, "x", "bytes", default="a"), "default"),
    ("a key of bytes", lambda a: named(a, "topic").update(type="bytes"), "string or number"),
    ("an unknown property", lambda a: a.update(aliases=["T"]), "unknown property"),
    ("an alias of a field", lambda a: named(a, "topic").update(aliases=["t"]), "not a field of ours"),
]


@pytest.mark.parametrize(("change", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_schema_out_of_order_is_refused(folder: Path, change: Callable[[Avsc], object], says: str) -> None:
    """The file and what is wrong with it are named."""
    edit(folder, "TopicDeleted", change)
    with pytest.raises(UsageError, match=r"TopicDeleted\.avsc: ") as caught:
        schema.load(folder)
    assert says in str(caught.value)


def test_a_nested_record_has_one_shape(folder: Path) -> None:
    """``Candidate`` in two files is one type: a change in one of them alone is refused."""
    edit(folder, "MasterElected", lambda avsc: add(candidate(avsc), "zone", "string", default=""))
    with pytest.raises(UsageError, match="Candidate is not the same"):
        schema.load(folder)


def test_a_nested_record_may_be_used_twice(folder: Path) -> None:
    """Avro defines a record once and names it afterwards; both fields are read and written."""
    note = {"type": "record", "name": "Note", "doc": "A note.", "fields": [{"name": "x", "type": "int", "doc": "It."}]}
    edit(folder, "TopicDeleted", lambda a: add(a, "notes", {"type": "array", "items": note}, default=[]))
    edit(folder, "TopicDeleted", lambda a: add(a, "more", {"type": "array", "items": "Note"}, default=[]))
    now = build(folder)
    event = now.TopicDeleted(topic="t", notes=(now.Note(x=1),), more=(now.Note(x=2), now.Note(x=3)))
    frame = now.WRITERS[now.TopicDeleted](event)
    assert now.READERS[int.from_bytes(frame[1:5], "big")](frame, 5) == (event, len(frame))
    raw: Any = fastavro.parse_schema(json.loads(now.SCHEMAS[now.SCHEMA_IDS[now.TopicDeleted]]), {})
    found: Any = fastavro.schemaless_reader(io.BytesIO(frame[5:]), raw, None)
    assert found == {"topic": "t", "notes": [{"x": 1}], "more": [{"x": 2}, {"x": 3}]}


def test_an_event_and_a_nested_record_have_different_names(folder: Path) -> None:
    """One name is one type."""
    clash = {
        "type": "record",
        "name": "NodeStarted",
        "doc": "No.",
        "fields": [{"name": "x", "type": "int", "doc": "It."}],
    }
    edit(folder, "TopicDeleted", lambda a: add(a, "notes", {"type": "array", "items": clash}, default=[]))
    with pytest.raises(UsageError, match="NodeStarted"):
        schema.load(folder)


def test_an_event_has_one_file(folder: Path) -> None:
    """A copy in a subfolder is no second event."""
    (folder / "more").mkdir()
    shutil.copy(folder / "TopicDeleted.avsc", folder / "more")
    with pytest.raises(UsageError, match="two of them"):
        schema.load(folder)


def test_generating_writes_what_is_out_of_date(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without ``--check`` the module and the registry are written, and then up to date."""
    monkeypatch.setattr(generate, "MODULE", tmp_path / "module.py")
    edit(folder, "TopicDeleted", lambda avsc: add(avsc, "reason", "string", default=""))
    assert generate.main(["--schemas", str(folder)]) == 0
    assert generate.main(["--check", "--schemas", str(folder)]) == 0
    assert "reason" in (tmp_path / "module.py").read_text()


def test_a_stale_module_fails_the_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--check`` says which file to generate again, and writes nothing."""
    edit(folder, "TopicDeleted", lambda avsc: add(avsc, "reason", "string", default=""))
    before = generate.MODULE.read_bytes()
    assert generate.main(["--check", "--schemas", str(folder)]) == 1
    said = capsys.readouterr().err
    assert "registry.json" in said
    assert "_generated.py" in said
    assert generate.MODULE.read_bytes() == before


def test_every_served_schema_is_whole() -> None:
    """What the registry serves is self-contained Avro; the newest version has a doc on every field."""
    newest = {json.loads(text)["name"]: text for text in events.SCHEMAS.values()}
    for text in events.SCHEMAS.values():
        parsed: Any = fastavro.parse_schema(json.loads(text), {})
        documented = text in newest.values()
        assert schema.parse(json.loads(text), documented=documented).name in str(parsed["name"])
