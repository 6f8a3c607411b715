"""A cluster of node processes on this machine: their folders, settings, ports, and lives. Used by ``up`` and ``demo``.

Rules: node i (from 0) has id i+1 and ports P+10i (rpc), +1 (raft), +2 (kafka), +3 (http), +4 (grpc). Its
settings are ``DIR/n<id>/node.toml``, its output ``DIR/n<id>/node.log``. Existing data is never touched unless asked to
resume, and never deleted. Nothing is started while somebody listens where a part of it would: he would answer for it.
"""

import asyncio
import errno
import json
import os
import secrets
import signal
import socket
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from quorate.cli.client import Node, NodeError
from quorate.cli.processes import Child, ChildError
from quorate.errors import AddressError, UsageError, reason_of
from quorate.gateway.http.answers import Done, Feature
from quorate.gateway.http.writing import FeatureBody
from quorate.node.settings import SettingsError, VoterSettings
from quorate.unseen import unseen_by_git

PORTS_PER_NODE = 10
PORT_MAX = 65_535
SIZES = (1, 3, 5)
HOST = "127.0.0.1"
READY_TIMEOUT_S = 30.0
STOP_PATIENCE_S = 10.0
POLL_S = 0.05


class NodePlace(msgspec.Struct, frozen=True):
    """Where one node lives: its id, folder, and addresses."""

    id: int
    folder: Path
    rpc: str
    raft: str
    kafka: str
    http: str
    grpc: str = ""
    """Empty in a cluster that was made before there was one."""

    @property
    def config(self) -> Path:
        """Its settings file."""
        return self.folder / "node.toml"

    def addresses(self) -> dict[str, str]:
        """Listener name → address."""
        given = {"rpc": self.rpc, "raft": self.raft, "kafka": self.kafka, "http": self.http, "grpc": self.grpc}
        return {name: address for name, address in given.items() if address}


class _Me(msgspec.Struct):
    id: int


class _Voters(msgspec.Struct):
    voters: list[VoterSettings]


class _Written(msgspec.Struct):
    """What is read of a node's settings."""

    node: _Me
    cluster: _Voters


def places(folder: Path, nodes: int, base_port: int) -> tuple[NodePlace, ...]:
    """Where the nodes of a cluster go. Raises UsageError."""
    if nodes not in SIZES:
        raise UsageError(f"--nodes {nodes}: a cluster has {', '.join(map(str, SIZES))} nodes")
    if not 0 < base_port <= PORT_MAX - PORTS_PER_NODE * nodes:
        raise UsageError(f"--base-port {base_port}: {nodes} nodes do not fit above it")
    return tuple(
        NodePlace(i + 1, folder / f"n{i + 1}", *(f"{HOST}:{base_port + PORTS_PER_NODE * i + k}" for k in range(5)))
        for i in range(nodes)
    )


def planned(folder: Path, nodes: int, base_port: int) -> tuple[NodePlace, ...]:
    """Where the nodes of a new cluster go. Raises UsageError when there is one already."""
    chosen = places(folder, nodes, base_port)
    if taken := _configs(folder):
        raise UsageError(f"{taken[0].parent} exists: use --resume, or another --data-dir")
    return chosen


def _configs(folder: Path) -> list[Path]:
    """Settings of the nodes in a folder: n1, n2, …; whatever else begins with an n is none."""
    numbered = [config for config in folder.glob("n*/node.toml") if config.parent.name[1:].isdecimal()]
    return sorted(numbered, key=lambda config: int(config.parent.name[1:]))


def found(folder: Path, nodes: int, base_port: int) -> tuple[NodePlace, ...]:
    """Make the folders and settings of a new cluster. Raises UsageError: there is one, or the folder cannot be had."""
    chosen = planned(folder, nodes, base_port)
    try:
        _write(folder, chosen)
    except OSError as error:
        raise UsageError(f"--data-dir {folder}: {reason_of(error)}") from error
    return chosen


def _write(folder: Path, chosen: tuple[NodePlace, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    unseen_by_git(folder)
    cluster_id = secrets.token_hex(8)
    key = folder / "cluster.key"
    try:
        opened = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{key} is there, of another cluster: move it away, or say another --data-dir") from error
    with open(opened, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(secrets.token_hex(32) + "\n")
    for place in chosen:
        place.folder.mkdir(exist_ok=True, mode=0o700)
        place.config.write_text(render(node_tree(place, chosen, cluster_id)), encoding="utf-8")


def listeners(where: Iterable[NodePlace]) -> dict[str, str]:
    """Listener (with its node) → address (``host:port``), of all of these nodes."""
    return {f"listeners.{name} of node {p.id}": address for p in where for name, address in p.addresses().items()}


def unused(addresses: Mapping[str, str], flag: str = "--base-port") -> None:
    """Look that nobody listens at these (whose → ``host:port``), which ``flag`` would move.

    Raises AddressError, naming the first where somebody does; UsageError where a port cannot be.
    """
    for whose, address in addresses.items():
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
            raise UsageError(f"{whose}: {address}: there is no such port; say another {flag}")
        host = host.strip("[]")
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # As a listener does: what closed is no user.
            try:
                probe.bind((host, int(port)))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    continue  # Not an address of this machine, not our port, …: the node itself says that best.
                raise AddressError(
                    f"{whose}: {address} is in use, and nothing was started: end what listens there, "
                    f"or say another {flag}"
                ) from error


def resume(folder: Path, nodes: int | None, base_port: int | None) -> tuple[NodePlace, ...]:
    """The cluster that is in a folder, as its settings say. Raises UsageError when it is not the one meant."""
    configs = _configs(folder)
    if not configs:
        raise UsageError(f"{folder} holds no cluster to resume")
    places_ = [_place(config) for config in configs]
    if nodes is not None and nodes != len(places_):
        raise UsageError(f"--nodes {nodes}: {folder} holds a cluster of {len(places_)}")
    if base_port is not None and places_[0].rpc != f"{HOST}:{base_port}":
        raise UsageError(f"--base-port {base_port}: {configs[0]} says {places_[0].rpc}")
    return tuple(places_)


def _place(config: Path) -> NodePlace:
    """Where the node with these settings lives. Raises SettingsError: they are none of a node of a cluster of ours."""
    try:
        written = msgspec.convert(tomllib.loads(config.read_text(encoding="utf-8")), _Written)
    except ValueError as error:  # It is no UTF-8, no TOML, or something is missing in it.
        raise SettingsError([f"{config}: {error}"]) from error
    me = next((voter for voter in written.cluster.voters if voter.id == written.node.id), None)
    if me is None:
        raise SettingsError([f"{config}: node {written.node.id} is none of its cluster.voters"])
    return NodePlace(me.id, config.parent, me.rpc, me.raft, me.kafka, me.http, me.grpc)


def node_tree(place: NodePlace, everyone: tuple[NodePlace, ...], cluster_id: str) -> dict[str, dict[str, object]]:
    """The settings of one node, as the tree of its TOML file."""
    return {
        "node": {"id": place.id, "data_dir": "data"},
        "cluster": {
            "id": cluster_id,
            "key_file": "../cluster.key",
            "voters": [{"id": other.id, **other.addresses()} for other in everyone],
        },
    }


def render(tree: Mapping[str, Mapping[str, object]]) -> str:
    """TOML of sections of plain values, lists and lists of tables."""
    lines = []
    for section, values in tree.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
        lines.append("")
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[\n" + "".join(f"    {_toml(part)},\n" for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)


class LocalCluster:
    """The node processes of one cluster."""

    def __init__(self, where: tuple[NodePlace, ...], report: Callable[[str], None], *, restart: bool = False) -> None:
        self.places = {place.id: place for place in where}
        self._report = report
        self._restart = restart
        self._children = {
            place.id: Child(f"node {place.id}", ["serve", "--config", str(place.config)], place.folder / "node.log")
            for place in where
        }
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._expected: set[int] = set()

    async def start(self) -> None:
        """Start every node, and return when all serve. Raises ChildError; then nothing is left running."""
        try:
            for node_id in self.places:
                await self.start_node(node_id)
            async with asyncio.timeout(READY_TIMEOUT_S):
                await asyncio.gather(*map(self.serving, self.places))
                await self._known()
        except (ChildError, TimeoutError) as error:
            await self.stop()
            reason = str(error) or f"not every node served within {READY_TIMEOUT_S:.0f} s"
            raise ChildError(
                f"{reason}; see {', '.join(str(p.folder / 'node.log') for p in self.places.values())}"
            ) from None

    async def start_node(self, node_id: int) -> None:
        """Start one node (again) and watch it."""
        self._expected.discard(node_id)
        await self._children[node_id].start()
        self._watches[node_id] = asyncio.create_task(self._watch(node_id))

    async def serving(self, node_id: int) -> None:
        """Return when the node serves. Raises ChildError when it died."""
        node = Node(self.places[node_id].http, timeout_s=1.0)
        while True:
            serves = await asyncio.to_thread(node.serves)
            if not self.alive(node_id):  # Asked last: a yes may have been another's.
                raise ChildError(f"node {node_id} died before it served")
            if serves:
                return
            await asyncio.sleep(POLL_S)

    async def _known(self) -> None:
        """Return when the log has the start of every node: the cluster's level cannot be raised before."""
        node = Node(next(iter(self.places.values())).http, timeout_s=1.0)
        while True:
            with suppress(NodeError):
                levels = (await asyncio.to_thread(node.get, "/v1/feature", Feature)).nodes
                if all(one.feature_max is not None for one in levels if one.id in self.places):
                    return
            await asyncio.sleep(POLL_S)

    def raise_level(self, level: int | None = None) -> int:
        """Raise the feature level: to the highest that every node knows, if none is said. The level now. Raises
        NodeError and UsageError.
        """
        node = Node(",".join(place.http for place in self.places.values()))
        wanted = node.get("/v1/feature", Feature).highest if level is None else level
        node.send("PUT", "/v1/feature", FeatureBody(level=wanted), Done)
        return wanted

    def alive(self, node_id: int) -> bool:
        """Is its process running?"""
        return self._children[node_id].alive

    def pid(self, node_id: int) -> int:
        """Its process id (of the latest start)."""
        return self._children[node_id].pid

    def kill(self, node_id: int) -> None:
        """SIGKILL it; not reported as a surprise."""
        self._expected.add(node_id)
        self._children[node_id].signal(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM to all, SIGKILL to those that do not end in time; returns when none is left."""
        self._expected.update(self.places)
        for watch in self._watches.values():
            watch.cancel()
        await asyncio.gather(*(child.stop(STOP_PATIENCE_S) for child in self._children.values() if child.alive))

    async def _watch(self, node_id: int) -> None:
        """Report the end of a node that nobody asked for; start it again if that is wished."""
        child = self._children[node_id]
        status = await child.ended()
        if node_id in self._expected:
            return
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        back = (
            "starting it again"
            if self._restart
            else f"quorate serve --config {self.places[node_id].config} brings it back"
        )
        self._report(f"node {node_id} (pid {child.pid}) died: {how}; {back}")
        if self._restart:
            await asyncio.sleep(1.0)
            await self.start_node(node_id)

    def ready_line(self, **more: object) -> str:
        """The one line that says that the cluster serves, as JSON."""
        nodes = [{"id": place.id, "pid": self.pid(place.id), **place.addresses()} for place in self.places.values()]
        return json.dumps({"ready": True, "nodes": nodes, **more})
