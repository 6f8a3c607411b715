from collections.abc import Callable
from typing import Any

SOURCE: int  # CRC-32 of the source it was built of.

# The function here of that one's name, with that one for what it does not take. Raises LookupError.
def made(pure: Callable[..., Any], /) -> Callable[..., Any]: ...

# The same of a record's layout: the function, prefix or class, names, kinds. Raises ValueError.
def writer(pure: Callable[..., Any], prefix: bytes, names: tuple[str, ...], kinds: str, /) -> Callable[..., Any]: ...
def reader(pure: Callable[..., Any], made: type, names: tuple[str, ...], kinds: str, /) -> Callable[..., Any]: ...

# CRC-32 and CRC-32C.
def checksums(data: bytes, /) -> tuple[int, int]: ...
