from collections.abc import Callable
from typing import Any

SOURCE: int  # CRC-32 of the source it was built of.

# The function here of that one's name, with that one for what it does not take. Raises LookupError.
def made(pure: Callable[..., Any], /) -> Callable[..., Any]: ...

# CRC-32 and CRC-32C.
def checksums(data: bytes, /) -> tuple[int, int]: ...
