"""``quorate dashboard``: the web page about a cluster. What it needs is imported when it is run."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from quorate.asking import add_node
from quorate.errors import UsageError
from quorate.flags import add_flags
from quorate_spark.dashboard.settings import Settings


def arguments(parser: ArgumentParser) -> None:
    """Its arguments."""
    whence = parser.add_mutually_exclusive_group()
    add_node(whence)
    whence.add_argument("--nodes", default="", metavar="HOST:PORT,…", help="their Kafka addresses instead")
    whence.add_argument("--log", type=Path, metavar="FILE", help="a recorded log (quorate log dump -o json) instead")
    parser.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="a name browsers call it by; may be repeated"
    )
    parser.add_argument("--projections", default="", metavar="HOST:PORT,…", help="HTTP addresses of projection workers")
    add_flags(parser, Settings)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="of the ready line")


def run(options: Namespace) -> int:
    """Serve until told to stop. Raises UsageError."""
    try:
        from quorate_spark.dashboard.program import serve  # noqa: PLC0415  A machine may lack what it needs.
    except ModuleNotFoundError as error:
        raise UsageError(f"the dashboard needs {error.name}: pip install 'quorate[dashboard]'") from error
    return serve(options)
