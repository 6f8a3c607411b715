"""The view ``configs`` as it was folded before it was a question to the model."""

from quorate.events import ConfigChanged, Stamp
from quorate_projections.views.configs import ConfigRow
from quorate_projections.views.view import Rows

Mine = ConfigChanged


def fold(rows: Rows[ConfigRow], stamp: Stamp, event: ConfigChanged) -> None:
    """Set and unset."""
    values = dict(rows.get(event.scope).values)
    for change in event.changes:
        if change.new is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.new
    if not values:
        rows.drop(event.scope)
        return
    row = ConfigRow(
        scope=event.scope,
        values=dict(sorted(values.items())),
        changed_offset=stamp.offset,
        changed_ms=stamp.time_ms,
        changed_by=stamp.principal,
    )
    rows.put(event.scope, row)
