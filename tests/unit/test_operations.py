"""What docs/operations.md gives to copy is what these programs take."""

import asyncio
import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.asking import DEFAULT_NODE, Request, exchange
from quorate.cli import program
from quorate.cli.cluster import found
from quorate.node import Node
from quorate.node.settings import read_settings
from tests.clusters import free_ports
from tests.unit.gateway.http.test_interface import House

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    """The fenced pieces of one language."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_scrape_config_names_every_node_of_the_readme_and_its_page() -> None:
    """Prometheus takes it, and finds /metrics at the HTTP ports of ``quorate up``."""
    scrape: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    (job,) = scrape["scrape_configs"]
    targets = [target for group in job["static_configs"] for target in group["targets"]]
    assert targets == DEFAULT_NODE.split(",")
    assert re.fullmatch(r"\d+s", job["scrape_interval"])
    assert House().send("GET", job["metrics_path"])[0].status == 200


def metrics(folder: Path) -> str:
    """What a node exports."""
    settings = read_settings(found(folder / "c", 1, free_ports(10))[0].config, {}, {})

    async def scrape() -> str:
        async with Node(settings) as node:
            await node.ready()
            _, body = await asyncio.to_thread(exchange, node.addresses.http, Request("GET", "/metrics"), 5.0)
            return body.decode()

    return asyncio.run(scrape())


def test_every_metric_of_the_rules_is_there(tmp_path: Path) -> None:
    """An alert on a name that nobody exports would never fire."""
    rules = yaml.safe_load(blocks("yaml")[1])["groups"][0]["rules"]
    text = metrics(tmp_path)
    names = {name for rule in rules for name in re.findall(r"quorate_\w+", rule["expr"])}
    assert len(names) == len(rules) == 4
    for name in names:
        assert re.search(rf"^# TYPE {name} ", text, re.MULTILINE), name


def test_the_unit_starts_a_node_as_the_command_line_takes_it(tmp_path: Path) -> None:
    """systemd's keys are in their sections, and what it would start is a command with settings that hold."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(blocks("ini")[0])
    assert unit.sections() == ["Unit", "Service", "Install"]
    words = unit["Service"]["ExecStart"].split()[1:]
    config = found(tmp_path / "c", 1, 9000)[0].config
    assert program.main([str(config) if word.endswith(".toml") else word for word in words] + ["--check"]) == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_settings_are_those_of_each_of_three_voters(number: int, tmp_path: Path) -> None:
    """The settings' own reader takes them, with a key, under each id; every listener has its address."""
    config, key = tmp_path / "node.toml", tmp_path / "cluster.key"
    config.write_text(blocks("toml")[0], encoding="utf-8")
    key.touch(0o600)
    key.write_text("0123456789abcdef", encoding="utf-8")
    settings = read_settings(config, {}, {"node.id": str(number), "cluster.key_file": str(key)})
    assert [settings.bind(name) for name in settings.listening] == [(f"10.0.0.{number}", 9870 + n) for n in range(5)]
    assert settings.me.zone == "abc"[number - 1]


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(quorate [a-z-]+)", PAGE))))
def test_every_command_of_the_page_exists(named: str) -> None:
    """A word that is typed after ``quorate``."""
    assert named.split()[1] in program.commands()


def test_the_readme_leads_there() -> None:
    """Whoever looks for logs, ports or an uninstall finds the page."""
    assert "(docs/operations.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
