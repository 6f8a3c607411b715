"""Answers that are serialised as they are made: no turn of the loop makes the whole of a large one, or copies it.

Rules: the parts of a message may follow each other, whatever each of them says of it, and a message within another is
one of its fields (protobuf's encoding). What is made of an answer counts as held before more of it is made.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.model.state import KeyValue

Pieces = list[bytes]
"""A message, in parts that follow each other."""
KEYS_PER_STEP: Final = 500
"""Of an answer, before other work gets its turn."""
BYTES_PER_STEP: Final = 1024 * 1024
"""And so many bytes, with the key that reaches them."""
KEY_BYTES: Final = 96
"""What a message of an answer takes in memory beside its own bytes, until it is serialised."""
_LENGTH_FOLLOWS: Final = 2
_MORE: Final = 0x80


def field(number: int, pieces: Pieces) -> Pieces:
    """A message as a field of another, of a number below 16."""
    head, length = bytearray((number << 3 | _LENGTH_FOLLOWS,)), sum(map(len, pieces))
    while length >= _MORE:
        head.append(length % _MORE | _MORE)
        length //= _MORE
    head.append(length)
    return [bytes(head), *pieces]


class Making:
    """What was made of an answer, of all its ranges. ``hold`` is told of it, and may raise CallError; of more than
    ``most`` bytes nothing is made.
    """

    def __init__(self, hold: Callable[[int], None], *, per_step: int = KEYS_PER_STEP, most: int | None = None) -> None:
        self._hold, self._per_step, self._most = hold, per_step, most
        self._size = self._keys = self._bytes = 0

    def some(self, found: Iterator[KeyValue]) -> Iterator[KeyValue]:
        """As many as one step makes."""
        size = 0
        for one in islice(found, self._per_step):
            yield one
            size += len(one.key) + len(one.value)
            if size >= BYTES_PER_STEP:
                return

    def enough(self, keys: int, size: int) -> bool:
        """With these, is it time for others' work? Raises CallError when there is no room for them."""
        self._size += size
        if self._most is not None and self._size > self._most:
            text = f"quorate: the answer is larger than {self._most} bytes: set a limit"
            raise CallError(StatusCode.RESOURCE_EXHAUSTED, text)
        self._hold(size)
        self._keys += keys
        self._bytes += size
        if self._keys < self._per_step and self._bytes < BYTES_PER_STEP:
            return False
        self._keys = self._bytes = 0
        return True
