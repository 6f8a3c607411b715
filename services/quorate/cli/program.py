"""The ``quorate`` program: finds the command that was typed, and turns trouble into exit statuses.

Rules: data goes to stdout, talk to stderr. Exit 0 done, 1 refused or unhealthy, 2 used wrongly.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from quorate.cli.command import DONE, MISUSED, REFUSED, Command
from quorate.errors import QuorateError, UsageError

ENTRY_POINTS = "quorate.commands"


def commands() -> list[Command]:
    """Ours, in the order of the help text, then those that other packages registered."""
    from quorate.cli import demo, log, operate, serve, up, whatif

    own = [serve.COMMAND, up.COMMAND, *demo.COMMANDS, *operate.COMMANDS, *log.COMMANDS, whatif.COMMAND]
    return [*own, *(entry.load() for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name))]


def parser(known: Sequence[Command]) -> argparse.ArgumentParser:
    """The command line of all commands; a name of two words becomes a subcommand of a subcommand."""
    top = argparse.ArgumentParser(prog="quorate", description="An event-sourced cluster controller.")
    words = top.add_subparsers(metavar="COMMAND", required=True)
    groups: dict[str, argparse._SubParsersAction[argparse.ArgumentParser]] = {}
    for command in known:
        first, _, second = command.name.partition(" ")
        if second and first not in groups:
            group = words.add_parser(first, help=f"{first} …: see quorate {first} --help")
            groups[first] = group.add_subparsers(metavar="COMMAND", required=True)
        place = groups[first] if second else words
        own = place.add_parser(second or first, help=command.summary, description=command.summary)
        command.arguments(own)
        own.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; its exit status."""
    options = parser(commands()).parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"quorate: {error}", file=sys.stderr)
        return MISUSED
    except QuorateError as error:
        print(f"quorate: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return DONE
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    return status
