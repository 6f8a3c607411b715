"""``quorate member``: what becomes of a voter whose data directory is lost, or was moved.

Rules: ``rebuild`` asks a running cluster, and names the directory that a voter has now, as the waiting node says it.
``adopt`` works on a directory whose node is stopped, and holds its lock; it changes ``voter.json`` and nothing else.

Theory. A directory that is gone may have voted and acknowledged, so the one in its place takes the leader's state and
votes once nothing it says can contradict what was forgotten (consensus/raft/rejoin.py). A copied directory is treated
the same, for its original may have gone on. Where *all* voters were stopped and copied together nobody went on, and
nobody is left to learn from: only an operator knows that, and says so with ``adopt``.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import msgspec

from quorate.cli.client import Node, add_action
from quorate.cli.command import DONE, Command
from quorate.cli.output import complain, show
from quorate.consensus.storage.directory import COPIED, Voter, decode_voter, encode_voter
from quorate.consensus.storage.disk import DirectoryLock, FileVoterFile
from quorate.errors import StorageError, UsageError
from quorate.gateway.http.answers import Done
from quorate.gateway.http.writing import RebuildBody

ADOPTED = (
    "node {node} of cluster {cluster}: this copy is taken for directory {directory} itself, with the vote it had. That "
    "is right only if every voter was stopped before the copies were made, all were moved together, and none of the "
    "originals is ever started again: an original that goes on votes a second time, and acknowledged writes are lost"
)


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    what = "Name the directory that a voter has now; the one it had is lost for good."
    rebuild = add_action(actions, "rebuild", what)
    rebuild.add_argument("voter", type=int, metavar="N", help="id of the node")
    rebuild.add_argument("--directory", required=True, metavar="UUID", help="as the node says that waits")
    what = "Take a copied directory for the original: only when all voters were stopped and moved together."
    adopt = actions.add_parser("adopt", help=what, description=what)
    adopt.add_argument("--data-dir", required=True, type=Path, metavar="DIR", help="of the stopped node")


def _run(options: Namespace) -> int:
    return _rebuild(options) if options.action == "rebuild" else _adopt(options.data_dir)


def _rebuild(options: Namespace) -> int:
    path = f"/v1/members/{options.voter}/rebuild"
    done = Node(options.node).send("POST", path, RebuildBody(dir_uuid=options.directory), Done)
    complain(f"committed; node {options.voter} has directory {options.directory} from offset {done.offset}")
    complain(
        "it takes the leader's state now, and votes again once it has heard every other voter; the directory it had "
        "before must never be started again, and is refused"
    )
    show(msgspec.to_builtins(done), options.output, [])
    return DONE


def _adopt(data_dir: Path) -> int:
    if not (data_dir / "voter.json").is_file():
        raise UsageError(f"--data-dir {data_dir}: there is no voter.json")
    lock = DirectoryLock(str(data_dir))
    try:
        voter = adopt(FileVoterFile(str(data_dir)))
    finally:
        lock.release()
    complain(ADOPTED.format(node=voter.node_id, cluster=voter.cluster_id, directory=voter.incarnation))
    return DONE


def adopt(file: FileVoterFile) -> Voter:
    """Write the file anew where it stands, so that it is the one written here. What it says of votes that were lost for
    another reason than the copying stays. Raises StorageError if it is damaged or missing.
    """
    content = file.read()
    voter = None if content is None else decode_voter(content.data)
    if content is None or voter is None:
        raise StorageError(
            "voter.json is damaged: nobody can say whose directory this is. Restore the file, or remove the whole data "
            "directory and have the node rebuilt (quorate member rebuild)"
        )
    if voter.may_not_vote == COPIED:
        voter = msgspec.structs.replace(voter, may_not_vote="")
    file.replace(encode_voter(voter))
    return voter


COMMAND = Command(_arguments, _run)
