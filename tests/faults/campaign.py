"""Damage, start, look, and do what the node says, until it is equal to the others; and the table of what happened.

Rules: what a node serves is compared with what the others hold, byte for byte, after a scrub has read everything. A
node may serve equally, mend itself, or stop with a sentence that names a file and what to do; that is then done. All
else is *silent*: a difference that nobody told, an act that was forgotten, a start that ends in a traceback.
"""

import gc
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from quorate.errors import QuorateError
from tests.faults.cluster import Cluster, Image, difference, prepare
from tests.faults.damage import Damage, campaign

Verdict = Literal["served equally", "mended itself", "stopped, remedy run", "silent"]
LIVES_MAX = 6
FILE = re.compile(r"store|\.journal|journal directory|voter\.json|data directory")
AGAIN = "start the node again"
RESTORE = re.compile(r"restore|put back")


class Outcome(msgspec.Struct, frozen=True):
    """What became of one damaged node."""

    damage: Damage
    verdict: Verdict
    told: tuple[str, ...]
    """What it said, in the order it said it."""
    trouble: str = ""
    """Of a silent one: what nobody told."""


class _Trial:
    def __init__(self, image: Image, damage: Damage, cluster: Cluster) -> None:
        self.image, self.damage, self.cluster = image, damage, cluster
        self.told: list[str] = []
        self.stopped = False
        self.mended = False
        self.forgiven = False
        """Its directory was restored: it comes back as a copy."""

    def run(self) -> Outcome:
        """Lives of the victim until it is equal, or until something is silent."""
        trouble = ""
        for _ in range(LIVES_MAX):
            sentence, trouble = self._live()
            if trouble or not sentence:
                break
            trouble = self._heed(sentence)
            if trouble:
                break
        else:
            trouble = "the remedy does not end it"
        if trouble:
            return Outcome(self.damage, "silent", tuple(self.told), trouble)
        verdict: Verdict = "served equally"
        if self.stopped or self.mended:
            verdict = "stopped, remedy run" if self.stopped else "mended itself"
        return Outcome(self.damage, verdict, tuple(self.told))

    def _live(self) -> tuple[str, str]:
        """One life: why it ended (empty: it is equal), and what is silent about it."""
        cluster, victim = self.cluster, self.cluster.victim
        try:
            victim.start()
        except QuorateError as error:
            victim.close_ports()
            return str(error), ""
        self._note()
        lost = self._forgotten()
        if lost:
            return "", lost
        done = cluster.run_until(lambda: victim.failed or cluster.equal())
        try:
            if not victim.failed:
                if not done:
                    return "", f"not equal in time: {self._state()}"
                sum(victim.scrub())
                cluster.time.run(0.05)
        except QuorateError as error:
            victim.fail(error)
        if victim.failed:
            return str(victim.failed[0]), ""
        return "", difference(cluster)

    def _note(self) -> None:
        victim = self.cluster.victim
        for reason in (victim.mended, victim.rejoined):
            if reason:
                self.mended = True
                self.told.append(reason)

    def _forgotten(self) -> str:
        """Did it come back with less than it had vouched for, and without a word?"""
        victim, (term, vote, last) = self.cluster.victim, self.image.opened
        if victim.rejoined or self.forgiven:
            return ""
        if victim.opened[0] < term or (victim.opened[0] == term and victim.opened[1] != vote):
            return f"the vote {vote} of term {term} is forgotten"
        if victim.opened[2] < min(last, self.image.applied):
            return f"entries {victim.opened[2] + 1} to {last} are forgotten"
        return ""

    def _state(self) -> str:
        found = []
        for member in self.cluster.members.values():
            engine, journal = member.core.engine, member.journal
            found.append(
                f"n{member.id} term {engine.term} voting {engine.voting} installing {engine.installing} log "
                f"{journal.base_index}..{journal.last_index} applied {engine.applied_index}"
            )
        return "; ".join([*found, *self.cluster.peer_errors[-2:]])

    def _heed(self, sentence: str) -> str:
        """Do what the node says; what is wrong with what it says."""
        victim, folder = self.cluster.victim, self.cluster.victim.folder
        self.told.append(sentence)
        self.stopped = True
        victim.stop()
        gc.collect()
        self.cluster.time.run(0.5)
        if not FILE.search(sentence):
            return f"no file is named: {sentence}"
        if AGAIN in sentence:
            return ""
        if RESTORE.search(sentence):
            shutil.rmtree(folder)
            shutil.copytree(self.image.folder, folder)
            self.forgiven = True
            return ""
        return f"no remedy is named: {sentence}"


def trial(image: Image, damage: Damage, work: Path) -> Outcome:
    """The same cluster again, with this damage done to its victim."""
    cluster = image.again(work)
    damage.do(work)
    for member in cluster.members.values():
        if member is not cluster.victim:
            member.start()
    try:
        return _Trial(image, damage, cluster).run()
    except Exception as error:  # noqa: BLE001 - whatever a damaged file brings about is a finding
        return Outcome(damage, "silent", (), f"{type(error).__name__}: {error}")
    finally:
        for member in cluster.members.values():
            member.stop()
        gc.collect()


def play(folder: Path, flips: int, others: int, seed: int) -> list[Outcome]:
    """So much damage, a quarter of it to each of four images: of a killed node or one that was stopped, whose journal
    is trimmed or whole.
    """
    outcomes: list[Outcome] = []
    for number in range(4):
        place = folder / f"image{number}"
        place.mkdir(parents=True)
        image = prepare(place, retain=20 if number % 2 else 20_000, killed=number < 2)
        few, fewer = ((total + 3 - number) // 4 for total in (flips, others))
        outcomes += [
            trial(image, damage, place / "work") for damage in campaign(image.folder, few, fewer, seed + number)
        ]
    return outcomes


def table(outcomes: Iterable[Outcome]) -> str:
    """Counts per kind of file, way and verdict, as a table of Markdown."""
    counts: Counter[tuple[str, str, str]] = Counter((o.damage.kind, o.damage.way, o.verdict) for o in outcomes)
    verdicts = ("served equally", "mended itself", "stopped, remedy run", "silent")
    lines = ["| what | how | " + " | ".join(verdicts) + " |", "|---|---|" + "---|" * len(verdicts)]
    for kind, way in sorted({(kind, way) for kind, way, _ in counts}):
        lines.append(f"| {kind} | {way} | " + " | ".join(str(counts[kind, way, v] or "") for v in verdicts) + " |")
    totals = (sum(n for (_, _, found), n in counts.items() if found == verdict) for verdict in verdicts)
    lines.append("| all | | " + " | ".join(map(str, totals)) + " |")
    return "\n".join(lines)
