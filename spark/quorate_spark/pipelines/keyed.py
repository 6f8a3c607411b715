"""The folds as one stateful operator: events grouped by key go in, rows of the serving store come out.

Rules: one operator for all folds, because every further one reads the topic again and shuffles again. Within a batch a
key's events come in no promised order: they are sorted by offset. Of a row put twice in a batch the last form goes out.
The state of a key names the folds it was made by; a checkpoint of other folds is refused, for their rows would be
wrong without a sign of it.

Theory: events share a key iff they touch the same entity, so a key's events, in the order of the log, are all a fold
needs; keys are independent, and spread over as many tasks as there are shuffle partitions.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from quorate.errors import UsageError
from quorate.model.entity import MODEL_VERSION, entity_after
from quorate.model.rows import decoded, encoded
from quorate_spark.pipelines.facts import Fact, fact
from quorate_spark.pipelines.fold import AnyFold
from quorate_spark.serving import BY_ROW, Row, key_of

OUT: Final = "table STRING, event_offset LONG, row STRING"
"""A row of a table of serving.py, as JSON."""


class StaleCheckpointError(UsageError):
    """The checkpoint was written by other folds; so are the rows of its store."""


def names_of(folds: Iterable[AnyFold]) -> str:
    """The folds and the model that rows rest on, with their versions."""
    return ", ".join([f"model {MODEL_VERSION}", *(f"{fold.name} {fold.version}" for fold in folds)])


class KeyState(msgspec.Struct, frozen=True):
    """The state of a key between batches."""

    folds: str
    position: int
    """Offset after the last event folded."""
    states: dict[str, msgspec.Raw]
    """Of the folds that have seen something, by name."""
    entity: bytes = b""
    """The model's entity under the key; empty: none."""


class KeyedProcessor(StatefulProcessor):
    """Runs the folds over the events of one key after the other."""

    def __init__(self, folds: Sequence[AnyFold]) -> None:
        self._folds = tuple(folds)
        self._made_by = names_of(self._folds)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before the first key."""
        self._kept = handle.getValueState("kept", "json STRING")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:  # noqa: N802, N803 Spark's
        """Called by Spark with a key's rows of a batch."""
        text = self._kept.get()
        kept = KeyState(self._made_by, 0, {}) if text is None else msgspec.json.decode(text[0], type=KeyState)
        if kept.folds != self._made_by:
            raise StaleCheckpointError(
                f"a checkpoint of the folds {kept.folds} cannot go on with {self._made_by}: "
                "give another sink and another checkpoint, both are built anew from the log"
            )
        facts = [fact(row) for row in sorted(rows, key=lambda row: row.offset) if row.offset >= kept.position]
        if not facts:
            return
        kept, put = advance(self._folds, kept, facts)
        self._kept.update((msgspec.json.encode(kept).decode(),))
        for row in put:
            encoded = msgspec.json.encode(row).decode()
            yield SparkRow(table=BY_ROW[type(row)].name, event_offset=row.event_offset, row=encoded)

    def close(self) -> None:
        """Called by Spark at the end; there is nothing to close."""


def advance(folds: Iterable[AnyFold], kept: KeyState, facts: Sequence[Fact]) -> tuple[KeyState, list[Row]]:
    """The key's state after the facts (in order), and the rows put, each in its last form."""
    states, put = dict(kept.states), dict[tuple[object, ...], Row]()
    facts, entity = _modelled(kept.entity, facts)
    for fold in folds:
        mine = [one for one in facts if type(one.event) in fold.reads]
        if not mine:
            continue
        raw = states.get(fold.name)
        state = fold.initial if raw is None else msgspec.json.decode(raw, type=type(fold.initial))
        for one in mine:
            state, rows = fold.step(state, one)
            put.update(((type(row), *key_of(row)), row) for row in rows)
        states[fold.name] = msgspec.Raw(msgspec.json.encode(state))
    return KeyState(kept.folds, facts[-1].stamp.offset + 1, states, entity), list(put.values())


def _modelled(kept: bytes, facts: Sequence[Fact]) -> tuple[list[Fact], bytes]:
    """The facts, each with what the model had before it and has after it; and the entity after the last."""
    entity = decoded(facts[0].key.encode(), kept) if kept else None
    full_facts = []
    for one in facts:
        after = entity_after(entity, one.event, one.stamp)
        full_facts.append(msgspec.structs.replace(one, before=entity, after=after))
        entity = after
    return full_facts, b"" if entity is None else encoded(entity)


def keyed(events: DataFrame, folds: Sequence[AnyFold]) -> DataFrame:
    """The rows (``OUT``) that the folds put for the events, as the source's columns have them; streaming or batch."""
    return events.groupBy("key").transformWithState(
        KeyedProcessor(folds), outputStructType=OUT, outputMode="Update", timeMode="None"
    )
