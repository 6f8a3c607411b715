"""The sums of a state, worked out from nothing."""

from collections.abc import Iterable

from quorate.metadata.requests import RequestTable
from quorate.metadata.sums import SummedFamily, digest, joined
from quorate.model.rows import rows
from quorate.model.state import State


def sum_of(family: SummedFamily, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Of all these rows."""
    return joined(*(digest(family, key, value) for key, value in pairs))


def plain_sums(state: State, requests: RequestTable, groups: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
    """Both sums, worked out from nothing; what ``RunningSums`` carries along must be the same."""
    entities = sum_of("rows", rows(state))
    return entities, joined(entities, sum_of("requests", requests.rows()), sum_of("groups", groups))
