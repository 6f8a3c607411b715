"""RocketMQ's ``controller.properties`` as settings of ours: a node can replace a Java controller on its address.

Rules: both of Java's forms are read: DLedger (``controllerDLegerPeers``, its spelling) and JRaft. Node ids are
positions in Java's peer list, from 1; the cluster id is the group. Java's other settings of a controller are carried
along (``remoting.java``): 1010 shows them, its ``configBlackList`` holds for 1009, nothing else heeds them. What nobody
knows is ignored (name servers keep their keys in the same file). Keys ``quorate.SECTION.KEY`` are settings of
ours; Java ignores them in turn. The rules of settings.py hold: listeners off loopback must be named, and then their
voters need a key.

Ports that Java does not have are derived from the rpc port, equally on every node: raft +1000 (with JRaft: its own raft
address), kafka +2000, http +3000; other distances with ``quorate.ports.raft``, ``.kafka`` and ``.http``.
"""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from quorate.consensus.settings import EngineSettings
from quorate.errors import UsageError, reason_of
from quorate.gateway.remoting.properties import parse, render
from quorate.metadata.configs import BLACK_LIST, CONTROLLER_KEYS
from quorate.node.settings import NodeSettings, SettingsError, Text, build, placed, split_address

T = TypeVar("T")
OURS = "quorate."
PORTS = {"raft": 1000, "kafka": 2000, "http": 3000}


def _boolean(text: str) -> object:
    """Java ``Boolean.parseBoolean``: what is not "true" is false."""
    return text.lower() == "true"


def _seconds(text: str) -> float:
    """Java's milliseconds."""
    return int(text) / 1000


MEANINGS: Mapping[str, tuple[str, str, Callable[[str], object]]] = {
    "enableElectUncleanMaster": ("policy", "enable_elect_unclean_master", _boolean),
    "notifyBrokerRoleChanged": ("policy", "notify_broker_role_changed", _boolean),
    "scanNotActiveBrokerInterval": ("controller", "live_scan_period_s", _seconds),
    "scanInactiveMasterInterval": ("controller", "inactive_master_scan_period_s", _seconds),
    "serverChannelMaxIdleTimeSeconds": ("remoting", "idle_deadline_s", float),
    "serverSocketBacklog": ("remoting", "backlog", int),
}
"""Java's key → our section and key, and how to read its value."""
CARRIED = (CONTROLLER_KEYS.keys() | BLACK_LIST | {"rocketmqHome"}) - MEANINGS.keys() - {
    "controllerDLegerGroup", "controllerDLegerPeers", "controllerDLegerSelfId",
}  # fmt: skip
"""Java's keys that are only kept and shown."""


_JAVA = """
bindAddress controllerDLegerGroup controllerDLegerPeers controllerDLegerSelfId jRaftControllerRPCAddr
jRaftElectionTimeoutMs jRaftGroupId jRaftInitConf jRaftScanWaitTimeoutMs jRaftServerId jRaftSnapshotIntervalSecs
channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads clientChannelMaxIdleTimeSeconds
clientCloseSocketIfTimeout clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable
clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity clientSocketRcvBufSize clientSocketSndBufSize
clientWorkerThreads clusterTest connectTimeoutMillis defaultThreadPoolNums defaultThreadPoolQueueCapacity
deleteTopicWithBrokerRegistration enableAllTopicList enableControllerInNamesrv enableShutdownGracefully
enableTopicList kvConfigPath listenPort namesrvAddr needWaitForService notifyMinBrokerIdChanged orderMessageEnable
productEnvName returnOrderTopicConfigToBroker serverAsyncSemaphoreValue serverCallbackExecutorThreads
serverNettyWorkerGroupEnable serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads
serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds supportActingMaster
unRegisterBrokerQueueCapacity useEpollNativeSelector useTLS waitSecondsForService writeBufferHighWaterMark
writeBufferLowWaterMark
"""
ELSEWHERE = frozenset(_JAVA.split())
"""Other keys that a controller, a name server and their connections read from such a file."""


def unknown_keys(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Keys that no program reads, each with the one that may be meant (or nothing). Ours are judged as settings."""
    known = sorted(CARRIED | MEANINGS.keys() | ELSEWHERE)
    unknown = [name for name in given if name not in known and not name.startswith(OURS)]
    return [(name, next(iter(difflib.get_close_matches(name, known, n=1)), "")) for name in unknown]


def read_pairs(path: Path) -> dict[str, str]:
    """Keys and values of a file. Raises SettingsError."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UsageError) as error:
        raise SettingsError([f"{path}: {reason_of(error)}"]) from error


def read_properties(path: Path, environ: Mapping[str, str], overrides: Mapping[str, str]) -> NodeSettings:
    """The settings in a Java properties file, under the environment, under flags. Raises SettingsError."""
    given = read_pairs(path)
    try:
        tree = translate(given)
    except UsageError as error:
        raise SettingsError([f"{path}: {error}"]) from error
    try:
        return build(tree, environ, overrides, path.resolve().parent, file=path)
    except SettingsError as error:
        raise SettingsError(_as_written(problem, given, path) for problem in error.problems) from error


def _as_written(problem: str, given: Mapping[str, str], path: Path) -> str:
    """A problem of a setting that the file has under our prefix, by the file and the key as it stands there."""
    subject, _, text = problem.partition(": ")
    for key in given:
        if key == f"{OURS}{subject}" or key.startswith(f"{OURS}{subject}."):
            return f"{path}: {key}: {text.replace('did you mean ', f'did you mean {OURS}')}"
    return problem


def translate(given: Mapping[str, str]) -> dict[str, Any]:
    """Our tree of settings. Raises UsageError."""
    jraft = given.get("controllerType") == "jRaft"
    group, me, peers = _jraft(given) if jraft else _dledger(given)
    distances = {name: _number(given, f"{OURS}ports.{name}", far) for name, far in PORTS.items()}
    voters = [_voter(number, rpc, raft, distances) for number, (rpc, raft) in enumerate(peers, start=1)]
    home = given.get("controllerStorePath") or str(Path.home() / ("jRaftController" if jraft else "DLedgerController"))
    tree: dict[str, dict[str, Any]] = {
        "node": {"id": me, "data_dir": str(Path(home) / "quorate")},
        "cluster": {"id": group, "name": group, "voters": voters},
    }
    if bind := given.get("bindAddress"):
        port = split_address(voters[me - 1]["rpc"])[1]
        tree["listeners"] = {"rpc": _join(bind, port)}
    for name, (section, key, read) in MEANINGS.items():
        if name in given:
            tree.setdefault(section, {})[key] = _read(name, given[name], read)
    if timeout := given.get("jRaftElectionTimeoutMs"):
        least = _read("jRaftElectionTimeoutMs", timeout, _seconds)
        tree["engine"] = {
            "election_timeout_quiet_s": least,
            "election_timeout_min_s": least,
            "election_timeout_max_s": 2 * least,
            "read_timeout_s": min(EngineSettings().read_timeout_s, 2 * least),
        }
    if carried := {name: value for name, value in given.items() if name in CARRIED}:
        tree.setdefault("remoting", {})["java"] = render(carried)
    for name, value in given.items():
        if name.startswith(f"{OURS}ports."):
            _known_port(name)
        elif name.startswith(OURS) and not placed(tree, name.removeprefix(OURS).split("."), Text(value)):
            raise UsageError(f"{name}: expected {OURS}SECTION.KEY")
    return tree


def _known_port(name: str) -> None:
    port = name.removeprefix(f"{OURS}ports.")
    if port not in PORTS:
        close = difflib.get_close_matches(port, PORTS, n=1)
        raise UsageError(f"{name}: unknown setting" + (f"; did you mean {OURS}ports.{close[0]}?" if close else ""))


def _dledger(given: Mapping[str, str]) -> tuple[str, int, list[tuple[str, str | None]]]:
    """Group, own position (from 1), and each peer's rpc address (DLedger's raft shares the port; ours does not)."""
    peers = {}
    for part in _parts(given, "controllerDLegerPeers"):
        name, dash, address = part.partition("-")
        if not dash:
            raise UsageError(f"controllerDLegerPeers: {part!r} is not id-host:port")
        peers[name] = address
    me = given.get("controllerDLegerSelfId", "")
    if me not in peers:
        raise UsageError(f"controllerDLegerSelfId: {me!r} is not among controllerDLegerPeers ({', '.join(peers)})")
    group = _needed(given, "controllerDLegerGroup")
    return group, list(peers).index(me) + 1, [(address, None) for address in peers.values()]


def _jraft(given: Mapping[str, str]) -> tuple[str, int, list[tuple[str, str | None]]]:
    """Group, own position (from 1), and each peer's rpc and raft addresses."""
    raft = _parts(given, "jRaftInitConf", ",")
    rpc = _parts(given, "jRaftControllerRPCAddr", ",")
    if len(raft) != len(rpc):
        raise UsageError(f"jRaftControllerRPCAddr names {len(rpc)} addresses, jRaftInitConf {len(raft)}")
    me = given.get("jRaftServerId", "localhost:9880")
    if me not in raft:
        raise UsageError(f"jRaftServerId: {me} is not among jRaftInitConf ({', '.join(raft)})")
    return given.get("jRaftGroupId", "jRaft-Controller"), raft.index(me) + 1, list(zip(rpc, raft, strict=True))


def _voter(number: int, rpc: str, raft: str | None, distances: Mapping[str, int]) -> dict[str, Any]:
    host, port = split_address(rpc)
    derived = {name: _join(host, port + far) for name, far in distances.items()}
    return {"id": number, "rpc": rpc, **derived, **({"raft": raft} if raft else {})}


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _needed(given: Mapping[str, str], name: str) -> str:
    if not (value := given.get(name, "").strip()):
        raise UsageError(f"{name}: missing")
    return value


def _parts(given: Mapping[str, str], name: str, separator: str = ";") -> list[str]:
    return [part.strip() for part in _needed(given, name).split(separator) if part.strip()]


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    return _read(name, given[name], int) if name in given else default


def _read(name: str, text: str, read: Callable[[str], T]) -> T:
    try:
        return read(text.strip())
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{name}: {error}") from error
