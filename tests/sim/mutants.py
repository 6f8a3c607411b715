"""Planted bugs."""
from collections.abc import Callable
import msgspec
class Mutant(msgspec.Struct, frozen=True):
    apply: Callable[[], None]
    script: Callable[[int], None] | None = None
MUTANTS: dict[str, Mutant] = {}
def table(last: int, jobs: int) -> int:
    return 0
