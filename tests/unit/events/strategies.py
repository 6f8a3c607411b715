"""Any event, drawn from its schema and not from its generated type."""

from functools import cache
from types import ModuleType
from typing import Any

import msgspec
from hypothesis import strategies as st

from quorate import events
from quorate.events import schema
from quorate.events.schema import Array, FieldType, Map, Optional, Primitive, Record

CATALOGUE = schema.load(schema.SCHEMAS_DIR)

_LETTERS = st.text(max_size=12)  # Any code point but surrogates.
_TEXT = _LETTERS | st.builds(str.__mul__, _LETTERS, st.sampled_from([20, 700]))
_SCALARS = {
    "string": _TEXT,
    "bytes": st.binary(max_size=12) | st.builds(bytes.__mul__, st.binary(max_size=12), st.sampled_from([20, 700])),
    "int": st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(1_600_000_000_000, 2_000_000_000_000) | st.integers(-3, 3),
    "boolean": st.booleans(),
}


def _values(kind: FieldType, module: ModuleType) -> st.SearchStrategy:
    match kind:
        case Primitive(name):
            return _SCALARS[name]
        case Optional(item):
            return st.none() | _values(item, module)
        case Map():
            return st.dictionaries(_SCALARS["string"], _SCALARS["string"], max_size=3)
        case Array(items):
            return st.lists(_values(items, module), max_size=3).map(tuple)
        case Record():
            return records(kind, module)


@cache
def records(record: Record, module: ModuleType = events) -> st.SearchStrategy:
    """Values of a record's type in a generated module."""
    kind = getattr(module, record.name)
    return st.builds(kind, **{field.name: _values(field.type, module) for field in record.fields})


def any_event() -> st.SearchStrategy:
    """One of all types of events, each as likely."""
    return st.one_of([records(record) for record in CATALOGUE.values()])


def plain(event: msgspec.Struct) -> dict[str, Any]:
    """The event as fastavro takes it."""
    return {name: value for name, value in msgspec.to_builtins(event, builtin_types=(bytes,)).items() if name != "type"}
