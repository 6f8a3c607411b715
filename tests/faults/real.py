"""The same damage, done to the files of real nodes: one is killed, damaged, and started beside two others."""

import json
import re
import shutil
import time
from pathlib import Path
from random import Random
from urllib.request import urlopen

from tests.faults.campaign import AGAIN, FILE, LIVES_MAX, RESTORE, Outcome, Verdict
from tests.faults.damage import Way, draw, ways_of
from tests.kills.cluster import Cluster, LostError, Writers

VICTIM = 2
READY_S = 40.0
SCRUB = "\n[storage.scrub]\nbytes_per_s = 50000000\nslice_bytes = 65536\n"
LOG_EVENTS = 200
"""Of each node's log, from its beginning."""
WROTE = re.compile(r"quorate_scrub_passes(?:\{[^}]*\})? ([0-9.e+]+)")


class Nodes:
    """Three real nodes with something in their logs, and a copy of the victim's directory while it was stopped."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(folder)
        self.place = self.cluster.places[VICTIM]
        self.data = self.place.folder / "data"
        self.kept = folder / "kept"
        for place in self.cluster.places.values():
            place.config.write_text(place.config.read_text(encoding="utf-8") + SCRUB, encoding="utf-8")
        self.cluster.start()
        self.cluster.leader()
        writers = Writers(self.cluster)
        writers.start()
        time.sleep(3.0)
        writers.stop()
        self.cluster.same_everywhere()
        self.cluster.kill(VICTIM)
        shutil.copytree(self.data, self.kept)
        self.log_at = 0

    def stop(self) -> None:
        """End all of them."""
        self.cluster.stop()

    def trial(self, way: Way, random: Random) -> Outcome:
        """The victim is down: damage, start, heed, until it is equal; it is down again when this returns."""
        damage = draw(self.data, way, random)
        damage.do(self.data)
        told: list[str] = []
        trouble, verdict = "", "served equally"
        for _ in range(LIVES_MAX):
            sentence, trouble = self._live()
            if trouble:
                break
            if sentence:
                verdict = "stopped, remedy run"
                told.append(sentence)
                trouble = self._heed(sentence)
                if trouble:
                    break
                continue
            break
        else:
            trouble = "the remedy does not end it"
        said = self._said()
        mended = [line for line in said if "put aside" in line or "without a vote" in line]
        if verdict == "served equally" and mended:
            verdict = "mended itself"
        self.cluster.kill(VICTIM)
        found: Verdict = "silent" if trouble else verdict  # type: ignore[assignment]
        return Outcome(damage, found, (*told, *mended), trouble)

    def _live(self) -> tuple[str, str]:
        """One life of the victim: the sentence it ended with (empty: it is equal), and what is silent about it."""
        begin = (self.place.folder / "node.log").stat().st_size
        self.cluster.start(VICTIM)
        process = self.cluster._processes[VICTIM]
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return self._last_words(begin), ""
            status = self.cluster.status(self.place)
            if status is not None and status.ready and self._scrubbed():
                break
            time.sleep(0.05)
        else:
            return "", f"not ready and read within {READY_S} s"
        try:
            others = [self.cluster.status(place) for node, place in self.cluster.places.items() if node != VICTIM]
            told = min(LOG_EVENTS, max(other.offset for other in others if other is not None))
            self.cluster.same_everywhere()
            logs = [self._events(place.http) for place in self.cluster.places.values()]
        except (LostError, OSError) as error:
            if process.poll() is not None:
                return self._last_words(begin), ""
            return "", str(error)
        if min(map(len, logs)) < told:
            return "", f"a node tells {min(map(len, logs))} of {told} events"
        # Between two of these answers an event may be written.
        return "", "" if all(log[:told] == logs[0][:told] for log in logs) else "the logs differ"

    def _scrubbed(self) -> bool:
        try:
            with urlopen(f"http://{self.place.http}/metrics", timeout=2) as answer:
                found = WROTE.search(answer.read().decode())
        except OSError:
            return False
        return found is not None and float(found[1]) >= 1

    @staticmethod
    def _events(address: str) -> list[object]:
        """A piece of the log from its beginning, as the node tells it from its store."""
        with urlopen(f"http://{address}/v1/log?from=0&limit={LOG_EVENTS}&level=stale", timeout=5) as answer:
            events: list[object] = json.load(answer)["events"]
        return events

    def _last_words(self, begin: int) -> str:
        text = (self.place.folder / "node.log").read_bytes()[begin:].decode(errors="replace")
        lines = [line for line in text.splitlines() if "failed" in line or line.startswith("quorate:")]
        return lines[-1] if lines else f"no reason is given: {text[-500:]}"

    def _said(self) -> list[str]:
        data = (self.place.folder / "node.log").read_bytes()
        text, self.log_at = data[self.log_at :].decode(errors="replace"), len(data)
        return text.splitlines()

    def _heed(self, sentence: str) -> str:
        if not FILE.search(sentence):
            return f"no file is named: {sentence}"
        if AGAIN in sentence:
            return ""
        if RESTORE.search(sentence):
            shutil.rmtree(self.data)
            shutil.copytree(self.kept, self.data)
            return ""
        return f"no remedy is named: {sentence}"


def play(folder: Path, flips: int, others: int, seed: int) -> list[Outcome]:
    """So much damage to one node of a real cluster, one after the other."""
    random = Random(seed)
    nodes = Nodes(folder)
    try:
        return [nodes.trial(way, random) for way in ways_of(flips, others)]
    finally:
        nodes.stop()
