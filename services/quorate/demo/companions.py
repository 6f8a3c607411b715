"""The programs beside a demonstration's nodes that read their log: the views, the Spark application, the page.

Rules: each is a command of another package and a process of its own, ended with us; none is needed by the others. What
cannot run here (a package that is not installed, no Java) is left out and named. The page and the views are waited for;
Spark warms up while everything else is already there, and is announced when it is warm.
"""

import asyncio
import http.client
import importlib.util
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from quorate.cli.cluster import HOST, NodePlace
from quorate.cli.processes import Child, ChildError
from quorate.errors import UsageError

NAMES = ("views", "spark", "page")
PORTS = {"page": 80, "views": 81}
"""Above the base port: where nodes and brokers are not."""
STANDS_TIMEOUT_S = 60.0
WARM_TIMEOUT_S = 300.0
STOP_PATIENCE_S = 10.0
LOOK_S = 0.1
NICENESS = 10
"""Of what reads the log: on a small machine the controllers and their brokers go first."""
ASK_TIMEOUT_S = 1.0
_PACKAGES = {
    "views": ("faust", "aiohttp"),
    "spark": ("pyspark", "pyarrow"),
    "page": ("aiohttp", "aiokafka", "fastavro"),
}
_SPARK_READY = re.compile(rb'^\{"ready": ?true', re.MULTILINE)


@dataclass(frozen=True)
class Companion:
    """One of them: what it is, where it answers (empty: nowhere), the path that says it stands."""

    name: str
    child: Child
    log: Path
    address: str = ""
    path: str = "/"

    @property
    def url(self) -> str:
        """For people and programs."""
        return f"http://{self.address}/"

    async def stands(self) -> None:
        """Return when it answers. Raises ChildError when it died or took too long."""
        try:
            async with asyncio.timeout(STANDS_TIMEOUT_S):
                while not await asyncio.to_thread(_answers, self.address, self.path):
                    self._living()
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise ChildError(f"{self.name}: not there within {STANDS_TIMEOUT_S:.0f} s; see {self.log}") from None

    async def warm(self) -> None:
        """Return when it has said that it is ready. Raises ChildError when it died or took too long."""
        try:
            async with asyncio.timeout(WARM_TIMEOUT_S):
                while not await asyncio.to_thread(lambda: _SPARK_READY.search(self.log.read_bytes())):
                    self._living()
                    await asyncio.sleep(1.0)
        except TimeoutError:
            raise ChildError(f"{self.name}: not warm within {WARM_TIMEOUT_S:.0f} s; see {self.log}") from None

    def _living(self) -> None:
        if not self.child.alive:
            raise ChildError(f"{self.name} died; see {self.log}")


def wanted(asked: str) -> tuple[str, ...]:
    """The companions that ``--with`` names: ``all``, ``none``, or some. Raises UsageError."""
    if asked in {"all", "none"}:
        return NAMES if asked == "all" else ()
    names = tuple(name for name in asked.split(",") if name)
    if unknown := sorted(set(names) - set(NAMES)):
        raise UsageError(f"--with {', '.join(unknown)}: there is {', '.join(NAMES)}, all, none")
    return names


def possible(names: Iterable[str], leave_out: Callable[[str], None]) -> tuple[str, ...]:
    """Those that can run here; why not is told of the others."""
    programs = []
    for name in names:
        missing = [package for package in _PACKAGES[name] if importlib.util.find_spec(package) is None]
        if missing:
            leave_out(f"{name} is left out: {', '.join(missing)} is not installed (make setup-all)")
        elif name == "spark" and shutil.which("java") is None:
            leave_out("spark is left out: there is no java on the path (Java 17 or newer)")
        else:
            programs.append(name)
    return tuple(programs)


def companions(names: Iterable[str], folder: Path, places: Iterable[NodePlace], base_port: int) -> list[Companion]:
    """Those that are named, not started; each has a folder and a log of its own."""
    nodes = ",".join(place.kafka for place in places)
    views, page = (f"{HOST}:{base_port + PORTS[name]}" for name in ("views", "page"))
    serving = f"sqlite:///{folder / 'spark' / 'serving.sqlite'}"
    words = {
        "views": ["projections", "serve", "--data-dir", str(folder / "views"), "--port", views.rpartition(":")[2]],
        "spark": [
            "stream", "--sink", serving, "--archive", str(folder / "spark" / "archive"),
            "--checkpoint", str(folder / "spark" / "checkpoint"), "-o", "json",
        ],
        "page": ["dashboard", "--port", page.rpartition(":")[2], "-o", "json"],
    }  # fmt: skip
    chosen = set(names)
    if "views" in chosen:
        words["page"] += ["--projections", views]
    if "spark" in chosen:
        words["page"] += ["--serving", serving]
    where = {"views": (views, "/ready"), "spark": ("", "/"), "page": (page, "/")}
    made = []
    for name in NAMES:
        if name in chosen:
            home = folder / name
            home.mkdir(parents=True, exist_ok=True)
            log = home / f"{name}.log"
            child = Child(name, [*words[name], "--nodes", nodes], log, niceness=NICENESS)
            made.append(Companion(name, child, log, *where[name]))
    return made


def _answers(address: str, path: str) -> bool:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
