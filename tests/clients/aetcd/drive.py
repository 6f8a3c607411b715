"""aetcd, a stock asyncio client of etcd, at a cluster whose leader may be killed meanwhile: what it did, in JSON lines
(tests/etcd/drivers.py).

Rules: it knows nothing of Quorate, and runs in a process and with packages of its own: its protobuf messages have the
names of ours. It has one server at a time and goes to the next one when that does not answer. A write whose end nobody
knows is looked for, and repeated if it was not done.

Usage: ``PYTHONPATH=<the peer> python drive.py ENDPOINT,… PREFIX``.
"""

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from types import CoroutineType
from typing import Any, cast

aetcd: Any = import_module("aetcd")
PATIENCE_S = 90.0
HALF = 20
LEASE_S = 30
Ask = Callable[[Any], Awaitable[Any]]


def say(at: str, **more: Any) -> None:
    """One line."""
    print(json.dumps({"at": at, **more}), flush=True)


class Server:
    """One of several, by a client of its own; the next when it fails."""

    def __init__(self, endpoints: str) -> None:
        self._places = itertools.cycle(place.rsplit(":", 1) for place in endpoints.split(","))
        self._next()

    def _next(self) -> None:
        host, port = next(self._places)
        self.client = aetcd.Client(host, int(port), timeout=5)

    async def leave(self, error: Exception) -> None:
        """It does not answer. Raises what is no such error."""
        unreachable = (aetcd.ConnectionFailedError, aetcd.ConnectionTimeoutError, aetcd.WatchTimeoutError)
        if not isinstance(error, unreachable):
            raise error
        say("unknown", error=str(error))
        gone = self.client
        self._next()
        await gone.close()
        await asyncio.sleep(0.05)

    async def ask(self, call: Ask) -> Any:
        """The answer, of whichever gives one: for what does no harm when it is done twice."""
        while True:
            try:
                return await call(self.client)
            except aetcd.ClientError as error:
                await self.leave(error)


class Work:
    """A half, as much as comes while there is trouble, and another half."""

    def __init__(self, half: int, over: asyncio.Event, ready: asyncio.Semaphore) -> None:
        self._half, self._over, self._ready = half, over, ready
        self._done = self._after = 0

    def more(self) -> bool:
        """Once more?"""
        self._done += 1
        if self._done == self._half + 1:
            self._ready.release()
        if not self._over.is_set() or self._done <= self._half:
            return True
        self._after += 1
        return self._after <= self._half


async def numbers(endpoints: str, prefix: str, work: Work) -> None:
    """Each number is put once, by compare-and-set; a watcher is told of each once and in order."""
    server, key = Server(endpoints), f"{prefix}/number".encode()
    watching, count = asyncio.create_task(told(endpoints, key)), 0
    while work.more():
        value = b"%d" % count

        async def put(client: Any, value: bytes = value, count: int = count) -> None:
            kinds = client.transactions
            done, answers = await client.transaction(
                compare=[kinds.version(key) == count], success=[kinds.put(key, value)], failure=[kinds.get(key)]
            )
            if not done:  # Then it was done before, and nobody said so.
                found = answers[0][0][1]
                assert (found.value, found.version) == (value, count + 1), (value, found)

        await server.ask(put)
        count += 1
    await server.ask(lambda client: client.delete(key))
    revisions = await watching
    assert len(revisions) == count, (len(revisions), count)
    say("kept", revisions=revisions)


async def told(endpoints: str, key: bytes) -> list[int]:
    """The revision of each put, to the deletion; a watch that breaks goes on behind the last."""
    server, revisions = Server(endpoints), list[int]()
    while True:
        try:
            start = revisions[-1] + 1 if revisions else 1
            async for event in await server.client.watch(key, start_revision=start):
                if event.kind == aetcd.EventKind.DELETE:
                    return revisions
                assert event.kv.value == b"%d" % len(revisions), (event, len(revisions))
                assert event.kv.mod_revision >= start, (event, start)
                revisions.append(event.kv.mod_revision)
        except aetcd.ClientError as error:
            await server.leave(error)


async def leased(endpoints: str, prefix: str, work: Work) -> None:
    """A lease that is kept alive stays, and its key with it; revoked, it takes the key along."""
    server, key = Server(endpoints), f"{prefix}/leased".encode()
    lease = (await server.ask(lambda client: client.lease(LEASE_S))).id
    await server.ask(lambda client: client.put(key, b"x", lease=lease))
    while work.more():
        alive = await server.ask(lambda client: client.refresh_lease(lease))
        assert alive.TTL == LEASE_S, alive
        assert (await server.ask(lambda client: client.get(key))).lease == lease
        await asyncio.sleep(0.02)
    info = await server.ask(lambda client: client.get_lease_info(lease))
    assert list(info.keys) == [key], info
    while (await server.ask(lambda client: client.get(key))) is not None:
        try:
            await server.client.revoke_lease(lease)
        except aetcd.ClientError as error:
            if "lease not found" not in str(error):  # It was done, and nobody said so.
                await server.leave(error)
    say("revoked", lease=lease)


async def locked(endpoints: str, prefix: str, work: Work, inside: list[int], number: int) -> None:
    """A lock that several want: never two have it, and who had it may not write as its owner."""
    server, key = Server(endpoints), f"{prefix}/lock".encode()
    while work.more():
        lock = server.client.lock(key, ttl=60)
        while True:
            try:
                if await lock.acquire(timeout=None):
                    break
            except aetcd.ClientError as error:
                await server.leave(error)
                mine = await server.ask(lambda client: client.get(key))
                mine = mine if mine is not None and mine.value == lock.uuid else None
                lock._client = server.client  # It has one server for good; its key is what it is known by.
                if mine is not None:
                    lock.revision = mine.create_revision
                    break
        inside.append(number)
        assert inside == [number], inside
        revision = lock.revision

        async def fenced(client: Any, revision: int = revision) -> bool:
            kinds = client.transactions
            owner, fence = kinds.create(key) == revision, kinds.put(key + b"/fenced", b"%d" % number)
            done, _ = await client.transaction(compare=[owner], success=[fence], failure=[])
            return bool(done)

        assert await server.ask(fenced), (number, revision)
        say("locked", holder=number, revision=revision)
        inside.remove(number)
        await server.ask(partial(_released, lock))
        assert not await server.ask(fenced), (number, revision)


async def _released(lock: Any, client: Any) -> None:
    lock._client = client
    await lock.release()


def where_all_wait() -> None:
    """Say it before patience ends: of a program that hangs, its last line alone explains nothing."""
    for task in asyncio.all_tasks():
        waits, inner = [task.get_name()], cast(object, task.get_coro())
        while isinstance(inner, CoroutineType):
            waits.append(f"{inner.cr_code.co_qualname}:{inner.cr_frame and inner.cr_frame.f_lineno}")
            inner = inner.cr_await
        print(*waits, sep=" > ", file=sys.stderr)


async def main(endpoints: str, prefix: str) -> None:
    """All of it at once. Raises whatever was not kept."""
    over, ready, inside = asyncio.Event(), asyncio.Semaphore(0), list[int]()
    told = partial(asyncio.get_running_loop().call_soon_threadsafe, over.set)
    threading.Thread(target=lambda: (sys.stdin.read(), told()), daemon=True).start()
    lock_work = Work(HALF // 2, over, ready)
    asyncio.get_running_loop().call_later(PATIENCE_S - 1, where_all_wait)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        group.create_task(numbers(endpoints, prefix, Work(HALF, over, ready)))
        group.create_task(leased(endpoints, prefix, Work(HALF // 2, over, ready)))
        for number in range(3):
            group.create_task(locked(endpoints, prefix, lock_work, inside, number))
        for _ in range(3):
            await ready.acquire()
        say("half")
    say("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
