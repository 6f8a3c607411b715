"""The containers of docker-compose.yml as processes of this machine, where no Docker engine is at hand.

Rules: what the file says is run as it stands: commands, environments, mounted files, health checks, and who waits for
whom. Only places differ: each service has a loopback address of its own, each mount is a folder of the test's own; the
ports stay, but for one of RocketMQ's. What an image adds to the file is told here, once for each image.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.clusters import QUORATE, gone, until
from tests.kafka_broker import JVM, LOGGING
from tests.peers import peer
from tests.rocketmq.stock import BROKER, OPENS, SMALL
from tests.spark.postgres import account

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DEPENDS: dict[str, dict[str, Any]] = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
HOSTS = {name: f"127.0.{1 + number}.1" for number, name in enumerate(SERVICES)}
HEALTHY_S = 300.0
STOPPED_S = 60.0
CHECKED_EVERY_S = 2.0
CHECK_S = 20.0
"""How long one check may take: longer than in the file, for all containers share what processors there are."""
TERMINATED = 128 + signal.SIGTERM
"""How a JVM ends that was asked to."""


@dataclass(frozen=True)
class Program:
    """What an image makes of a service."""

    command: list[str]
    surroundings: dict[str, Any] = field(default_factory=dict)
    """Environment and account: what ``subprocess`` is told."""
    tools: dict[str, list[str]] = field(default_factory=dict)
    """What the health check calls, by its name in the image."""
    stop: signal.Signals = signal.SIGTERM
    ends_with: int = 0


class Container:
    """One service of the file, running."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.home = home / name
        self.home.mkdir()
        self.address = HOSTS[name]
        service = SERVICES[name]
        mounts = {target: source for source, target, *_ in (mount.split(":") for mount in service.get("volumes", []))}
        self.places = {target: self.home / target.strip("/").replace("/", "-") for target in mounts}
        self._words = {
            **{f"{host}:": f"{address}:" for host, address in HOSTS.items()},
            **dict.fromkeys(("127.0.0.1", "0.0.0.0"), self.address),
            "://:": f"://{self.address}:",
            **{target: str(place) for target, place in self.places.items()},
        }
        for target, source in mounts.items():
            self._mount(source, self.places[target])
        self.command = [self.here(word) for word in service.get("command", [])]
        self.environment = {key: self.here(text) for key, text in service.get("environment", {}).items()}
        self._check = [self.here(word) for word in service["healthcheck"]["test"][1:]]
        self.program = IMAGES[service["image"].partition(":")[0]](self)
        self._surroundings: dict[str, Any] = {"env": os.environ | self.environment, "cwd": self.home}
        self._surroundings |= self.program.surroundings
        with (self.home / "out.log").open("ab") as out:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                self.program.command, stdout=out, stderr=out, start_new_session=True, **self._surroundings
            )
        self._family: set[psutil.Process] = set()

    def _mount(self, source: str, place: Path) -> None:
        """A folder of the project, said of this machine; or what the file's header has made; or an empty volume."""
        place.mkdir()
        if source == "./.run/compose":
            (place / "cluster.key").write_text("a key for all three, long enough to be one\n")
            (place / "cluster.key").chmod(0o600)
        elif source.startswith("./"):
            for file in (ROOT / source).iterdir():
                (place / file.name).write_text(self.here(file.read_text()))

    def here(self, text: str) -> str:
        """What the composition says, said of this machine; the longest words first."""
        longest_first = sorted(self._words, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: self._words[found[0]], text)

    def until_healthy(self) -> None:
        """Wait for the composition's own health check. Fails with what the check and the container said."""
        deadline = time.monotonic() + HEALTHY_S
        while complaint := self._complaint():
            alive = self._process.poll() is None and time.monotonic() < deadline
            assert alive, f"{self.name} is not healthy: {complaint}\n{(self.home / 'out.log').read_text()[-3000:]}"
            time.sleep(CHECKED_EVERY_S)

    def _complaint(self) -> str:
        """What the health check says; nothing when all is well."""
        name, *words = self._check
        check = [*self.program.tools[name], *words]
        try:
            subprocess.run(check, capture_output=True, timeout=CHECK_S, check=True, **self._surroundings)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return f"{error} {error.stdout!r} {error.stderr!r}"
        return ""

    def stop(self) -> None:
        """Ask it to end, as Docker does."""
        self._note_family()
        self._process.send_signal(self.program.stop)

    def stopped(self) -> int:
        """What it ended with. Fails when it does not, or leaves a process behind."""
        status = self._process.wait(STOPPED_S)
        until(lambda: all(gone(one.pid) for one in self._family), f"the end of all that {self.name} started")
        return status

    def kill(self) -> None:
        """End what is left of it."""
        self._note_family()
        for one in self._family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()

    def _note_family(self) -> None:
        if self._process.poll() is None:
            itself = psutil.Process(self._process.pid)
            self._family |= {itself, *itself.children(recursive=True)}


def prepared(command: list[str], **more: Any) -> None:
    """What an image does before its program runs. Fails with what it said."""
    done = subprocess.run(command, capture_output=True, check=False, **more)
    assert done.returncode == 0, f"{command}: {(done.stdout + done.stderr).decode()[-3000:]}"


def quorate(container: Container) -> Program:
    """Dockerfile: the entry point is ``quorate``, and Python is there for the check."""
    return Program([*QUORATE, *container.command], tools={"python": [sys.executable]})


def postgres(container: Container) -> Program:
    """docker-entrypoint.sh: a superuser with the password, a database; over TCP the password is asked for.

    The image trusts connections from within its container; here all are from 127.0.0.1, so nobody is trusted.
    """
    programs, told = peer("postgresql") / "bin", container.environment
    data = container.places["/var/lib/postgresql/data"]  # PGDATA of the image
    surroundings = account(container.home, data)
    password = container.home / "password"
    password.write_text(told["POSTGRES_PASSWORD"])
    initdb = [f"{programs}/initdb", "-D", str(data), "-U", told["POSTGRES_USER"], f"--pwfile={password}", "--no-sync"]
    prepared([*initdb, "-E", "UTF8", "--auth-local=trust", "--auth-host=scram-sha-256"], **surroundings)
    create = f"CREATE DATABASE {told['POSTGRES_DB']}\n".encode()
    prepared([f"{programs}/postgres", "--single", "-D", str(data), "postgres"], input=create, **surroundings)
    return Program(
        [f"{programs}/postgres", "-D", str(data), "-h", container.address, "-k", ""],
        surroundings,
        {"pg_isready": [f"{programs}/pg_isready"]},
        stop=signal.SIGINT,  # STOPSIGNAL of the image
    )


def kafka(container: Container) -> Program:
    """/etc/kafka/docker/launch: Kafka's own wrapper makes server.properties of the environment, and formats."""
    folders = {role: container.home / role for role in ("default", "mounted", "final")}
    for folder in folders.values():
        folder.mkdir()
    logging = container.home / "log4j2.properties"
    logging.write_text(LOGGING)
    java = ["java", *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{peer('kafka')}/*"]
    setup = ["setup", *(f"--{role}-configs-dir={folder}" for role, folder in folders.items())]
    cluster = {"CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw"}  # the image's own, in configureDefaults
    prepared([*java, "kafka.docker.KafkaDockerWrapper", *setup], env=os.environ | cluster | container.environment)
    check = [*java, "org.apache.kafka.tools.BrokerApiVersionsCommand"]
    return Program(
        [*java, "kafka.Kafka", f"{folders['final']}/server.properties"],
        tools={"/opt/kafka/bin/kafka-broker-api-versions.sh": check},
        ends_with=TERMINATED,
    )


def rocketmq(container: Container) -> Program:
    """bin/mqnamesrv and bin/mqbroker, then bin/run….sh: Java with JAVA_OPT_EXT, a main class and the words given."""
    _, script, *words = container.command
    package = {"mqnamesrv": "namesrv.Namesrv", "mqbroker": "broker.Broker"}[script]
    if script == "mqbroker":
        # A container has its own address, and all ports of it. Here the address is told, and the one port that is bound
        # on every address of the machine is another for each broker.
        own = dict.fromkeys(("bindAddress", "brokerIP1", "brokerIP2"), container.address)
        own["haListenPort"] = str(10_900 + list(SERVICES).index(container.name))
        with Path(words[-1]).open("a") as settings:
            settings.writelines(f"{key} = {value}\n" for key, value in own.items())
        java = ["java", *BROKER, "-XX:TieredStopAtLevel=4"]  # compiled well: it scans its timer wheel even idle
    else:
        java = ["java", *SMALL]
    java += [*container.environment.get("JAVA_OPT_EXT", "").split(), *OPENS, f"-Duser.home={container.home}"]
    environment = os.environ | container.environment | {"ROCKETMQ_HOME": str(container.home)}
    return Program(
        [*java, "-cp", f"{peer('rocketmq')}/lib/*", f"org.apache.rocketmq.{package}Startup", *words],
        {"env": environment},
        {"bash": ["bash"]},
        ends_with=TERMINATED,
    )


IMAGES: dict[str, Callable[[Container], Program]] = {
    "quorate": quorate,
    "postgres": postgres,
    "apache/kafka": kafka,
    "apache/rocketmq": rocketmq,
}


@contextmanager
def composition(home: Path) -> Iterator[dict[str, Container]]:
    """Every service of the file, started when those it depends on are as far as the file asks."""
    running: dict[str, Container] = {}
    with ExitStack() as ends:
        for name in TopologicalSorter(DEPENDS).static_order():
            for other, wanted in DEPENDS[name].items():
                if wanted["condition"] == "service_healthy":
                    running[other].until_healthy()
            running[name] = Container(name, home)
            ends.callback(running[name].kill)
        yield running


def stop(running: dict[str, Container]) -> dict[str, int]:
    """End them as Docker does, all at once but none before those that depend on it; the status of each."""
    order = TopologicalSorter({name: [other for other in running if name in DEPENDS[other]] for name in running})
    order.prepare()
    statuses: dict[str, int] = {}
    while names := order.get_ready():
        for name in names:
            running[name].stop()
        statuses |= {name: running[name].stopped() for name in names}
        order.done(*names)
    return statuses
