"""The program for ``spark-submit``: ``quorate stream`` on the cluster that it was submitted to.

``spark-submit --master spark://HOST:PORT --py-files quorate.zip submit.py --nodes … --sink … --checkpoint …``;
docs/spark.md has the whole of it.
"""

import sys
from argparse import ArgumentParser

from quorate.errors import QuorateError, UsageError
from quorate.terminal import visible_lines
from quorate_spark.stream import command


def main(words: list[str]) -> int:
    """Stream; the exit status of ``quorate stream``."""
    parser = ArgumentParser(prog="submit.py", description=__doc__)
    command.arguments(parser)
    parser.set_defaults(master="")
    try:
        return command.run(parser.parse_args(words))
    except QuorateError as error:
        sys.stderr.write(f"quorate stream: {visible_lines(str(error))}\n")
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
