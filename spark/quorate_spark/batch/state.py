"""The state of the cluster as it was: every entity as of an offset or a time."""

from collections.abc import Iterator

import msgspec
from pyspark.sql import DataFrame

from quorate_spark.batch.history import History, table
from quorate_spark.pipelines.entities import ENTITIES
from quorate_spark.serving import Entity


class EntityBefore(msgspec.Struct, frozen=True, kw_only=True):
    """An entity that was there."""

    key: str
    kind: str
    name: str
    event_offset: int
    """The last event that touched it."""
    time_ms: int
    value: msgspec.Raw
    """As in the serving table ``entities``."""


def state(history: History, kind: str | None = None) -> DataFrame:
    """The entities that were there after the history, by key; ``kind``: only those."""
    entities = table(history.rows(ENTITIES), Entity).where("value IS NOT NULL")
    return (entities if kind is None else entities.where(entities.kind == kind)).orderBy("key")


def known(entities: DataFrame) -> Iterator[EntityBefore]:
    """The rows of ``state``, as values."""
    for row in entities.toLocalIterator():
        plain = row.asDict()
        yield EntityBefore(**plain | {"value": msgspec.Raw(plain["value"].encode())})
