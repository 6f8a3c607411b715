"""Stock MQTT brokers (amqtt) with the plug-in of tests/clients/amqtt, and stock clients (paho) of theirs.

Rules: a broker is a process with packages of its own. A client runs in threads here, and remembers what it was told.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any, Final

from tests.clusters import free_ports, until
from tests.peers import peer

PLUGIN: Final = Path(__file__).parents[1] / "clients/amqtt"
TIMEOUT_MS: Final = 2000
"""How long a broker's silence means nothing."""
PATIENCE_S: Final = 30.0


class Broker:
    """One of them, a member of the name it has."""

    def __init__(self, name: str, nodes: Sequence[str], folder: Path) -> None:
        self.name, self.port = name, free_ports(1)
        address = f"127.0.0.1:{self.port}"
        plugin = {"name": name, "address": address, "nodes": ",".join(nodes), "timeout_ms": TIMEOUT_MS}
        settings = {
            "listeners": {"default": {"type": "tcp", "bind": address}},
            "plugins": {"quorate_sessions.Plugin": plugin},
        }
        config, home = folder / f"{name}.yaml", peer("amqtt")
        config.write_text(json.dumps(settings))  # Which is YAML too.
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(home / "bin/amqtt"), "-c", str(config)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": f"{home}:{PLUGIN}"},
            )
        until(self._listens, f"broker {name}")

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()[-4000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def freeze(self) -> None:
        """SIGSTOP: it answers nobody, and its connections stand."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(10)


class Client:
    """A client that keeps its session; it goes on trying to reach the broker it is sent to."""

    def __init__(self, name: str, will: tuple[str, bytes] | None = None, *, returns: bool = True) -> None:
        self.received, self.gone = list[bytes](), Event()
        self.present = list[bool]()
        """Of each connection: was there a session?"""
        self.busy, self.left_out = False, 0
        """It neither takes nor acknowledges what it is sent, which is counted."""
        self._granted, self._sent, self._begun = Event(), list[tuple[bytes, Any]](), False
        mqtt: Any = import_module("paho.mqtt.client")
        version = mqtt.CallbackAPIVersion.VERSION2
        self._mqtt = mqtt.Client(version, name, clean_session=False, reconnect_on_failure=returns, manual_ack=True)
        if will:
            self._mqtt.will_set(*will, qos=1)
        self._mqtt.reconnect_delay_set(1, 1)
        self._mqtt.on_connect = self._connected
        self._mqtt.on_message = self._told
        self._mqtt.on_subscribe = self._subscribed
        self._mqtt.on_disconnect = self._left

    def _connected(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        if not reason.is_failure:
            self.present.append(flags.session_present)

    def _told(self, _client: Any, _data: Any, message: Any) -> None:
        if self.busy:
            self.left_out += 1
            return
        self.received.append(message.payload)
        self._mqtt.ack(message.mid, message.qos)

    def _subscribed(self, *_: Any) -> None:
        self._granted.set()

    def _left(self, *_: Any) -> None:
        self.gone.set()

    def connect(self, broker: Broker) -> bool:
        """To this one from here on; was its session there?"""
        count = len(self.present)
        self._mqtt.connect_async("127.0.0.1", broker.port)
        if not self._begun:
            self._begun = True
            self._mqtt.loop_start()
        until(lambda: len(self.present) > count, f"a connection to {broker.name}", PATIENCE_S)
        return self.present[-1]

    def subscribe(self, topics: str) -> None:
        """Quality 1, granted."""
        self._mqtt.subscribe(topics, qos=1)
        assert self._granted.wait(PATIENCE_S)

    def publish(self, topic: str, payload: bytes) -> None:
        """Quality 1; acknowledged or not."""
        self._sent.append((payload, self._mqtt.publish(topic, payload, qos=1)))

    def acknowledged(self) -> list[bytes]:
        """What the broker has taken over."""
        return [payload for payload, told in list(self._sent) if told.is_published()]

    def waiting(self) -> int:
        """How many are not acknowledged."""
        return len(self._sent) - len(self.acknowledged())

    def disconnect(self) -> None:
        """In order, and for good."""
        self._mqtt.disconnect()
        self._mqtt.loop_stop()
        self._mqtt._reset_sockets()  # It would when it is collected; in a circle, as here, its sockets may be first.
