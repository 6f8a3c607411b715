"""What a case speaks through: it asks a server, and everything answered becomes a step of the case's story.

Rules: a case writes only keys that begin with its own prefix, and leases that it granted; both are ended behind it, so
that the next one finds nothing. Keys are told without the prefix.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, groupby
from typing import Any, Final

from tests.etcd.client import DEADLINE_S, Client, Failed, Stream, answer
from tests.etcd.normal import Normal

Fields = Mapping[str, Any]
Story = dict[str, Any]
"""Step → what was answered, as plain data."""
Case = Callable[["Teller"], None]
FAR: Final = 1_000_000_000
"""Revisions that are surely not yet there are so far away."""
_numbers = count(1)


class Watching:
    """One stream of watches; ``first`` is what its first creation was answered."""

    def __init__(self, teller: "Teller", stream: Stream) -> None:
        self._teller = teller
        self._stream = stream

    def create(self, key: str | bytes, **fields: Any) -> Any:
        """One more watch on this stream, and its answer."""
        self._stream.send({"create_request": self._teller.spanned(key, fields)})
        return self.take("create")

    def cancel(self, watch_id: int) -> Any:
        """End one, and take the answer."""
        self._stream.send({"cancel_request": {"watch_id": watch_id}})
        return self.take("cancel")

    def progress(self) -> Any:
        """Ask how far it is, and take the answer."""
        self._stream.send({"progress_request": {}})
        return self.take("progress")

    def send(self, fields: Fields) -> None:
        """Any request, without waiting for an answer."""
        self._stream.send(fields)

    def finish(self) -> None:
        """Ask for nothing more."""
        self._stream.finish()

    def take(self, what: str = "answer") -> Any:
        """The next answer, whatever it is."""
        found = self._stream.next()
        self._teller.keep(f"watch: {what}", "ended" if found is None else found)
        return found

    def events(self, number: int, what: str = "events") -> None:
        """So many events, by watch and revision (writes may share an answer; those of one revision must)."""
        found: list[tuple[int, Any]] = []
        while len(found) < number:
            one = self._stream.next()
            if one is None or isinstance(one, Failed) or not one.events:
                self._teller.keep(f"watch: {what}", "ended" if one is None else one)
                return
            assert one.header.revision >= one.events[-1].kv.mod_revision
            seen = {(watch, event.kv.mod_revision) for watch, event in found}
            assert not seen & {(one.watch_id, event.kv.mod_revision) for event in one.events}, "a write in two parts"
            found += [(one.watch_id, event) for event in one.events]
        found.sort(key=lambda pair: (pair[0], pair[1].kv.mod_revision))
        writes = [[event for _, event in group] for _, group in groupby(found, key=_write)]
        self._teller.keep(f"watch: {what}", writes)


def _write(pair: tuple[int, Any]) -> tuple[int, int]:
    revision: int = pair[1].kv.mod_revision
    return pair[0], revision


class KeepingAlive:
    """A stream of signs of life."""

    def __init__(self, teller: "Teller", stream: Stream) -> None:
        self._teller = teller
        self._stream = stream

    def beat(self, lease: int) -> Any:
        """One, and its answer."""
        self._stream.send({"ID": lease})
        found = self._stream.next()
        self._teller.keep("keep alive", found)
        return found


class Teller:
    """Asks in the name of one case."""

    def __init__(self, client: Client, case: str) -> None:
        self._client = client
        self._number = next(_numbers)
        self.prefix = f"{case} {self._number:06}/".encode()
        self._steps: list[tuple[str, Any]] = []
        self._leases: list[int] = []

    # -- what is asked

    def get(self, key: str | bytes, **fields: Any) -> Any:
        """Range; ``to``: the end of the range, as a key of the case."""
        return self._ask("Range", self.spanned(key, fields))

    def all(self, **fields: Any) -> Any:
        """Range over all keys of the case."""
        return self.get("", range_end=self.behind, **fields)

    def put(self, key: str | bytes, value: str | bytes = b"", **fields: Any) -> Any:
        """Put."""
        return self._ask("Put", self.putting(key, value, **fields))

    def delete(self, key: str | bytes, **fields: Any) -> Any:
        """DeleteRange; ``to`` as for ``get``."""
        return self._ask("DeleteRange", self.spanned(key, fields))

    def txn(self, compare: Sequence[Fields] = (), then: Sequence[Fields] = (), other: Sequence[Fields] = ()) -> Any:
        """Txn, of what ``compared`` and the ``…_op`` make."""
        return self._ask("Txn", {"compare": compare, "success": then, "failure": other})

    def ask(self, method: str, **fields: Any) -> Any:
        """Any other method."""
        found = self._ask(method, fields)
        if method == "LeaseGrant" and found.ID:
            self._leases.append(found.ID)
        return found

    def grant(self, ttl_s: int = 600, lease: int = 0) -> int:
        """LeaseGrant; the number of the lease."""
        number: int = self.ask("LeaseGrant", TTL=ttl_s, ID=lease).ID
        return number

    def quietly(self, method: str, fields: Fields) -> None:
        """Ask without a step: one of many of a kind, which all must be answered. Raises AssertionError."""
        found = self._client.ask(method, fields)
        assert not isinstance(found, Failed), found

    def raw(self, where: str, asked: bytes) -> None:
        """Bytes that may be no request, to a method that may not be there; of an answer only that it came is kept."""
        found = self._client.ask_bytes(where, asked)
        self.keep(f"bytes to {where}", found if isinstance(found, Failed) else "answered")

    def own_lease(self) -> int:
        """A number for a lease that nobody else has."""
        return 7_000_000_000 + time.time_ns() % 1_000_000_000 * 100 + self._number % 100

    @contextmanager
    def watching(self, key: str | bytes, **fields: Any) -> Iterator[Watching]:
        """A stream with one watch, created."""
        with self.stream() as stream:
            stream.create(key, **fields)
            yield stream

    @contextmanager
    def stream(self) -> Iterator[Watching]:
        """A stream of watches, with none yet."""
        stream = self._client.stream("Watch")
        try:
            yield Watching(self, stream)
        finally:
            stream.close()

    @contextmanager
    def keeping_alive(self) -> Iterator[KeepingAlive]:
        """A stream of signs of life."""
        stream = self._client.stream("LeaseKeepAlive")
        try:
            yield KeepingAlive(self, stream)
        finally:
            stream.close()

    def gone(self, key: str) -> None:
        """Wait until a key is not there any more. Raises TimeoutError."""
        end = time.monotonic() + DEADLINE_S
        while (found := self._client.ask("Range", {"key": self.key(key)})).kvs:
            if time.monotonic() > end:
                raise TimeoutError(f"{key} is still there")
            time.sleep(0.05)
        self.keep(f"gone: {key}", found)

    # -- what requests are made of

    @property
    def behind(self) -> bytes:
        """The end of the range of all keys of the case."""
        return self.prefix[:-1] + bytes([self.prefix[-1] + 1])

    def key(self, name: str | bytes) -> bytes:
        """A key of the case. Bytes in any encoding."""
        return self.prefix + (name.encode() if isinstance(name, str) else name)

    def spanned(self, key: str | bytes, fields: Fields) -> dict[str, Any]:
        """With the key, and with ``to`` as range_end."""
        found = {"key": self.key(key), **fields}
        if "to" in found:
            found["range_end"] = self.key(found.pop("to"))
        return found

    def putting(self, key: str | bytes, value: str | bytes = b"", **fields: Any) -> dict[str, Any]:
        """Fields of a PutRequest."""
        return {"key": self.key(key), "value": value.encode() if isinstance(value, str) else value, **fields}

    def put_op(self, key: str | bytes, value: str | bytes = b"", **fields: Any) -> Fields:
        """A put within a transaction."""
        return {"request_put": self.putting(key, value, **fields)}

    def get_op(self, key: str | bytes, **fields: Any) -> Fields:
        """A range within a transaction."""
        return {"request_range": self.spanned(key, fields)}

    def all_op(self, **fields: Any) -> Fields:
        """A range over all keys of the case, within a transaction."""
        return self.get_op("", range_end=self.behind, **fields)

    def delete_op(self, key: str | bytes, **fields: Any) -> Fields:
        """A deletion within a transaction."""
        return {"request_delete_range": self.spanned(key, fields)}

    def txn_op(
        self, compare: Sequence[Fields] = (), then: Sequence[Fields] = (), other: Sequence[Fields] = ()
    ) -> Fields:
        """A transaction within a transaction."""
        return {"request_txn": {"compare": compare, "success": then, "failure": other}}

    def compared(self, key: str | bytes, result: str, **union: Any) -> Fields:
        """A comparison: ``version=1``, ``value=b""``, … and ``to`` or ``range_end``."""
        (target,) = union.keys() - {"to", "range_end", "target"}
        named = {"create_revision": "CREATE", "mod_revision": "MOD"}.get(target, target.upper())
        return {"result": result, "target": named, **self.spanned(key, union)}

    # -- what came of it

    def keep(self, what: str, found: Any) -> None:
        """One step more."""
        self._steps.append((f"{len(self._steps) + 1:02} {what}", found))

    def _ask(self, method: str, fields: Fields) -> Any:
        """The answer; an empty one in the place of an error, which is kept."""
        found = self._client.ask(method, fields)
        self.keep(method, found)
        return answer(method)() if isinstance(found, Failed) else found

    def story(self) -> Story:
        """All steps, told so that they can be compared."""
        normal = Normal(self.prefix, [part for _, found in self._steps for part in _parts(found)])
        return {step: normal.told(found) for step, found in self._steps}

    def catch_up(self) -> None:
        """Let the server have all that was written before, elsewhere too: a watch of all keys would tell of it."""
        self.quietly("Range", {"key": self.prefix})

    def clean(self) -> None:
        """Leave nothing behind."""
        for lease in self._leases:
            self._client.ask("LeaseRevoke", {"ID": lease})
        self._client.ask("DeleteRange", {"key": self.prefix, "range_end": self.behind})


def _parts(found: Any) -> list[Any]:
    return [part for one in found for part in _parts(one)] if isinstance(found, list) else [found]


def tell(case: Case, name: str, client: Client) -> Story:
    """The story of a case, asked of one server."""
    teller = Teller(client, name)
    teller.catch_up()
    try:
        case(teller)
    finally:
        teller.clean()
    return teller.story()
