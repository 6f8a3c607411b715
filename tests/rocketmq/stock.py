"""Stock RocketMQ 5.3.3 on loopback, from Maven's jars: name server, brokers, Java controllers, client, mqadmin.

Every process has its own home (logs) and small heap, and is ended by its own pid.
"""

import os
import queue
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from tests.clusters import free_ports

SMALL = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
BROKER = ["-Xms128m", "-Xmx384m", "-XX:MaxDirectMemorySize=384m", "-XX:+UseSerialGC"]
OPENS = [
    option
    for package in ("util.concurrent.atomic", "lang", "nio", "util", "math")
    for option in ("--add-opens", f"java.base/java.{package}=ALL-UNNAMED")
] + ["--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"]
START_S = 180.0

BROKER_KEYS = {
    "brokerId": -1,
    "brokerRole": "SLAVE",
    "enableControllerMode": "true",
    "brokerIP1": "127.0.0.1",
    "allAckInSyncStateSet": "true",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 200_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "timerWheelEnable": "false",
    "transientStorePoolEnable": "false",
    "diskMaxUsedSpaceRatio": 98,
    "autoCreateTopicEnable": "true",
    "deleteWhen": "04",
    "fileReservedTime": 48,
    "syncBrokerMetadataPeriod": 2000,
    "checkSyncStateSetPeriod": 2000,
    "haMaxTimeSlaveNotCatchup": 3000,
    "haSendHeartbeatInterval": 1000,
    "registerNameServerPeriod": 10_000,
}
"""Stock settings, but for small files and short periods."""


def wait_port(port: int, process: "subprocess.Popen[bytes]", seconds: float = START_S) -> None:
    """Until somebody listens. Raises RuntimeError when the process ended instead, TimeoutError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(
                    f"the process that should listen on {port} ended with {process.returncode}"
                ) from None
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nobody listens on {port}")


class Stock:
    """The processes of one test."""

    def __init__(self, work: Path, jars: Path) -> None:
        self.work = work
        self.jars = jars
        (work / "home" / "conf").mkdir(parents=True, exist_ok=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.names = ""

    def java(self, name: str, *arguments: str, heap: list[str], piped: bool = False) -> "subprocess.Popen[bytes]":
        """Start a JVM under a name."""
        home = self.work / name
        home.mkdir(exist_ok=True)
        command = ["java", *heap, *OPENS, f"-Duser.home={home}", "-cp", f"{self.jars}/*", *arguments]
        with (home / "stdout").open("ab") as out:
            process = subprocess.Popen(
                command,
                env={**os.environ, "ROCKETMQ_HOME": str(self.work / "home")},
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else out,
                stderr=out,
                cwd=home,
            )
        self.processes[name] = process
        return process

    def write(self, name: str, keys: dict[str, object]) -> str:
        """A property file; answers its path."""
        (self.work / name).mkdir(exist_ok=True)
        path = self.work / name / f"{name}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return str(path)

    def name_server(self) -> str:
        """Start the name server; answers its address."""
        port = free_ports(1)
        keys: dict[str, object] = {
            "listenPort": port,
            "bindAddress": "127.0.0.1",
            "rocketmqHome": self.work / "home",
            "kvConfigPath": self.work / "names/kvConfig.json",
            "configStorePath": self.work / "names/namesrv.properties",
        }
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        wait_port(port, self.java("names", main, "-c", self.write("names", keys), heap=SMALL))
        self.names = f"127.0.0.1:{port}"
        return self.names

    def broker(self, name: str, port: int, controllers: list[str], *, wait: bool = True, **more: object) -> None:
        """Start a broker of set ``broker-a`` on ``port`` (port - 2 and port + 1 are its own too)."""
        store = self.work / name / "store"
        keys: dict[str, object] = {
            **BROKER_KEYS,
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "controllerAddr": ";".join(controllers),
            "namesrvAddr": self.names,
            "listenPort": port,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            **more,
        }
        main = "org.apache.rocketmq.broker.BrokerStartup"
        process = self.java(name, main, "-c", self.write(name, keys), heap=BROKER)
        if wait:
            wait_port(port, process)

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a process and wait for it."""
        process = self.processes.pop(name)
        process.send_signal(how)
        process.wait(60)

    def stop(self) -> None:
        """End everything."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(30)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self.processes.clear()


class Peer:
    """The stock Java client and mqadmin in one long-lived JVM (Peer.java)."""

    def __init__(self, stock: Stock) -> None:
        source = Path(__file__).with_name("Peer.java")
        classes = stock.work / "classes"
        subprocess.run(
            ["javac", "-nowarn", "-d", str(classes), "-cp", f"{stock.jars}/*", str(source)], check=True, timeout=120
        )
        self._process = stock.java(
            "peer", "-cp", f"{classes}:{stock.jars}/*", "Peer", stock.names, heap=SMALL, piped=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue(100_000)
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode(errors="replace").rstrip("\n"))
        self._lines.put(None)

    def command(self, *words: object, seconds: float = 120.0) -> list[str]:
        """One command; the lines it says. Raises TimeoutError, RuntimeError when the JVM died or it failed."""
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self._process.stdin.flush()
        said: list[str] = []
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"{words}: {said}") from None
            if line is None or line.startswith("error "):
                raise RuntimeError(f"{words}: {line} {said}")
            if line == ".":
                return said
            said.append(line)

    def send(self, first: int, count: int, *, topic: str = "story", seconds: int = 30) -> set[int]:
        """Send numbers, each until acknowledged; those that were. Fails on none at all."""
        said = self.command("send", topic, first, count, seconds, seconds=10.0 + count * seconds)
        acked = {int(line.split()[1]) for line in said if line.startswith("acked ")}
        assert acked, said
        return acked

    def read(self, *, topic: str = "story") -> set[int]:
        """Every number in the topic."""
        said = self.command("read", topic, 5)
        return {int(line.split()[1]) for line in said if line.startswith("got ")}

    def subscribe(self, topic: str = "story") -> None:
        """A push consumer listens from now on."""
        self.command("subscribe", topic)

    def received(self) -> set[int]:
        """Every number it has been given so far."""
        return {int(line.split()[1]) for line in self.command("received") if line.startswith("got ")}

    def admin(self, *arguments: object) -> str:
        """``mqadmin`` with these arguments; what it printed."""
        lines = self.command("admin", *arguments)
        return "\n".join(line.removeprefix("> ").rstrip() for line in lines).strip()


class JavaControllers:
    """Three Java controllers of one kind, ``dledger`` or ``jraft``."""

    def __init__(self, stock: Stock, kind: str) -> None:
        self._stock = stock
        self.kind = kind
        base = free_ports(6)
        self.addresses = [f"127.0.0.1:{base + number}" for number in range(3)]
        raft = [f"127.0.0.1:{base + 3 + number}" for number in range(3)]
        started = []
        for number, address in enumerate(self.addresses):
            name = f"{kind}-{number}"
            keys: dict[str, object] = {
                "rocketmqHome": stock.work / "home",
                "controllerStorePath": stock.work / name / "store",
                "configStorePath": stock.work / name / "controller.properties",
                "mappedFileSize": 10 << 20,
            }
            if kind == "dledger":
                peers = ";".join(f"n{other}-{at}" for other, at in enumerate(self.addresses))
                keys |= {"controllerDLegerGroup": "group1", "controllerDLegerPeers": peers}
                keys["controllerDLegerSelfId"] = f"n{number}"
            else:
                keys |= {"controllerType": "jRaft", "jRaftGroupId": "group1", "jRaftServerId": raft[number]}
                keys |= {"jRaftInitConf": ",".join(raft), "jRaftControllerRPCAddr": ",".join(self.addresses)}
                keys["listenPort"] = base + number
            main = "org.apache.rocketmq.controller.ControllerStartup"
            process = stock.java(name, main, "-c", stock.write(name, keys), heap=SMALL)
            started.append((int(address.rpartition(":")[2]), process))
        for port, process in started:
            wait_port(port, process)
