"""``quorate demo``: a cluster, simulated brokers, services, members, and faults; ``simbroker``, ``simservice`` and
``simmembers``: such ones.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from quorate.asking import add_node
from quorate.cli.command import Command, number
from quorate.cli.processes import add_die_with
from quorate.errors import UsageError

BASE_PORT = 9870
CONTROLLERS = "127.0.0.1:9870;127.0.0.1:9880;127.0.0.1:9890"


def _demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=3, help="1, 3 or 5 (default: 3)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="default: a temporary folder, deleted at the end")
    parser.add_argument(
        "--base-port",
        type=int,
        default=BASE_PORT,
        metavar="P",
        help=f"as in up; the page at P+80, the views at P+81, brokers from P+100 (default: {BASE_PORT})",
    )
    parser.add_argument("--sets", type=int, default=4, help="broker sets (default: 4)")
    parser.add_argument("--replicas", type=int, default=3, help="brokers in each set (default: 3)")
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="between faults; 0 = none (default: 5)"
    )
    parser.add_argument(
        "--for", dest="seconds", type=float, metavar="SECONDS", help="end so long after it is ready (default: Ctrl-C)"
    )
    parser.add_argument(
        "--with",
        dest="beside",
        default="all",
        metavar="WHAT,…",
        help="what reads the log beside it: views, spark, page; all that can run here (default), or none",
    )
    parser.add_argument(
        "--services",
        type=int,
        choices=(0, 2),
        default=2,
        help="simulated services that hold leases; with five members (default: 2)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the choice of faults")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="json: one line per happening"
    )
    add_die_with(parser)


def _check(options: Namespace) -> None:
    """Raises UsageError for what cannot be played."""
    for flag, value in (("--sets", options.sets), ("--replicas", options.replicas)):
        if value < 1:
            raise UsageError(f"{flag} {value}: at least 1")
    for flag, value in (("--every", options.every), ("--for", options.seconds)):
        if value is not None and not value >= 0:
            raise UsageError(f"{flag} {value:g}: seconds, not below 0")


def _run_demo(options: Namespace) -> int:
    _check(options)
    from quorate.demo.demonstration import run

    return run(options)


def _broker_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--cluster", default="demo", help="of one broker (default: demo)")
    parser.add_argument("--broker-set", help="one broker of this set; without it --sets and --replicas say how many")
    parser.add_argument("--sets", type=int, default=2, help="broker sets (default: 2)")
    parser.add_argument("--replicas", type=int, default=2, help="brokers in each set (default: 2)")
    parser.add_argument("--port", type=int, default=9970, help="where the first listens, on loopback (default: 9970)")
    parser.add_argument(
        "--controllers",
        default=CONTROLLERS,
        metavar="HOST:PORT;…",
        help="their rpc addresses (default: the three of quorate up)",
    )
    parser.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        help="what they keep: a second start goes on with it (default: ./brokers; with --broker-set it must be named)",
    )
    add_die_with(parser)


def _run_broker(options: Namespace) -> int:
    if options.broker_set is None:
        from quorate.demo import fleet

        return fleet.run(options)
    if options.home is None:
        raise UsageError("--broker-set needs --home")
    from quorate.demo.simbroker import run

    return run(options)


def _add_nodes(parser: ArgumentParser) -> None:
    add_node(parser)
    parser.add_argument("--nodes", default="", metavar="HOST:PORT,…", help="their grpc addresses instead")


def _service_arguments(parser: ArgumentParser) -> None:
    _add_nodes(parser)
    parser.add_argument("--key", default="/services/sim/1", help="put under its lease (default: /services/sim/1)")
    parser.add_argument("--ttl", type=number(), default=10, metavar="SECONDS", help="of its lease (default: 10)")
    add_die_with(parser)


def _run_service(options: Namespace) -> int:
    from quorate.demo.simservice import run

    return run(options)


def _members_arguments(parser: ArgumentParser) -> None:
    _add_nodes(parser)
    parser.add_argument(
        "--member",
        action="append",
        default=[],
        metavar="NAME:ROLE",
        help="one of them; role: journal or mqtt; repeatable",
    )
    add_die_with(parser)


def _run_members(options: Namespace) -> int:
    if not options.member:
        raise UsageError("--member: at least one")
    from quorate.demo.simmembers import run

    return run(options)


COMMAND = Command(_demo_arguments, _run_demo)
BROKER = Command(_broker_arguments, _run_broker)
SERVICE = Command(_service_arguments, _run_service)
MEMBERS = Command(_members_arguments, _run_members)
