"""A stateful pipeline: an initial value and a pure step, for the events of one key.

Rules: a step sees the state and one fact, in the order of the log, and gives the next state and the rows it puts; no
clock, no chance, no other key's events. States are small and bounded by what the entity is, for they are rewritten with
every batch that touches their key. A step that changes what it makes of a fact raises the fold's ``version``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from quorate.events import Event
from quorate_spark.pipelines.facts import Fact
from quorate_spark.serving import Row

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True)
class Fold(Generic[S]):
    """One pipeline over the facts of one key."""

    name: str
    version: str
    reads: frozenset[type[Event]]
    """The events its step is given."""
    initial: S
    """The state before a key's first event; a frozen struct whose fields JSON can hold."""
    step: Callable[[S, Fact], tuple[S, Iterable[Row]]]


AnyFold = Fold[Any]
"""A fold of whatever state."""


ALL: Final[frozenset[type[Event]]] = frozenset(get_args(Event))
"""For a fold that reads everything."""


class Nothing(msgspec.Struct, frozen=True):
    """The state of a fold that remembers nothing."""
