"""The ``quorate`` program: finds the command that was typed, and turns trouble into exit statuses.

Rules: data goes to stdout, talk to stderr. Exit 0 done, 1 refused or unhealthy, 2 used wrongly. Only the module of the
command that was typed is imported.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from quorate import __version__
from quorate.cli.command import DONE, MISUSED, REFUSED, Command
from quorate.cli.processes import add_die_with, die_with
from quorate.errors import QuorateError, UsageError, reason_of
from quorate.terminal import visible_lines

GROUP = "quorate.commands"
OWN: Mapping[str, tuple[str, str]] = {
    "serve": ("cli.serve:COMMAND", "One node in the foreground."),
    "up": ("cli.up:COMMAND", "A cluster on this machine, one process per node."),
    "demo": ("demo.command:COMMAND", "A cluster with simulated brokers and failovers, told as it happens."),
    "status": (
        "cli.operate:STATUS",
        "The cluster in one sentence; exit 1 when it is not well, or a controller is dead.",
    ),
    "quorum": ("cli.operate:QUORUM", "Who votes and who leads; exit 1 without a leader or a majority."),
    "brokers": ("cli.operate:BROKERS", "Broker sets, their masters and replicas; exit 1 when one has no master."),
    "topics": ("cli.operate:TOPICS", "Topics and their settings; topics create, change, delete."),
    "config": (
        "cli.operate:CONFIG",
        "What is in force and where it comes from; settings in the log: show or set some of a scope.",
    ),
    "feature": ("cli.operate:FEATURE", "The feature level: feature show, feature raise."),
    "member": ("cli.member:COMMAND", "A voter whose directory is lost, or was moved: member rebuild, member adopt."),
    "elections": ("cli.operate:ELECTIONS", "The latest election of each broker set; elections elect, transfer."),
    "why": ("cli.operate:WHY", "Why that broker is the master, and why the others are not."),
    "log": ("cli.log:COMMAND", "The committed events: log tail, log dump."),
    "at": ("cli.travel:AT", "A read command on the state at an offset: at N status, at N brokers, …"),
    "diff": ("cli.travel:DIFF", "What changed between two offsets."),
    "kv": ("cli.keys:KV", "Keys, as etcd has them: kv get, put, del, watch, lease."),
    "lease": ("cli.keys:LEASE", "Leases of keys: lease grant, revoke, keep-alive, ttl, list."),
    "balance": ("cli.balance:COMMAND", "Who leads much gives some away: balance --dry-run, balance."),
    "members": (
        "cli.members:COMMAND",
        "Services that registered, and brokers: members list, describe, drain, forget, watch.",
    ),
    "journal": ("cli.journal:COMMAND", "Shards and segments: journal list, describe, create, why, whatif, health, …"),
    "mqtt": ("cli.mqtt:COMMAND", "Sessions of MQTT that brokers share: mqtt sessions, wills, match, locate."),
    "offsets": ("cli.offsets:COMMAND", "How far groups have come in shards: offsets list, get, commit, delete."),
    "schemas": (
        "cli.schemas:COMMAND",
        "Schemas of other services: schemas list, show, register, delete, compatibility.",
    ),
    "whatif": ("cli.whatif:COMMAND", "Who would be master if these failed; exit 1 if nobody, or without a quorum."),
    "state-hash": (
        "cli.operate:STATE_HASH",
        "What the state adds up to on all nodes; exit 1 when they differ, or no two could be compared.",
    ),
    "simservice": ("demo.command:SERVICE", "A simulated service for a cluster that runs: it holds a lease and a key."),
    "simmembers": (
        "demo.command:MEMBERS",
        "Simulated members for a cluster that runs: journal stores, MQTT brokers.",
    ),
    "simbroker": ("demo.command:BROKER", "Simulated brokers for a cluster that runs, as demo starts them."),
}
"""Word → where its ``Command`` is, and what the help says; in the order of the help."""
BESIDE: Mapping[str, str] = {
    "projections": "Views of the log over HTTP: serve, status, rebuild (Faust).",
    "mirror": "An exactly-once copy of the log in a real Kafka.",
    "stream": "The pipelines over the log, into a serving store; reports (Spark).",
    "dashboard": "The page: what is so, why, and what was so at any offset.",
}
"""Help of the commands that our other packages register."""


class Parser(argparse.ArgumentParser):
    """Errors are answered by the command's own parser, with its own usage."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """As argparse does, but nothing unknown is left for the parser above."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        if "parser" not in options:  # The innermost comes first.
            options.parser = self
        return options, unknown

    def takes(self, flag: str) -> bool:
        """Has it this flag?"""
        return flag in self._option_string_actions


def commands() -> dict[str, tuple[EntryPoint, str]]:
    """Every word that may be typed: ours, then those that other packages registered."""
    own = {word: (EntryPoint(word, f"quorate.{place}", GROUP), summary) for word, (place, summary) in OWN.items()}
    others = {
        entry.name: (entry, BESIDE.get(entry.name) or (f"from {entry.dist.name}" if entry.dist else ""))
        for entry in entry_points(group=GROUP)
        if entry.name not in own
    }
    return own | others


def parser(typed: str | None) -> argparse.ArgumentParser:
    """The command line; only the typed word has its arguments."""
    top = Parser(prog="quorate", description="An event-sourced cluster controller.")
    top.add_argument("--version", action="version", version=f"quorate {__version__}")
    words = top.add_subparsers(metavar="COMMAND", required=True)
    for word, (entry, summary) in commands().items():
        own = words.add_parser(word, help=summary, description=summary)
        if word == typed:
            command = _load(word, entry)
            command.arguments(own)
            if word not in OWN:
                add_die_with(own)
            own.set_defaults(run=command.run)
    return top


def _load(word: str, entry: EntryPoint) -> Command:
    """The command's code. Raises UsageError when what it rests on is not installed (a node's install is small)."""
    try:
        return cast("Command", entry.load())
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{word} needs the package {error.name}, which is not installed: pip install 'quorate[projections,spark]', "
            "or make setup-all in a checkout"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; its exit status."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    options = argparse.Namespace()
    try:
        options = parser(typed[0] if typed else None).parse_args(typed)
        if typed[0] not in OWN:
            die_with(options.die_with)
        status: int = options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        return _misused(options, error)
    except UnicodeEncodeError:
        typed_bytes = next((text for text in typed if not _is_text(text)), None)
        if typed_bytes is None:
            raise
        return _misused(options, UsageError(f"{typed_bytes}: not UTF-8"))
    except QuorateError as error:
        print(f"quorate: {visible_lines(str(error))}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return DONE
    except BrokenPipeError:  # The reader (head, less) has seen enough.
        _drop_output()
        return DONE
    except OSError as error:  # A full disk behind stdout, a file that cannot be had, …
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"quorate: {visible_lines(where + reason_of(error))}", file=sys.stderr)
        return REFUSED
    return status


def _misused(options: argparse.Namespace, error: UsageError) -> int:
    """Say what was wrong, and how it is used."""
    if "parser" in options and type(error) is UsageError:  # What is wrong in a file is no matter of the flags.
        print(visible_lines(options.parser.format_usage()), end="", file=sys.stderr)
    print(f"quorate: {visible_lines(str(error))}", file=sys.stderr)
    return MISUSED


def _is_text(typed: str) -> bool:
    """Are its bytes UTF-8? Others are halves of surrogate pairs (PEP 383), which keys and names of files may have."""
    return not any("\ud800" <= character <= "\udfff" for character in typed)


def _drop_output() -> None:
    """Keep the interpreter from complaining at exit of what stdout does not take."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
