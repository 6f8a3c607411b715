"""Every command that docker-compose.yml gives to an image of ours is run as a process, with a loopback address for each
host of the composition, and is healthy by the composition's own health check.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters import QUORATE, until
from tests.kafka_broker import kafka_broker

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
HOSTS = {name: f"127.0.{1 + number}.1" for number, name in enumerate(OURS)}
ADDRESSES = {f"{name}:": f"{address}:" for name, address in HOSTS.items()}
HEALTHY_S = 90.0


class Container:
    """One service's command as a process."""

    def __init__(self, name: str, home: Path, words: Mapping[str, str]) -> None:
        self.name = name
        self.home = home
        self._words = {**words, "127.0.0.1": HOSTS[name], "0.0.0.0": HOSTS[name], "/var/lib/quorate": f"{home}/lib"}
        (home / "lib").mkdir(parents=True)
        shutil.copytree(ROOT / "docs/examples", home / "etc")
        for file in (home / "etc").iterdir():
            file.write_text(self.here(file.read_text()))
        self._words["/etc/quorate"] = f"{home}/etc"
        self._environment = {**os.environ, **SERVICES[name].get("environment", {})}
        self._out = (home / "out.log").open("ab")
        command = [*QUORATE, *map(self.here, SERVICES[name]["command"])]
        self._process = subprocess.Popen(
            command, env=self._environment, stdout=self._out, stderr=self._out, start_new_session=True, cwd=home
        )

    def here(self, text: str) -> str:
        """What the composition says, said of this machine; the longest words first."""
        longest_first = sorted(self._words, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: self._words[found[0]], text)

    def healthy(self) -> bool:
        """The composition's own health check, by this interpreter."""
        assert self._process.poll() is None, (self.home / "out.log").read_text()[-3000:]
        program, *rest = SERVICES[self.name]["healthcheck"]["test"][1:]
        program = sys.executable if program == "python" else program
        check = [program, *map(self.here, rest)]
        return subprocess.run(check, capture_output=True, timeout=20, check=False).returncode == 0

    def end(self) -> int:
        """SIGTERM, and what it ends with."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(10)
        self._out.close()
        return self._process.returncode


@contextmanager
def composition(names: list[str], home: Path, words: Mapping[str, str]) -> Iterator[dict[str, Container]]:
    """Some of the services, in the order of the file."""
    running: dict[str, Container] = {}
    try:
        for name in names:
            running[name] = Container(name, home / name, words)
        yield running
    finally:
        for container in reversed(running.values()):
            container.end()


@pytest.mark.peers
@pytest.mark.timeout(400)
def test_every_command_of_the_composition_runs_and_is_healthy(tmp_path: Path) -> None:
    """Controllers, views, page and mirrors become healthy by their own checks, and end with status 0 on SIGTERM."""
    (tmp_path / "cluster.key").write_text("a key for all three, long enough to be one\n")
    words = {
        **ADDRESSES,
        "/run/quorate": str(tmp_path),
        "postgresql://quorate:quorate@postgres:5432/quorate": f"sqlite:///{tmp_path}/serving.sqlite",
    }
    with kafka_broker(tmp_path / "kafka") as kafka:
        words["kafka:9092"] = kafka.bootstrap
        names = [name for name in OURS if name != "spark"]
        with composition(names, tmp_path, words) as running:
            for name, container in running.items():
                until(container.healthy, f"{name} is healthy", HEALTHY_S)
            assert {name: container.end() for name, container in reversed(running.items())} == dict.fromkeys(names, 0)


@pytest.mark.peers
@pytest.mark.timeout(400)
def test_the_command_of_the_spark_service_serves(tmp_path: Path) -> None:
    """With the controllers up, the Spark service's command says that it is ready, and ends with status 0 on SIGTERM."""
    if shutil.which("java") is None:
        pytest.skip("absent peer: java")
    (tmp_path / "cluster.key").write_text("a key for all three, long enough to be one\n")
    words = {
        **ADDRESSES,
        "/run/quorate": str(tmp_path),
        "postgresql://quorate:quorate@postgres:5432/quorate": f"sqlite:///{tmp_path}/serving.sqlite",
    }
    names = [name for name in OURS if name.startswith("controller")] + ["spark"]
    with composition(names, tmp_path, words) as running:
        log = tmp_path / "spark" / "out.log"
        until(lambda: running["spark"].healthy() and '"ready"' in log.read_text(), "Spark is warm", 2 * HEALTHY_S)
        assert running["spark"].end() == 0
