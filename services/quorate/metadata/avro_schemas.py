"""Avro schemas of any shape, as other services register them: read strictly, from text to types.

Rules: pure, and bounded: a schema has at most ``SCHEMA_BYTES_MAX`` bytes and ``DEPTH_MAX`` levels, and its defaults are
checked in at most ``DEFAULTS_MAX`` steps. Two texts are one schema when they are the same JSON, whatever their spaces
and the order of their attributes; what is kept is ``canonical``. A default has to be a value of its field's type (of a
union: of one of its branches, as Java has it).
Source: Avro 1.12 specification; Java's ``org.apache.avro.Schema`` where the specification leaves it open.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from quorate.errors import UsageError

SCHEMA_BYTES_MAX: Final = 64 * 1024
DEPTH_MAX: Final = 64
"""Levels of JSON."""
DEFAULTS_MAX: Final = 50_000
"""How often a part of a default is held against a type, in one schema."""
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "error", "enum", "fixed")
_UNNAMED: Final = ("array", "map")
_DEFINING: Final = (*NAMED, *_UNNAMED)
_PART: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDER: Final = ("namespace", "doc", "aliases", "fields", "symbols", "items", "values", "size", "default", "order")
_OF_TYPES: Final = {name: rank for rank, name in enumerate(("type", "name", *_ORDER))}
_OF_FIELDS: Final = {name: rank for rank, name in enumerate(("name", "type", *_ORDER))}
"""Which attribute comes first; those of nobody's come last, by name."""
_KEPT_MAX: Final = 512
"""Schemas whose types are at hand."""
_KEPT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of their texts: types take up to twenty times as much."""


class Field(msgspec.Struct, eq=False):
    """A field of a record."""

    name: str
    type: "Type"
    has_default: bool
    aliases: tuple[str, ...] = ()


class Type(msgspec.Struct, eq=False):
    """A type; those with a name may refer to themselves, so types are compared by identity."""

    kind: str
    """One of PRIMITIVES, ``record``, ``enum``, ``fixed``, ``array``, ``map``, ``union``."""
    name: str = ""
    """With its namespace."""
    aliases: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()
    """The same."""
    symbol: str = ""
    """Of an enum: what stands for symbols it does not know; empty: nothing."""
    branches: "tuple[Type, ...]" = ()
    """Of a union; of an array or a map the one type of its items."""
    size: int = 0

    @property
    def label(self) -> str:
        """How sentences call it."""
        return self.name or self.kind


def canonical(text: str) -> str:
    """The text that stands for a schema; its types can be read (``types_of``). Raises UsageError: why it is none."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise UsageError(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
    try:
        made = msgspec.json.encode(_ordered(msgspec.json.decode(text), DEPTH_MAX))
    except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError) as error:
        raise UsageError(f"no JSON: {error}") from None
    if len(made) > SCHEMA_BYTES_MAX:
        raise UsageError(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
    same = made.decode()
    reader = _Reader()
    reader.type(msgspec.json.decode(same), "")
    reader.check_defaults()
    return same


def types_of(text: str, *, kept: bool = True) -> Type:
    """The types of a ``canonical`` text, whose defaults were checked when it came in; at hand from then on, or not.
    Raises UsageError.
    """
    return _kept.types(text) if kept else _read(text)


def _read(text: str) -> Type:
    return _Reader().type(msgspec.json.decode(text), "")


class _Kept:
    """The types of the texts that were asked about last."""

    def __init__(self) -> None:
        self._types: OrderedDict[str, Type] = OrderedDict()
        self.size = 0
        """Characters of all texts: nearly all are one byte."""

    def __len__(self) -> int:
        return len(self._types)

    def types(self, text: str) -> Type:
        """Raises UsageError."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = _read(text)
            self.size += len(text)
        self._types.move_to_end(text)
        while len(self._types) > _KEPT_MAX or self.size > _KEPT_BYTES_MAX:
            oldest, _ = self._types.popitem(last=False)
            self.size -= len(oldest)
        return found


_kept: Final = _Kept()


def _ordered(value: Any, depth: int) -> Any:
    if not depth:
        raise UsageError(f"more than {DEPTH_MAX} levels")
    if isinstance(value, list):
        return [_ordered(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    ranks = _OF_TYPES if value.get("type") in _DEFINING else _OF_FIELDS
    names = sorted(value, key=lambda name: (ranks.get(name, len(ranks)), name))
    return {name: _ordered(value[name], depth - 1) for name in names}


class _Reader:
    """Reads one schema; a name stands for its type from its definition on."""

    def __init__(self) -> None:
        self._named: dict[str, Type] = {}
        self._defaults: list[tuple[str, Any, Type]] = []
        """Field, default and type: checked when all types are whole."""

    def type(self, data: Any, space: str) -> Type:
        """A type, in a namespace. Raises UsageError."""
        match data:
            case str():
                return self._called(data, space)
            case list():
                return self._union(data, space)
            case {"type": str(kind)} if kind in PRIMITIVES:
                return Type(kind=kind)
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                return Type(kind=data["type"], branches=(self.type(inner, space),))
            case {"type": str(kind), "name": str(name)} if kind in NAMED:
                return self._define(kind, name, data, space)
            case {"type": str(kind)} if kind not in _DEFINING:
                return self._called(kind, space)
            case _:
                raise UsageError(f"no type: {_short(data)}")

    def check_defaults(self) -> None:
        """Raises UsageError for a default that is no value of its field's type."""
        check = _Defaults()
        for name, value, kind in self._defaults:
            if not check.is_value(value, kind):
                raise UsageError(f"{name}: its default {_short(value)} is no {kind.label}")

    def _called(self, name: str, space: str) -> Type:
        if name in PRIMITIVES:
            return Type(kind=name)
        near = f"{space}.{name}" if space and "." not in name else name
        found = self._named.get(near) or self._named.get(name)
        if found is None:
            raise UsageError(f"{_short(name)} is no type that is defined before")
        return found

    def _union(self, data: list[Any], space: str) -> Type:
        branches = tuple(self.type(one, space) for one in data)
        labels = [branch.label for branch in branches]
        if "union" in labels:
            raise UsageError("a union directly in a union")
        if len(set(labels)) < len(labels):
            raise UsageError(f"a union with the same type twice: {_short(labels)}")
        return Type(kind="union", branches=branches)

    def _define(self, kind: str, name: str, data: dict[str, Any], space: str) -> Type:
        space, full = _full_name(name, data.get("namespace"), space)
        if full in self._named or full in PRIMITIVES:
            raise UsageError(f"{_short(full)} is defined already")
        aliases = tuple(one if "." in one or not space else f"{space}.{one}" for one in _texts(data, "aliases"))
        made = self._named[full] = Type(kind="record" if kind == "error" else kind, name=full, aliases=aliases)
        match kind:
            case "enum":
                _symbols(made, data)
            case "fixed":
                made.size = _size(data, full)
            case _:
                fields = data.get("fields")
                if not isinstance(fields, list):
                    raise UsageError(f"{full}: no fields")
                made.fields = tuple(self._field(field, full, space) for field in fields)
                if len({field.name for field in made.fields}) < len(fields):
                    raise UsageError(f"{full}: two fields of one name")
        return made

    def _field(self, data: Any, record: str, space: str) -> Field:
        if not isinstance(data, dict) or not isinstance(data.get("name"), str) or "type" not in data:
            raise UsageError(f"{record}: no field: {_short(data)}")
        name = data["name"]
        if not _PART.fullmatch(name):
            raise UsageError(f"{record}: {_short(name)} is no name of a field")
        if data.get("order", "ascending") not in ("ascending", "descending", "ignore"):
            raise UsageError(f"{record}.{name}: no order: {_short(data['order'])}")
        kind, has_default = self.type(data["type"], space), "default" in data
        if has_default:
            self._defaults.append((f"{record}.{name}", data["default"], kind))
        return Field(name=name, type=kind, has_default=has_default, aliases=_texts(data, "aliases"))


def _full_name(name: str, namespace: Any, space: str) -> tuple[str, str]:
    """The namespace that holds inside, and the whole name. Raises UsageError."""
    if namespace is not None and not isinstance(namespace, str):
        raise UsageError(f"no namespace: {_short(namespace)}")
    if "." in name:
        space, _, name = name.rpartition(".")
    elif namespace is not None:
        space = namespace
    full = f"{space}.{name}" if space else name
    if not all(map(_PART.fullmatch, full.split("."))):
        raise UsageError(f"{_short(full)} is no name")
    return space, full


def _symbols(enum: Type, data: dict[str, Any]) -> None:
    enum.symbols = _texts(data, "symbols")
    enum.known = frozenset(enum.symbols)
    if "symbols" not in data or not all(map(_PART.fullmatch, enum.symbols)):
        raise UsageError(f"{enum.name}: symbols are names")
    if len(enum.known) < len(enum.symbols):
        raise UsageError(f"{enum.name}: the same symbol twice")
    symbol = data.get("default")
    if symbol is not None and symbol not in enum.symbols:
        raise UsageError(f"{enum.name}: its default {_short(symbol)} is none of its symbols")
    enum.symbol = symbol or ""


def _size(data: dict[str, Any], full: str) -> int:
    size = data.get("size")
    if type(size) is not int or not 0 <= size < 2**31:
        raise UsageError(f"{full}: no size")
    return size


def _texts(data: dict[str, Any], name: str) -> tuple[str, ...]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UsageError(f"{name} are texts: {_short(found)}")
    return tuple(found)


def _is_integer(bits: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


_SCALARS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": _is_integer(32),
    "long": _is_integer(64),
    "float": _is_number,
    "double": _is_number,
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, str),
    "fixed": lambda value: isinstance(value, str),
}


class _Defaults:
    """Checks the defaults of one schema, whose parts all live as long."""

    def __init__(self) -> None:
        self._left = DEFAULTS_MAX
        self._known: dict[tuple[int, int], bool] = {}
        """Of parts and types, by identity: where types refer to each other, many ways lead to the same question."""

    def is_value(self, value: Any, kind: Type) -> bool:
        """Is it one of this type? Raises UsageError where that takes too many steps."""
        self._left -= 1
        if self._left < 0:
            raise UsageError(f"its defaults take more than {DEFAULTS_MAX} steps to be checked")
        asked = (id(value), id(kind))
        known = self._known.get(asked)
        if known is None:
            known = self._known[asked] = self._judge(value, kind)
        return known

    def _judge(self, value: Any, kind: Type) -> bool:
        match kind.kind:
            case "union":
                return any(self.is_value(value, branch) for branch in kind.branches)
            case "enum":
                return isinstance(value, str) and value in kind.known
            case "array":
                return isinstance(value, list) and all(self.is_value(item, kind.branches[0]) for item in value)
            case "map":
                return isinstance(value, dict) and all(self.is_value(item, kind.branches[0]) for item in value.values())
            case "record":
                return isinstance(value, dict) and all(
                    self.is_value(value[field.name], field.type) if field.name in value else field.has_default
                    for field in kind.fields
                )
            case scalar:
                return _SCALARS[scalar](value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
