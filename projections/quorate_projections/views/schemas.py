"""The view ``schemas``: every schema that another service registered, by its id."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Schema
from quorate_projections.views.view import row_of, showing


class SchemaRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A schema; it never changes."""

    schema_id: int = 0
    schema: str = ""
    """Avro, as JSON."""
    added_ms: int = 0


def show(schema: Schema, before: SchemaRow, stamp: Stamp) -> SchemaRow:
    """The schema, and since when it is there."""
    return row_of(SchemaRow, schema, added_ms=stamp.time_ms)


VIEW = showing("schemas", "Schemas of other services, by id.", SchemaRow(), {"schema": ("", show)})
