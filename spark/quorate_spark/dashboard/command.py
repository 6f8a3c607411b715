"""``quorate dashboard``: the web page about a cluster. What it needs is imported when it is run."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from quorate.asking import add_node
from quorate.errors import UsageError

HOST = "127.0.0.1"
PORT = 9950


def arguments(parser: ArgumentParser) -> None:
    """Its arguments."""
    whence = parser.add_mutually_exclusive_group()
    add_node(whence)
    whence.add_argument("--nodes", default="", metavar="HOST:PORT,…", help="their Kafka addresses instead")
    whence.add_argument("--log", type=Path, metavar="FILE", help="a recorded log (quorate log dump -o json) instead")
    parser.add_argument("--topic", default="quorate.metadata.events", help="the event topic")
    parser.add_argument("--cluster-id", default="", metavar="ID", help="refuse any other cluster")
    parser.add_argument("--rack", default="", metavar="ZONE", help="read from the node of this zone, or node-<id>")
    parser.add_argument("--host", default=HOST, help=f"where it listens (default: {HOST})")
    parser.add_argument("--port", type=int, default=PORT, help=f"(default: {PORT})")
    parser.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="a name browsers call it by; may be repeated"
    )
    parser.add_argument("--serving", default="", metavar="URL", help="the Spark application's serving store")
    parser.add_argument("--projections", default="", metavar="HOST:PORT,…", help="HTTP addresses of projection workers")
    parser.add_argument("--flapping", type=int, default=4, metavar="N", help="elections in 30 min (default: 4)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="of the ready line")


def run(options: Namespace) -> int:
    """Serve until told to stop. Raises UsageError."""
    try:
        from quorate_spark.dashboard.program import serve  # noqa: PLC0415  A machine may lack what it needs.
    except ModuleNotFoundError as error:
        raise UsageError(f"the dashboard needs {error.name}: pip install 'quorate[dashboard]'") from error
    return serve(options)
