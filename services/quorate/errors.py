"""The three kinds of trouble that are exceptions; a refusal is a value, never one of these (docs/architecture.md)."""


class QuorateError(Exception):
    """Every exception we raise on purpose."""


class PeerError(QuorateError):
    """The other side broke the protocol; its connection suffers, nothing else changes."""


class UsageError(QuorateError):
    """We, or the operator, asked for something that cannot be."""


class AddressError(UsageError):
    """An address cannot be listened on: another program has it, or it is not this machine's."""


class DirectoryInUseError(UsageError):
    """Another node has this data directory open."""


class StorageError(QuorateError):
    """The disk failed or lies; the node stops (fail-stop), it never retries a sync."""


class DiskFullError(StorageError):
    """A new file found no room; nothing of it is left."""


class InvariantBrokenError(QuorateError):
    """The state cannot be explained; the node stops rather than serve from it."""


def check(condition: object, message: str) -> None:
    """Guard an invariant; unlike ``assert`` it stays under ``-O``."""
    if not condition:
        raise InvariantBrokenError(message)


def reason_of(error: Exception) -> str:
    """What it says; of the operating system without its number and the name of the file, which are told beside it."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
