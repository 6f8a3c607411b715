"""Keys: who may put, delete and compare what, by etcd's rules (``etcdserver/apply`` and ``v3rpc/key.go`` of 3.6).

Rules: all of a transaction or nothing; its comparisons are judged on the state it finds, those of transactions within
it too. A key is written once in it at most. Its revision is the offset of its last event: each event says how many
follow it. A transaction that writes nothing has no event.
"""

from collections.abc import Iterable, Sequence
from operator import eq, gt, lt, ne
from typing import Final, assert_never, cast

import msgspec

from quorate.events import Event, KeyDeleted, KeyPut, ordered_name
from quorate.metadata.commands import (
    THIS_REVISION,
    CompareKeys,
    DeleteKeys,
    KeyIsPut,
    KeyOperation,
    KeyReply,
    KeysAreDeleted,
    PutKey,
    Refusal,
    Transact,
    Transacted,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.refusals import refuse
from quorate.model.keys import KeysAre, RangeKeys, bounds, looked_at, within
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue, State

OPERATIONS_MAX: Final = 128
"""Comparisons, or operations of one outcome, with those within them (etcd's default ``--max-txn-ops``)."""
READ_MAX: Final = 65_536
"""Keys that the ranges and comparisons of one transaction look at; etcd has no such bound."""
ANSWERED_MAX: Final = 6 << 20
"""Bytes of keys and values that one write is answered with: between nodes an answer is one frame."""
KEY_BYTES: Final = 128
"""At most, of what a key takes in it besides its name and its value."""
DELETED_MAX: Final = 4096
"""Keys that one decision deletes; etcd has no such bound."""
DELETED_BYTES_MAX: Final = 1280 * 1024
"""Bytes of their names, as texts: each stands in its record twice, and all records are one entry."""
PUT_BYTES_MAX: Final = 4 << 20
"""Bytes of the values and names (twice) that one decision puts. No entry is longer, and a request that keeps the values
of keys says little itself: it is refused before hundreds of MiB are encoded.
"""
LEASE_KEYS_MAX: Final = DELETED_MAX
"""Keys of one lease, which all go in one decision."""
DEPTH_MAX: Final = 16
"""Transactions within transactions."""

TOO_MANY_KEYS: Final = refuse("TooManyKeys", f"the ranges of one request look at {READ_MAX} keys at most: set limits")
_NAMES_TOO_LONG: Final = refuse(
    "TooManyKeys", f"the names of all keys that one request deletes have at most {DELETED_BYTES_MAX >> 10} KiB"
)
_TOO_MUCH: Final = refuse(
    "CommandTooLarge", f"what one request puts, values that it keeps too, has {PUT_BYTES_MAX} bytes at most"
)
TOO_MANY_OPERATIONS: Final = refuse("TooManyOperations", "too many operations in txn request")
_LEASE_NOT_FOUND: Final = refuse("LeaseNotFound", "requested lease not found")
ANSWER_TOO_LONG: Final = refuse(
    "TooManyKeys", f"a write is answered with {ANSWERED_MAX >> 20} MiB of keys at most: set limits"
)
_RESULTS: Final = {"equal": eq, "greater": gt, "less": lt, "not equal": ne}


class _Refused(Exception):  # noqa: N818  It carries the refusal out of a transaction's depth.
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


def put_key(state: State, command: PutKey, context: Context) -> Decision | Refusal:
    """Refuses EmptyKey, ValueProvided, LeaseProvided, KeyNotFound, LeaseNotFound, LeaseIsFull, CommandTooLarge."""
    return _decided(state, command, context.next_revision)


def delete_keys(state: State, command: DeleteKeys, context: Context) -> Decision | Refusal:
    """Refuses EmptyKey, TooManyKeys."""
    return _decided(state, command, context.next_revision)


def transact(state: State, command: Transact, context: Context) -> Decision | Refusal:
    """Refuses TooManyOperations, DuplicateKey, TooManyKeys, and what its operations refuse: those of the outcome that
    comes, and of both what is wrong by itself.
    """
    return _decided(state, command, context.next_revision)


def fault_of(command: Transact) -> Refusal | None:
    """What is wrong with it by itself, whatever the state."""
    try:
        _check(command, OPERATIONS_MAX, DEPTH_MAX)
        _check_written(command)
    except _Refused as refused:
        return refused.refusal
    return None


def read(state: State, command: Transact) -> Transacted | Refusal:
    """What one that writes nothing is answered."""
    decision = _decided(state, command, THIS_REVISION)
    return decision if isinstance(decision, Refusal) else cast("Transacted", decision.reply)


def puts_keys(command: Transact) -> bool:
    """May it put a key?"""
    return any(
        isinstance(operation, PutKey) or (isinstance(operation, Transact) and puts_keys(operation))
        for operation in (*command.success, *command.failure)
    )


def _decided(state: State, operation: PutKey | DeleteKeys | Transact, next_revision: int) -> Decision | Refusal:
    try:
        _check(operation, OPERATIONS_MAX, DEPTH_MAX)
        if isinstance(operation, Transact):
            _check_written(operation)
        elif isinstance(operation, PutKey) and operation.lease and operation.lease not in state.leases:
            return _LEASE_NOT_FOUND  # As etcd: before the key is looked for, but not within a transaction.
        writes = _Writes(state, next_revision)
        reply = writes.decide(operation)
    except _Refused as refused:
        return refused.refusal
    return Decision(numbered(writes.events), reply)


def numbered(events: Sequence[KeyPut | KeyDeleted], others: tuple[Event, ...] = ()) -> tuple[Event, ...]:
    """The events of one decision, ``others`` at its end: each is told how many follow it."""
    last = len(events) + len(others) - 1
    if last:
        events = [msgspec.structs.replace(event, following=last - at) for at, event in enumerate(events)]
    return (*events, *others)


# -- what is wrong with a request whatever the state is


def _check(operation: KeyOperation, most: int, depth: int) -> None:
    match operation:
        case RangeKeys() | DeleteKeys():
            _check_key(operation.key)
        case PutKey():
            _check_put(operation)
        case _:
            compare, success, failure = operation.compare, operation.success, operation.failure
            count = max(len(compare), len(success), len(failure))
            if count > most or not depth:
                raise _Refused(TOO_MANY_OPERATIONS)
            for comparison in compare:
                _check_key(comparison.key)
            for inner in (*success, *failure):
                _check(inner, most - count, depth - 1)


def _check_put(put: PutKey) -> None:
    _check_key(put.key)
    if put.keep_value and put.value:
        raise _Refused(refuse("ValueProvided", "value is provided"))
    if put.keep_lease and put.lease:
        raise _Refused(refuse("LeaseProvided", "lease is provided"))


def _check_key(key: bytes) -> None:
    if not key:
        raise _Refused(refuse("EmptyKey", "key is not provided"))


class _Written:
    """Keys put and ranges deleted by one outcome of a transaction."""

    def __init__(self) -> None:
        self.puts: set[bytes] = set()
        self.deletes: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes) -> None:
        self._check_put(key)
        self.puts.add(key)

    def _check_put(self, key: bytes) -> None:
        if key in self.puts or any(_covers(span, key) for span in self.deletes):
            raise _Refused(_DUPLICATE)

    def delete(self, span: tuple[bytes, bytes | None]) -> None:
        if any(_covers(span, key) for key in self.puts):
            raise _Refused(_DUPLICATE)
        self.deletes.append(span)

    def add(self, other: "_Written") -> None:
        """What a transaction within may write: of its own two outcomes, one comes."""
        for key in other.puts:
            self._check_put(key)
        for span in other.deletes:
            self.delete(span)
        self.puts |= other.puts


_DUPLICATE: Final = refuse("DuplicateKey", "duplicate key given in txn request")


def _covers(span: tuple[bytes, bytes | None], key: bytes) -> bool:
    return span[0] <= key and (span[1] is None or key < span[1])


def _check_written(transaction: Transact) -> _Written:
    """What either outcome may write; in none is a key written twice. Two outcomes may write the same."""
    outcomes = [_check_outcome(transaction.success), _check_outcome(transaction.failure)]
    both = _Written()
    for outcome in outcomes:
        both.puts |= outcome.puts
        both.deletes += outcome.deletes
    return both


def _check_outcome(operations: tuple[KeyOperation, ...]) -> _Written:
    written = _Written()
    for operation in operations:
        if isinstance(operation, DeleteKeys):
            written.delete(bounds(operation.key, operation.range_end))
        elif isinstance(operation, Transact):
            written.add(_check_written(operation))
    for operation in operations:
        if isinstance(operation, PutKey):
            written.put(operation.key)
    return written


# -- what becomes of it


class _Writes:
    """The keys as a decision has changed them so far, and its events."""

    def __init__(self, state: State, next_revision: int) -> None:
        self._next_revision = next_revision
        self._leases, self._attached, self._attached_bytes = state.leases, state.attached, state.attached_bytes
        self.keys: OrderedMap[KeyValue] = state.keys
        self.events: list[KeyPut | KeyDeleted] = []
        self._found = state.keys
        """As it was."""
        self._read = 0
        """Keys that it looked at."""
        self._answered = 0
        """Bytes of keys that it is answered with."""
        self._deleted_bytes = self._put_bytes = 0
        self._joined: dict[int, tuple[int, int]] = {}
        """By how many keys this decision changed each lease, and by how many bytes of their names."""

    def decide(self, operation: KeyOperation) -> KeyReply:
        """Do it, and answer, if every lease can hold what it would."""
        reply = self.run(operation)
        for lease in self._joined:
            self._check_lease(lease)
        return reply

    def run(self, operation: KeyOperation) -> KeyReply:
        """Do it, and answer."""
        match operation:
            case PutKey():
                return self._put(operation)
            case DeleteKeys():
                return self._delete(operation)
            case RangeKeys():
                return self._range(operation)
            case Transact():
                return self._transact(self._chosen(operation))
            case _:
                assert_never(operation)

    def _range(self, asked: RangeKeys) -> KeysAre:
        found = self._within(self.keys, _bounded(asked, self._next_revision))
        self._answer(found.found)
        return found

    def _answer(self, found: Iterable[KeyValue]) -> None:
        """They are told to who asked."""
        self._answered += sum([KEY_BYTES + len(one.key) + len(one.value) for one in found])
        if self._answered > ANSWERED_MAX:
            raise _Refused(ANSWER_TOO_LONG)

    def _within(self, keys: OrderedMap[KeyValue], asked: RangeKeys) -> KeysAre:
        """In one turn: a leader that looked at all of many keys for each of many comparisons would lose its term."""
        self._read += looked_at(keys, asked)
        if self._read > READ_MAX:
            raise _Refused(TOO_MANY_KEYS)
        return within(keys, asked)

    def _put(self, put: PutKey) -> KeyIsPut:
        before = self.keys.get(put.key)
        value, lease = put.value, put.lease
        if put.previous and before is not None:
            self._answer((before,))
        if put.keep_value or put.keep_lease:
            if before is None:
                raise _Refused(refuse("KeyNotFound", "key not found"))
            value = before.value if put.keep_value else value
            lease = before.lease if put.keep_lease else lease
        text = ordered_name(put.key)
        self._put_bytes += len(value) + 2 * len(text)
        if self._put_bytes > PUT_BYTES_MAX:
            raise _Refused(_TOO_MUCH)
        if lease and lease not in self._leases:
            raise _Refused(_LEASE_NOT_FOUND)
        self._attach(lease, 1, len(text))
        if before is not None:
            self._attach(before.lease, -1, -len(text))
        self.events.append(KeyPut(key=text, value=value, lease=lease, following=0))
        self.keys = self.keys.set(
            put.key,
            KeyValue(
                key=text,
                value=value,
                create_revision=THIS_REVISION if before is None else before.create_revision,
                mod_revision=THIS_REVISION,
                version=1 if before is None else before.version + 1,
                lease=lease,
            ),
        )
        return KeyIsPut(previous=before if put.previous else None)

    def _attach(self, lease: int, keys: int, size: int) -> None:
        """So many keys more, or fewer, go with it."""
        if lease:
            keys_before, size_before = self._joined.get(lease, (0, 0))
            self._joined[lease] = keys_before + keys, size_before + size

    def _check_lease(self, lease: int) -> None:
        """A lease that could not end would live for ever: its end is one entry, and deletes all of its keys."""
        keys, size = self._joined[lease]
        if keys <= 0 and size <= 0:
            return
        if len(self._attached.get(lease, OrderedMap())) + keys > LEASE_KEYS_MAX:
            raise _Refused(refuse("LeaseIsFull", f"a lease holds at most {LEASE_KEYS_MAX} keys"))
        if self._attached_bytes.get(lease, 0) + size > DELETED_BYTES_MAX:
            most = f"{DELETED_BYTES_MAX >> 10} KiB"
            raise _Refused(refuse("LeaseIsFull", f"the names of all keys of a lease have at most {most}"))

    def _delete(self, delete: DeleteKeys) -> KeysAreDeleted:
        start, end = bounds(delete.key, delete.range_end)
        found = [(name, before) for name, before in self.keys.items(start, end)] if self._fits(start, end) else []
        self._deleted_bytes += sum([len(before.key) for _, before in found])
        if self._deleted_bytes > DELETED_BYTES_MAX and len(self.events) + len(found) > 1:  # As its put, one key fits.
            raise _Refused(_NAMES_TOO_LONG)
        if delete.previous:
            self._answer(before for _, before in found)
        for name, before in found:
            self._attach(before.lease, -1, -len(before.key))
            self.events.append(KeyDeleted(key=before.key, lease=before.lease, following=0))
            self.keys = self.keys.delete(name)
        previous = tuple(before for _, before in found) if delete.previous else ()
        return KeysAreDeleted(deleted=len(found), previous=previous)

    def _fits(self, start: bytes, end: bytes | None) -> bool:
        count = self.keys.count(start, end)
        if len(self.events) + count > DELETED_MAX:
            raise _Refused(refuse("TooManyKeys", f"one request deletes at most {DELETED_MAX} keys, not {count}"))
        return count > 0

    def _chosen(self, transaction: Transact) -> "_Chosen":
        """Which operations run, within it too: all comparisons are judged before anything is written."""
        succeeded = all(map(self._is_so, transaction.compare))
        operations = transaction.success if succeeded else transaction.failure
        steps = tuple(self._chosen(one) if isinstance(one, Transact) else one for one in operations)
        return _Chosen(succeeded, steps)

    def _transact(self, chosen: "_Chosen") -> Transacted:
        replies = [self._transact(step) if isinstance(step, _Chosen) else self.run(step) for step in chosen.steps]
        return Transacted(succeeded=chosen.succeeded, replies=tuple(replies))

    def _is_so(self, comparison: CompareKeys) -> bool:
        found = self._within(self._found, RangeKeys(key=comparison.key, range_end=comparison.range_end)).found
        return all(_compared(one, comparison) for one in found or (None,))


def _bounded(asked: RangeKeys, next_revision: int) -> RangeKeys:
    """The same question of keys of which those that this decision puts have ``THIS_REVISION`` until it is known: for a
    bound they are of the next one, as in etcd.
    """
    if not asked.by_revision:
        return asked

    def bound(revision: int) -> int:
        return revision if revision < next_revision else THIS_REVISION + (revision > next_revision)

    return msgspec.structs.replace(
        asked,
        min_mod_revision=bound(asked.min_mod_revision),
        max_mod_revision=bound(asked.max_mod_revision),
        min_create_revision=bound(asked.min_create_revision),
        max_create_revision=bound(asked.max_create_revision),
    )


class _Chosen(msgspec.Struct, frozen=True):
    """What a transaction does: its operations, those within it chosen too."""

    succeeded: bool
    steps: "tuple[KeyOperation | _Chosen, ...]"


def _compared(found: KeyValue | None, comparison: CompareKeys) -> bool:
    holds = _RESULTS[comparison.result]
    if comparison.target == "value":
        return found is not None and bool(holds(found.value, comparison.value))
    return bool(holds(0 if found is None else _number(found, comparison), comparison.number))


def _number(found: KeyValue, comparison: CompareKeys) -> int:
    match comparison.target:
        case "version":
            return found.version
        case "create":
            return found.create_revision
        case "lease":
            return found.lease
        case _:
            return found.mod_revision
