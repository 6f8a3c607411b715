"""A history as the serving query would give it to its sink."""

from collections.abc import Iterator, Sequence

import msgspec
from pyspark.sql import Row

from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.facts import fact
from quorate_spark.pipelines.keyed import KeyState, advance
from quorate_spark.serving import BY_ROW
from quorate_spark.sinks.store import Put
from tests.spark.replay import Facts
from tests.spark.story import rows


def batches(told: Facts, sizes: Sequence[int]) -> Iterator[list[Put]]:
    """Cut into batches of these sizes, the rest in one."""
    facts = [fact(Row(**one)) for one in rows(told)]
    kept: dict[str, KeyState] = {}
    for size in [*sizes, len(facts)]:
        batch, facts = facts[:size], facts[size:]
        puts: list[Put] = []
        for key in {one.key for one in batch}:
            before = kept.get(key, KeyState("", 0, {}))
            kept[key], put = advance(folds(), before, [one for one in batch if one.key == key])
            puts += [(BY_ROW[type(one)].name, one.event_offset, msgspec.json.encode(one).decode()) for one in put]
        if puts:
            yield puts
