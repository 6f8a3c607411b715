"""The settings of one node: one frozen tree of every room's own settings, validated as a whole before anything starts.

Rules: a TOML file, over it the environment (``QUORATE_SECTION__KEY``), over it flags (``section.key=value``). Every
problem is found and listed at once; an unknown key is a problem, with a suggestion. Nobody else reads the environment,
and nobody reads this module but the composition: rooms get their own part. A listener that is not on loopback must be
named in ``node.insecure_listeners``, because no transport is encrypted yet. Relative paths are relative to the file.

Theory: ``build`` walks the structs' own field types, so a room that adds a setting has nothing to register here.
"""

import difflib
import ipaddress
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import msgspec

from quorate.consensus.ports import MAX_ENTRY_BYTES, MAX_ROW_BYTES
from quorate.consensus.settings import EngineSettings, PeerSettings
from quorate.consensus.storage_settings import StorageSettings
from quorate.consensus.transport.codec import CLUSTER_ID_BYTES, ENTRIES_MAX
from quorate.controller.settings import ControllerSettings
from quorate.errors import UsageError, reason_of
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.http.settings import HttpSettings
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.history.replay import BYTES_PER_FRAME
from quorate.history.settings import HistorySettings
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestSettings

PREFIX = "QUORATE_"
ListenerName = Literal["rpc", "raft", "kafka", "http", "grpc"]
LISTENERS: tuple[ListenerName, ...] = ("rpc", "raft", "kafka", "http", "grpc")
VOTERS_MAX = 5
CLUSTER_KEY_BYTES_MIN = 16

S = TypeVar("S", bound=msgspec.Struct)


class SettingsError(UsageError):
    """Every problem of the settings; the message has one per line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class NodeSection(msgspec.Struct, frozen=True, kw_only=True):
    """Who this node is."""

    id: int
    """One of ``cluster.voters``."""
    data_dir: str
    """Journal, store and identity; created when absent."""
    insecure_listeners: tuple[ListenerName, ...] = ()
    """Listeners that may leave loopback without TLS and authentication."""


class VoterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One voter, with the addresses that others reach it at (advertised, ``host:port``)."""

    id: int
    rpc: str
    """RocketMQ remoting."""
    raft: str
    """The other voters."""
    kafka: str
    """The log as a topic."""
    http: str
    """Probes, metrics, operators, the schema registry."""
    grpc: str = ""
    """Keys, watches and leases as etcd's clients speak, and health; empty: it does not listen for them."""
    zone: str = ""
    """Where it stands; Kafka clients that name this rack read from it."""


class ClusterSection(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that are the same on every node of the cluster."""

    id: str
    """Written into offset 0 and checked in every hello: two clusters never mix."""
    voters: tuple[VoterSettings, ...]
    name: str = "quorate"
    """Name for operators; the group that RocketMQ's 1005 answers."""
    key: str = ""
    """Shared secret of the voters; or ``key_file``. Only a cluster wholly on loopback may go without. A file that says
    it is its owner's alone."""
    key_file: str = ""
    """File that holds the key; surrounding white space is not part of it."""


class ListenersSection(msgspec.Struct, frozen=True, kw_only=True):
    """Where this node binds (``host:port``); empty = the address its voter entry advertises."""

    rpc: str = ""
    raft: str = ""
    kafka: str = ""
    http: str = ""
    grpc: str = ""


class LogSection(msgspec.Struct, frozen=True, kw_only=True):
    """The node's own log, on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """``auto``: text on a terminal, else JSON lines."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    commands: bool = True
    """One canonical line per command, at level info."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one node is told. See each section."""

    node: NodeSection
    cluster: ClusterSection
    listeners: ListenersSection = ListenersSection()
    log: LogSection = LogSection()
    engine: EngineSettings = EngineSettings()
    peers: PeerSettings = PeerSettings()
    storage: StorageSettings = StorageSettings()
    controller: ControllerSettings = ControllerSettings()
    policy: PolicySettings = PolicySettings()
    balance: BalanceSettings = BalanceSettings()
    requests: RequestSettings = RequestSettings()
    remoting: RemotingSettings = RemotingSettings()
    kafka: KafkaSettings = KafkaSettings()
    http: HttpSettings = HttpSettings()
    grpc: GrpcSettings = GrpcSettings()
    history: HistorySettings = HistorySettings()

    @property
    def me(self) -> VoterSettings:
        """This node's voter entry."""
        return next(voter for voter in self.cluster.voters if voter.id == self.node.id)

    def bind(self, listener: ListenerName) -> tuple[str, int]:
        """Host and port to listen on."""
        return split_address(cast("str", getattr(self.listeners, listener) or getattr(self.me, listener)))

    @property
    def listening(self) -> tuple[ListenerName, ...]:
        """The listeners that have an address: all but gRPC's must."""
        return tuple(name for name in LISTENERS if getattr(self.listeners, name) or getattr(self.me, name))

    def cluster_key(self) -> bytes:
        """The shared secret; a loopback cluster without one gets it from the cluster id (it keeps clusters apart)."""
        return (self.cluster.key or f"loopback:{self.cluster.id}").encode()


def split_address(text: str) -> tuple[str, int]:
    """``host:port``, ``[v6]:port`` → host and port. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 1 << 16):
        raise UsageError(f"{text!r} is not host:port")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise UsageError(f"{text!r} is not host:port: {error}") from error
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Is it certain that nobody outside this machine reaches it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_settings(path: Path, environ: Mapping[str, str], overrides: Mapping[str, str]) -> NodeSettings:
    """The settings in a TOML file, under the environment, under flags. Raises SettingsError, naming every problem."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError([f"{path}: {reason_of(error)}"]) from error
    return build(tree, environ, overrides, path.resolve().parent, file=path)


def build(
    tree: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Mapping[str, str],
    base: Path,
    file: Path | None = None,
) -> NodeSettings:
    """Settings from a parsed tree, where texts from ``environ`` and ``overrides`` win. Raises SettingsError.

    ``base``: where relative paths begin; ``file``: what the tree was read from, if it was.
    """
    problems: list[str] = []
    if file is not None and "cluster.key" in _named(tree, ""):
        problems += _open_secret("cluster.key", file)
    merged = _copy(tree)
    for source, name, text in [*_from_environment(environ), *((f"--set {n}", n, t) for n, t in overrides.items())]:
        if not placed(merged, name.split("."), Text(text, source if source in environ else "")):
            problems.append(f"{source}: name a setting as section.key")
    settings = _struct(NodeSettings, merged, "", problems)
    if settings is not None:
        settings = _resolved(settings, base, problems)
        problems += _contradictions(settings)
    if settings is None or problems:
        raise SettingsError(problems)
    return settings


def sources(
    tree: Mapping[str, Any], environ: Mapping[str, str], overrides: Mapping[str, str], path: Path
) -> dict[str, str]:
    """Where each setting that was given comes from: the last that said it."""
    return {
        **dict.fromkeys(_named(tree, ""), f"file {path}"),
        **{name: f"environment {variable}" for variable, name, _ in _from_environment(environ)},
        **dict.fromkeys(overrides, "flag --set"),
    }


def _named(tree: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, part in tree.items():
        if isinstance(part, Mapping):
            yield from _named(part, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def _copy(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose tables may be changed."""
    return {name: _copy(part) if isinstance(part, Mapping) else part for name, part in tree.items()}


def placed(tree: dict[str, Any], path: list[str], text: "Text") -> bool:
    """Put a text at ``section.key`` (or deeper); False when there is no such place."""
    *sections, key = path
    for name in sections:
        inner: object = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            return False
        tree = inner
    if sections:
        tree[key] = text
    return bool(sections)


class Text(str):
    """A value that came as text (environment, flag), so ``"7"`` may mean 7."""

    __slots__ = ("variable",)
    variable: str
    """Of the environment, where it came from there: it is named in a complaint, for nobody typed it."""

    def __new__(cls, text: str, variable: str = "") -> Self:
        """A text, and the variable."""
        made = super().__new__(cls, text)
        made.variable = variable
        return made


def _by(value: object) -> str:
    """Which variables say this value, or what is in this table."""
    found = ", ".join(_variables(value))
    return f" (environment {found})" if found else ""


def _variables(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _variables(part)
    elif isinstance(value, Text) and value.variable:
        yield value.variable


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """``QUORATE_ENGINE__HEARTBEAT_S=0.1`` → engine.heartbeat_s. Names without ``__`` belong to tools."""
    return [
        (variable, variable.removeprefix(PREFIX).lower().replace("__", "."), text)
        for variable, text in sorted(environ.items())
        if variable.startswith(PREFIX) and "__" in variable
    ]


def _struct(cls: type[S], tree: Mapping[str, Any], path: str, problems: list[str]) -> S | None:
    """Build one struct, noting every problem; goes on with defaults where it can, to find the next. None: it cannot."""
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    for name in sorted(tree.keys() - fields.keys()):
        close = difflib.get_close_matches(name, fields, n=1)
        meant = f"; did you mean {path}{close[0]}?" if close else ""
        problems.append(f"{path}{name}: unknown setting{meant}{_by(tree[name])}")
    values = {}
    for name, field in fields.items():
        if name in tree:
            value = _value(field.type, tree[name], f"{path}{name}", problems)
            if value is not _WRONG:
                values[name] = value
        elif field.required:
            problems.append(f"{path}{name}: missing")
    if any(field.required and name not in values for name, field in fields.items()):
        return None
    try:
        return cls(**values)
    except UsageError as error:
        problems.append(f"{path.rstrip('.')}: {error}")
        return None


_WRONG = object()


def _value(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    """One field: a nested struct, or a leaf that msgspec converts; ``_WRONG`` when it cannot be had."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(value, Mapping):
            built = _struct(kind, value, f"{path}.", problems)
            return _WRONG if built is None else built
        problems.append(f"{path}: expected a table{_by(value)}")
        return _WRONG
    try:
        if not isinstance(value, Text):
            return msgspec.convert(value, kind)
        text = str(value)
        text.encode()  # A variable of the environment may be any bytes.
        structured = text.startswith(("[", "{")) and kind is not str
        return msgspec.convert(msgspec.json.decode(text) if structured else text, kind, strict=False)
    except UnicodeEncodeError:
        problems.append(f"{path}: is not UTF-8{_by(value)}")
        return _WRONG
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        problems.append(f"{path}: {error}{_by(value)}")
        return _WRONG


def _resolved(settings: NodeSettings, base: Path, problems: list[str]) -> NodeSettings:
    """Paths made absolute, and the cluster key read from its file."""
    if not settings.node.data_dir.strip():  # The folder of the settings file would be it, and closed to all others.
        problems.append("node.data_dir: must not be empty")
    node = msgspec.structs.replace(settings.node, data_dir=str(base / settings.node.data_dir))
    cluster = settings.cluster
    if cluster.key_file:
        try:
            problems += _open_secret("cluster.key_file", base / cluster.key_file)
            key = (base / cluster.key_file).read_text(encoding="utf-8").strip()
            cluster = msgspec.structs.replace(cluster, key=key)
        except (OSError, ValueError) as error:
            problems.append(f"cluster.key_file: {base / cluster.key_file}: {reason_of(error)}")
    return msgspec.structs.replace(settings, node=node, cluster=cluster)


def _open_secret(setting: str, path: Path) -> list[str]:
    """A secret that others can read is none. Root may own it for a group that we are in, as secrets are mounted."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    lent = status.st_uid == 0 and os.geteuid() != 0
    if mode & (0o037 if lent else 0o077):
        return [f"{setting}: {path} is open to other users (mode {mode:04o}): chmod 600 {path}"]
    return []


def _contradictions(settings: NodeSettings) -> list[str]:
    """Problems that no value shows alone."""
    problems = _bad_addresses(settings)
    ids = [voter.id for voter in settings.cluster.voters]
    if not ids or len(ids) > VOTERS_MAX or len(ids) % 2 == 0:
        problems.append(f"cluster.voters: {len(ids)} voters; a cluster has 1, 3 or {VOTERS_MAX}")
    if len(set(ids)) < len(ids) or any(not 0 < number < 1 << 31 for number in ids):
        problems.append("cluster.voters: ids must be distinct and from 1")
    if settings.node.id not in ids:
        problems.append(f"node.id: {settings.node.id} is not among cluster.voters ({', '.join(map(str, ids))})")
    if not settings.cluster.id.strip():
        problems.append("cluster.id: must not be empty")
    if len(settings.cluster.id.encode(errors="replace")) > CLUSTER_ID_BYTES:
        problems.append(f"cluster.id: must have at most {CLUSTER_ID_BYTES} bytes")
    state, staged = settings.controller.state_bytes_max, settings.engine.snapshots.staged_bytes_max
    if staged < 2 * state:  # Elections and positions are not refused: they go on beyond the limit of the state.
        problems.append(
            f"engine.snapshots.staged_bytes_max: {staged} is less than twice controller.state_bytes_max ({state}): "
            "no voter could take the snapshot of a state that is allowed"
        )
    most = {"engine": settings.engine.max_entry_bytes, "storage.journal": settings.storage.journal.max_entry_bytes}
    problems += [
        f"{section}.max_entry_bytes: must be at least {MAX_ENTRY_BYTES}: other nodes write such entries"
        for section, bytes_max in most.items()
        if bytes_max < MAX_ENTRY_BYTES
    ]
    longest = MAX_ROW_BYTES + 3 * settings.engine.snapshots.chunk_bytes  # A chunk nearly full, its lengths, and a row.
    if settings.peers.frame_bytes_max < longest:
        problems.append(
            f"peers.frame_bytes_max: must be at least {longest}, a row of 6 MiB and three times "
            "engine.snapshots.chunk_bytes: no voter could take a snapshot with it"
        )
    longest = settings.engine.append_bytes + MAX_ENTRY_BYTES
    if settings.peers.frame_bytes_max < longest:
        problems.append(
            f"peers.frame_bytes_max: must be at least {longest}, engine.append_bytes and an entry: no voter that is "
            "behind could catch up"
        )
    if settings.engine.append_entries > ENTRIES_MAX:
        problems.append(f"engine.append_entries: must be at most {ENTRIES_MAX}: other voters take no more at a time")
    longest = MAX_ROW_BYTES + 2 * BYTES_PER_FRAME
    if settings.history.frame_bytes_max < longest:
        problems.append(
            f"history.frame_bytes_max: must be at least {longest}, a row of 6 MiB and what goes with it: no question "
            "about a past with such a row could be answered"
        )
    if problems:
        return problems
    return _too_open(settings)


def _bad_addresses(settings: NodeSettings) -> list[str]:
    """Addresses that cannot be parsed, cannot be dialled, or are given twice."""
    problems, seen = [], dict[str, str]()
    for voter in settings.cluster.voters:
        for listener in LISTENERS:
            name, text = f"cluster.voters[{voter.id}].{listener}", getattr(voter, listener)
            if listener == "grpc" and not text:
                continue
            try:
                host, _ = split_address(text)
            except UsageError as error:
                problems.append(f"{name}: {error}")
                continue
            if host in ("0.0.0.0", "::"):  # noqa: S104
                problems.append(f"{name}: {text} is an address to bind, not one that others can dial")
            if text in seen:
                problems.append(f"{name}: {text} is already {seen[text]}")
            seen[text] = name
    for listener in LISTENERS:
        if text := getattr(settings.listeners, listener):
            try:
                split_address(text)
            except UsageError as error:
                problems.append(f"listeners.{listener}: {error}")
    return problems


def _too_open(settings: NodeSettings) -> list[str]:
    """Listeners that leave loopback unnamed, and a cluster that does so without a key."""
    problems = [
        f"listeners.{listener}: {settings.bind(listener)[0]} is not loopback and nothing there is encrypted; "
        f"if the network is yours alone, name it in node.insecure_listeners"
        for listener in settings.listening
        if not is_loopback(settings.bind(listener)[0]) and listener not in settings.node.insecure_listeners
    ]
    key = settings.cluster.key.encode()
    hosts = [split_address(voter.raft)[0] for voter in settings.cluster.voters] + [settings.bind("raft")[0]]
    if not key and not all(map(is_loopback, hosts)):
        problems.append("cluster.key_file: voters that meet off loopback need a shared key")
    if key and len(key) < CLUSTER_KEY_BYTES_MIN:
        problems.append(f"cluster.key: needs at least {CLUSTER_KEY_BYTES_MIN} bytes")
    return problems
