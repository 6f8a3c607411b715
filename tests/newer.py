"""A build that is newer than this one: it has another version of every event, and one event more.

Made here of the schemas of this tree: each gets fields that nobody here knows, in another order, and is generated; its
registry is served as a node serves it. ``rewritten`` is a record of ours as that build would have written it.
"""

import asyncio
import contextlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import msgspec
import uvloop

from quorate.clock import LoopScheduler
from quorate.events import Event, decode, generate, registry, schema
from quorate.gateway.http import HttpServer, HttpSettings
from quorate.gateway.http.interface import registry_routes
from quorate.gateway.http.registry import Registry
from quorate.gateway.http.routing import Router
from quorate.metrics import Metrics
from tests.batches import Record
from tests.clusters import free_ports

ADDED: dict[str, Any] = {"added_text": "né", "added_bytes": b"\xff\x00", "added_ids": (1, 2**40), "added_number": None}
"""Fields of the newer versions, and what they hold."""
TYPES: Any = {
    "added_text": ("string", ""),
    "added_bytes": ("bytes", ""),
    "added_ids": ({"type": "array", "items": "long"}, []),
    "added_number": (["null", "int"], None),
}
RETIRED: Any = {
    "type": "record",
    "name": "TopicRetired",
    "namespace": "quorate.events",
    "doc": "A topic was retired.",
    "quorate.key": "topic/{topic}",
    "fields": [{"name": "topic", "type": "string", "doc": "Name of the topic."}],
}


@cache
def module() -> ModuleType:
    """Its generated module."""
    with TemporaryDirectory() as parent:
        folder = Path(shutil.copytree(schema.SCHEMAS_DIR, Path(parent, "schemas")))
        for path in folder.rglob("*.avsc"):
            avsc = json.loads(path.read_bytes())
            for name, (kind, default) in TYPES.items():
                avsc["fields"].append({"name": name, "type": kind, "default": default, "doc": "New."})
            avsc["fields"].reverse()
            path.write_text(json.dumps(avsc))
        (folder / "TopicRetired.avsc").write_text(json.dumps(RETIRED))
        files = generate.plan(folder)
        assert registry.path_in(folder) in files
    made = ModuleType("newer_events")
    sys.modules[made.__name__] = made  # msgspec looks its annotations up there.
    exec(compile(files[generate.MODULE], made.__name__, "exec"), made.__dict__)
    return made


def frame_of(event: Event) -> bytes:
    """The event as the newer build writes it."""
    kind = getattr(module(), type(event).__name__)
    frame: bytes = module().WRITERS[kind](kind(**msgspec.structs.asdict(event), **ADDED))
    return frame


def retired(topic: str) -> bytes:
    """An event that only the newer build knows."""
    kind = module().TopicRetired
    frame: bytes = module().WRITERS[kind](kind(topic=topic))
    return frame


def rewritten(record: Record) -> Record:
    """The same record, its event in the newer version."""
    return msgspec.structs.replace(record, value=frame_of(decode(record.value or b"")))


@contextlib.contextmanager
def served(schemas: Mapping[int, str], port: int = 0) -> Iterator[str]:
    """A node's registry of these schemas on a socket; its address."""
    loop, port = uvloop.new_event_loop(), port or free_ports(1)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    router = Router(registry_routes(Registry(schemas, "the.topic")))
    server = HttpServer(router, HttpSettings(), Metrics(), LoopScheduler(loop))
    asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", port), loop).result(10)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
