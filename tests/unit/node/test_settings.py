"""One settings tree: where values come from, and that every problem is named at once."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.cli.cluster import node_tree, places, render
from quorate.controller.routing import UNPARKED_PER_TURN
from quorate.node.settings import NodeSettings, SettingsError, build, read_settings, split_address
from quorate.slices import TURN_S


def voter(number: int, host: str = "127.0.0.1", base: int = 7000) -> dict[str, Any]:
    ports = {name: f"{host}:{base + 10 * number + k}" for k, name in enumerate(("rpc", "raft", "kafka", "http"))}
    return {"id": number, **ports}


def a_tree(**sections: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "node": {"id": 1, "data_dir": "data"},
        "cluster": {"id": "c1", "voters": [voter(1), voter(2), voter(3)]},
    }
    for name, values in sections.items():
        tree.setdefault(name, {}).update(values)
    return tree


def settings(
    environ: dict[str, str] | None = None, flags: dict[str, str] | None = None, **sections: Any
) -> NodeSettings:
    return build(a_tree(**sections), environ or {}, flags or {}, Path("/base"))


def problems(environ: dict[str, str] | None = None, flags: dict[str, str] | None = None, **sections: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(environ, flags, **sections)
    return str(caught.value)


def test_a_flag_beats_the_environment_which_beats_the_file() -> None:
    """The nearer to the operator, the stronger."""
    assert settings(engine={"tick_s": 0.02}).engine.tick_s == 0.02
    in_environment = {"QUORATE_ENGINE__TICK_S": "0.03"}
    assert settings(in_environment, engine={"tick_s": 0.02}).engine.tick_s == 0.03
    assert settings(in_environment, {"engine.tick_s": "0.04"}, engine={"tick_s": 0.02}).engine.tick_s == 0.04


def test_texts_reach_settings_at_any_depth_and_of_any_type() -> None:
    """Numbers, truths, lists and nested sections can come from the environment."""
    found = settings(
        {
            "QUORATE_ENGINE__SNAPSHOTS__WINDOW_CHUNKS": "8",
            "QUORATE_POLICY__ENABLE_ELECT_UNCLEAN_MASTER": "true",
            "QUORATE_NODE__INSECURE_LISTENERS": '["rpc", "http"]',
            "QUORATE_CLUSTER__NAME": "123",
        }
    )
    assert found.engine.snapshots.window_chunks == 8
    assert found.policy.enable_elect_unclean_master is True
    assert found.node.insecure_listeners == ("rpc", "http")
    assert found.cluster.name == "123"


def test_no_default_keeps_the_loop_at_one_thing_for_long() -> None:
    """A heartbeat, a vote or a read waits for whatever the loop is at, so nothing there takes more than 256 KiB or half
    a millisecond at a stretch; history that comes from disk takes that long for 64 KiB. Of the answers that wake long
    polls only so many are handed over, for each is a call of the kernel.
    """
    found = settings()
    assert max(found.engine.apply_slice_s, TURN_S) <= 0.0005
    sizes = {
        "entries to a follower, or applied": found.engine.append_bytes,
        "a chunk of a snapshot": found.engine.snapshots.chunk_bytes,
        "entries read back": found.storage.journal.read_bytes,
        "what groups keep": found.controller.group_entry_bytes_max,
        "answers to long polls": found.kafka.wake_bytes_per_turn,
    }
    assert {name: size for name, size in sizes.items() if size > 256 * 1024} == {}
    assert max(found.kafka.fetch_bytes_max, found.http.log_bytes_max) <= 64 * 1024
    assert found.kafka.wakes_per_turn <= 32
    assert max(found.kafka.requests_per_turn, UNPARKED_PER_TURN) <= 64


def test_variables_of_tools_are_not_settings() -> None:
    """A variable without a double underscore belongs to a tool, such as QUORATE_NODE."""
    assert settings({"QUORATE_NODE": "127.0.0.1:1"}).node.id == 1


def test_all_problems_are_listed_at_once() -> None:
    """An operator corrects a file in one go."""
    told = problems(
        {"QUORATE_ENGINE__TIC_S": "1"},
        {"nonsense": "1"},
        engine={"append_bytes": "many"},
        listeners={"rpc": "0.0.0.0:9", "http": "nowhere"},
        node={"id": 9},
    )
    assert told.splitlines() == [
        "--set nonsense: name a setting as section.key",
        "engine.tic_s: unknown setting; did you mean engine.tick_s? (environment QUORATE_ENGINE__TIC_S)",
        "engine.append_bytes: Expected `int`, got `str`",
        "listeners.http: 'nowhere' is not host:port",
        "node.id: 9 is not among cluster.voters (1, 2, 3)",
    ]


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"QUORATE_FOO__BAR": "9"}, "foo: unknown setting (environment QUORATE_FOO__BAR)"),
        (
            {"QUORATE_FOO__BAR": "9", "QUORATE_FOO__BAZ__X": "1"},
            "foo: unknown setting (environment QUORATE_FOO__BAR, QUORATE_FOO__BAZ__X)",
        ),
        ({"QUORATE_NODE__ID": "x"}, "node.id: Expected `int`, got `str` (environment QUORATE_NODE__ID)"),
        ({"QUORATE_CLUSTER__VOTERS": "[\udcff]"}, "cluster.voters: is not UTF-8 (environment QUORATE_CLUSTER__VOTERS)"),
        ({"QUORATE_CLUSTER__ID": "\udcff"}, "cluster.id: is not UTF-8 (environment QUORATE_CLUSTER__ID)"),
        ({"QUORATE_LOG__LEVEL__X": "1"}, "log.level: Expected `str`, got `object` (environment QUORATE_LOG__LEVEL__X)"),
    ],
)
def test_what_the_environment_says_wrongly_is_told_with_its_variable(environ: dict[str, str], problem: str) -> None:
    """Nobody typed it, and no file has it; what a flag says is told by the setting."""
    assert problems(environ) == problem
    flags = {name.removeprefix("QUORATE_").lower().replace("__", "."): text for name, text in environ.items()}
    assert "environment" not in problems({}, flags)
    assert "environment" not in problems(environ, flags)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"node": {"data_dir": 7}}, "node.data_dir: Expected `str`, got `int`"),
        ({"cluster": {"voters": [voter(1), voter(2)]}}, "2 voters; a cluster has 1, 3 or 5"),
        ({"cluster": {"voters": []}}, "0 voters"),
        ({"engine": {"max_entry_bytes": 1 << 20}}, "engine.max_entry_bytes: must be at least 4190208"),
        ({"storage": {"journal": {"max_entry_bytes": 1 << 20}}}, "storage.journal.max_entry_bytes: must be at least"),
        ({"cluster": {"voters": [voter(n, base=1000 * n) for n in range(1, 8)]}}, "7 voters"),
        ({"cluster": {"voters": [voter(1), voter(1, base=8000), voter(1, base=9000)]}}, "ids must be distinct"),
        ({"cluster": {"voters": [voter(1, "0.0.0.0")]}}, "an address to bind, not one that others can dial"),
        ({"cluster": {"voters": [{**voter(1), "raft": voter(1)["rpc"]}]}}, "is already cluster.voters[1].rpc"),
        ({"cluster": {"voters": [{**voter(1), "smtp": "x"}]}}, "unknown field `smtp`"),
        ({"cluster": {"id": " "}}, "cluster.id: must not be empty"),
        ({"cluster": {"key": "short"}}, "needs at least 16 bytes"),
        ({"cluster": {"key_file": "absent"}}, "cluster.key_file: "),
        ({"engine": {"election_timeout_min_s": 3.0}}, "engine: election_timeout_min_s must be"),
        ({"engine": {"snapshots": {"staged_bytes_max": (512 << 20) - 1}}}, "less than twice controller.state_"),
        ({"controller": {"state_bytes_max": (2 << 30) + 1}}, "less than twice controller.state_bytes_max"),
        ({"peers": {"frame_bytes_max": 4 << 20}}, "peers.frame_bytes_max: must be at least 6684672"),
        ({"engine": {"snapshots": {"chunk_bytes": 1 << 20}}}, "peers.frame_bytes_max: must be at least 9437184"),
        ({"history": {"frame_bytes_max": (8 << 20) - 1}}, "history.frame_bytes_max: must be at least 8388608"),
        ({"engine": {"append_bytes": 5 << 20}}, "peers.frame_bytes_max: must be at least 9433088"),
        ({"engine": {"append_entries": 65_537}}, "engine.append_entries: must be at most 65536"),
        ({"cluster": {"id": "ä" * 128}}, "cluster.id: must have at most 255 bytes"),
        ({"node": {"id": 1, "data_dir": " "}}, "node.data_dir: must not be empty"),
        ({"cluster": {"key_file": "a\0b"}}, "cluster.key_file: "),
        ({"peers": {"unanswered_s": 2_147_484.0}}, "peers: unanswered_s must be at most 2147483"),
        ({"controller": {"live_scan_period_s": math.inf}}, "controller: live_scan_period_s must be above 0, not inf"),
        ({"storage": {"journal": {"segment_bytes": 1 << 31}}}, "segment_bytes must be a multiple of 8 and at most 1"),
        ({"listeners": {"kafka": "127.0.0.1:" + "9" * 5000}}, "is not host:port"),
        ({"listeners": {"kafka": "10.1.2.3:9"}}, "listeners.kafka: 10.1.2.3 is not loopback"),
        ({"cluster": {"voters": [voter(1, "10.1.2.3")]}}, "cluster.key_file: voters that meet off loopback"),
        ({"surprise": {"a": 1}}, "surprise: unknown setting"),
        ({"log": {"format": "xml"}}, "log.format: Invalid enum value 'xml'"),
    ],
)  # fmt: skip
def test_each_contradiction_is_named(sections: dict[str, Any], problem: str) -> None:
    """What cannot be is refused before anything starts, in words that say where."""
    assert problem in problems(**sections)


def numbers(kind: type[msgspec.Struct], above: str = "") -> Iterator[tuple[str, type]]:
    """Every setting that is a number, by its path, and of which kind."""
    for field in msgspec.structs.fields(kind):
        if field.type in (int, float):
            yield f"{above}{field.name}", field.type
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from numbers(field.type, f"{above}{field.name}.")


NUMBERS = dict(numbers(NodeSettings))
MAY_BE_ZERO = {
    "balance.clients_apart_percent",
    "balance.period_s",
    "balance.rest_s",
    "engine.close_jitter_s",
    "engine.commit_news_s",
    "engine.snapshots.retain_entries",
    "engine.snapshots.trim_slack_entries",
    "storage.journal.tail_bytes",
    "storage.journal.tail_entries",
    "storage.event_log.tail_bytes",
    "storage.event_log.tail_batches",
    "controller.unfence_after_s",
    "controller.mass_loss_share",
    "controller.mass_loss_min",
    "controller.failover_pause_s",
    "engine.pace_lag_factor",
    "controller.fencing_pause_s",
    "controller.scan_round",
    "controller.role_push_record_after_s",
    "controller.role_push_gather_s",
    "controller.group_window_s",
    "controller.free_space_floor_bytes",
    "controller.lease_grace_s",
    "controller.key_history_max",
    "controller.key_history_bytes_max",
    "policy.max_epoch_jump",
    "requests.remembered_max",
    "requests.ahead_ms_max",
    "kafka.over_quota_delay_s",
    "kafka.group_initial_delay_s",
    "history.worker_nice",
    "history.worker_states",
    "grpc.stop_grace_s",
}
"""Where 0 means something: at once, none kept, none ahead. Everywhere else a limit of 0 would let nothing through."""


@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_is_smaller_than_it_can_be(name: str) -> None:
    """Nothing is below 0, and only what may be 0 is: a node that would start and serve nobody is refused, by name."""
    key = name.rpartition(".")[2]
    too_small = ["-1", *["-0.5", '"nan"'] * (NUMBERS[name] is float)]
    for text in too_small:
        assert key in problems(flags={name: text})
    if name in MAY_BE_ZERO:
        settings(flags={name: "0"})
    else:
        assert key in problems(flags={name: "0"})


def test_every_setting_that_may_be_zero_is_there() -> None:
    """The list above names settings, and there are many numbers beside them."""
    assert NUMBERS.keys() >= MAY_BE_ZERO
    assert len(NUMBERS) > 100


def test_a_listener_may_leave_loopback_when_it_is_named() -> None:
    """Naming it is the operator's word that the network is theirs."""
    found = settings(listeners={"rpc": "0.0.0.0:7"}, node={"insecure_listeners": ["rpc"]})
    assert found.bind("rpc") == ("0.0.0.0", 7)
    assert found.bind("kafka") == ("127.0.0.1", 7012)


def test_a_loopback_cluster_gets_a_key_of_its_own() -> None:
    """Two clusters on one machine do not share a key even when nobody set one."""
    one, other = settings(), settings(cluster={"id": "c2"})
    assert one.cluster_key() != other.cluster_key()


def test_the_file_that_up_writes_is_read_back(tmp_path: Path) -> None:
    """What ``quorate up`` renders is what ``quorate serve`` understands, paths and key included."""
    where = places(tmp_path, 3, 7100)
    (tmp_path / "n2").mkdir()
    (tmp_path / "cluster.key").write_text("0123456789abcdef\n")
    (tmp_path / "cluster.key").chmod(0o600)
    where[1].config.write_text(render(node_tree(where[1], where, 'a "quoted" id')))
    found = read_settings(where[1].config, {}, {})
    assert found.me.rpc == "127.0.0.1:7110"
    assert found.cluster.id == 'a "quoted" id'
    assert found.cluster_key() == b"0123456789abcdef"
    assert found.node.data_dir == str(tmp_path / "n2" / "data")


def test_an_unreadable_file_is_a_problem_like_any_other(tmp_path: Path) -> None:
    """A missing or malformed file is named."""
    with pytest.raises(SettingsError, match=r"no such file or directory$"):
        read_settings(tmp_path / "absent.toml", {}, {})
    (tmp_path / "bad.toml").write_text("[node\n")
    with pytest.raises(SettingsError, match=r"bad\.toml"):
        read_settings(tmp_path / "bad.toml", {}, {})


@pytest.mark.parametrize(
    ("text", "address"), [("h:1", ("h", 1)), ("[::1]:65535", ("::1", 65535)), ("10.0.0.1:80", ("10.0.0.1", 80))]
)
def test_addresses_are_host_and_port(text: str, address: tuple[str, int]) -> None:
    """Names, IPv4 and bracketed IPv6 all parse."""
    assert split_address(text) == address


@pytest.mark.parametrize(
    "text", ["h", ":1", "h:", "h:0", "h:65536", "h:-1", "h:٣", "h:1x", "", "a..b:1", "x" * 64 + ":1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """A port is a plain number from 1 to 65535, a host is not empty, and a name that can be looked up."""
    with pytest.raises(SettingsError, match="is not host:port"):
        settings(listeners={"rpc": text} if text else {"rpc": " "})
