"""Avro schemas for tests: some by hand, and any number made up."""

from typing import Any, Final

from hypothesis import strategies as st

VALID: Final[tuple[Any, ...]] = (
    "int",
    {"type": "string"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    ["null", "string", {"type": "array", "items": "long"}],
    {"type": "map", "values": ["null", "int"]},
    {"type": "fixed", "name": "a.b.F", "size": 16},
    {"type": "enum", "name": "E", "symbols": ["a", "b"], "default": "a"},
    {"type": "record", "name": "Empty", "fields": []},
    {
        "type": "record",
        "name": "Node",
        "namespace": "shop",
        "aliases": ["Old"],
        "doc": "é",
        "fields": [
            {"name": "value", "type": "long", "default": 0, "order": "ignore", "aliases": ["v"]},
            {"name": "next", "type": ["null", "Node"], "default": None},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["x"]}, "default": "x"},
            {"name": "again", "type": "Kind"},
            {"name": "other", "type": "shop.Kind"},
        ],
    },
)
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, taken: list[str] | None = None) -> Any:
    """A schema of few names, so that two of them have much in common."""
    taken = [] if taken is None else taken
    kinds = ["primitive"] * 3 + (["array", "map", "union", "record", "enum", "fixed"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "array":
            return {"type": "array", "items": draw(schemas(depth - 1, taken))}
        case "map":
            return {"type": "map", "values": draw(schemas(depth - 1, taken))}
        case "union":
            return draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True))
        case "record":
            name = _name(draw, "R", taken)
            names = draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
            fields = [_field(draw, field, depth, taken, name) for field in names]
            return {"type": "record", "name": name, "fields": fields}
        case "enum":
            symbols = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
            return {"type": "enum", "name": _name(draw, "E", taken), "symbols": symbols}
        case "fixed":
            return {"type": "fixed", "name": _name(draw, "F", taken), "size": draw(st.integers(1, 2))}
        case _:
            return draw(st.sampled_from(PRIMITIVES))


def _name(draw: st.DrawFn, kind: str, taken: list[str]) -> str:
    """One that is not taken yet; mostly the first of its kind."""
    name = next(f"{kind}{number}" for number in range(99) if f"{kind}{number}" not in taken)
    if draw(st.integers(0, 9)) == 0 and f"Other{name}" not in taken:
        name = f"Other{name}"
    taken.append(name)
    return name


def _field(draw: st.DrawFn, name: str, depth: int, taken: list[str], record: str) -> Any:
    if draw(st.integers(0, 5)) == 0:
        return {"name": name, "type": ["null", record], "default": None}
    kind = draw(schemas(depth - 1, taken))
    defaults = {"int": 1, "long": 1, "string": "", "null": None, "double": 0.5}
    if isinstance(kind, str) and kind in defaults and draw(st.booleans()):
        return {"name": name, "type": kind, "default": defaults[kind]}
    return {"name": name, "type": kind}


SCHEMAS: Final = schemas()


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """A schema as a next version may have it: a type promoted or made optional, a field more, a field less.

    Bytes are not made text: a reader may, and then fails on those that are none.
    """
    promoted = {
        "int": ["long", "double"],
        "long": ["float"],
        "float": ["double"],
        "string": ["bytes"],
    }
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, *promoted.get(schema, [])]))
    match schema:
        case {"type": "array" | "map" as kind}:
            inner = "items" if kind == "array" else "values"
            return {**schema, inner: draw(evolved(schema[inner]))}
        case {"type": "enum", "symbols": symbols}:
            return {**schema, "symbols": draw(st.permutations([*symbols, "more"]))}
        case {"type": "record", "fields": fields}:
            kept = [field for field in fields if draw(st.integers(0, 4))]
            changed = [_evolved_field(draw, field) for field in kept]
            added = [{"name": "added", "type": ["null", "int"], "default": None}] if draw(st.booleans()) else []
            return {**schema, "fields": [*added, *changed]}
        case _:
            return schema


def _evolved_field(draw: st.DrawFn, field: Any) -> Any:
    if "default" in field:
        return field
    return {**field, "type": draw(evolved(field["type"]))}
