"""A node's data directory, open: its lock, its journal and store, and the threads that write and read them.

Rules: what is opened is put on ``ends``, which closes it in the reverse order: at the end of the node, or at once when
something behind it could not be opened. So a start that comes to nothing leaves nothing open. What the threads use, the
lock too, is closed when they have ended: one that waits for a disk that hangs may still write.
"""

import asyncio
import os
import secrets
import stat
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

from structlog.typing import FilteringBoundLogger

from quorate.clock import Clock
from quorate.consensus.journal.frames import segment_id
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.directory import Directory
from quorate.consensus.storage.disk import (
    DirectoryLock,
    FileDisk,
    FileVoterFile,
    StoreFolder,
    ThreadWorker,
    sync_directory,
)
from quorate.consensus.storage.kernel_sync import KernelSync, kernel_sync
from quorate.consensus.storage.store import StoreDamagedError
from quorate.controller import StateIsWrongError
from quorate.errors import StorageError, UsageError, reason_of
from quorate.gateway.http import StorageInfo
from quorate.metrics import Metrics
from quorate.node.compose import Disks, give_up_store, open_directory, open_store
from quorate.node.private import tightened
from quorate.node.settings import NodeSettings
from quorate.unseen import unseen_by_git

STOP_PATIENCE_S = 5.0
"""How long a stopping node waits for its disk."""


def new_id() -> str:
    """Of a directory, a life, a cluster."""
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


def alone(settings: NodeSettings) -> bool:
    """Nobody else has what this node holds."""
    return len(settings.cluster.voters) == 1


class DataDirectory:
    """One node's directory: its lock, journal, store and voter file.

    ``sound``: does the node still trust what it has (else nothing more is synced)? ``fail``: it must stop.
    """

    def __init__(
        self,
        settings: NodeSettings,
        ends: ExitStack,
        clock: Clock,
        metrics: Metrics,
        log: FilteringBoundLogger,
        *,
        sound: Callable[[], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._clock, self._sound, self._fail, self._log = clock, sound, fail, log
        self._workers: list[ThreadWorker] = []
        self._used_by_workers = used = ExitStack()
        self.path = data = Path(settings.node.data_dir)
        _make(data)
        ends.callback(self._let_go)
        lock = DirectoryLock(str(data))
        used.callback(lock.release)
        _close_to_others(data, log)
        self.disk = FileDisk(str(data / "journal"), metrics)
        used.callback(self.disk.close)
        voter_file = FileVoterFile(str(data))
        folder = StoreFolder(str(data), settings.storage.store)
        cluster_id, node_id = settings.cluster.id, NodeId(settings.node.id)
        self.store = open_store(
            folder, voter_file, self.disk, cluster_id=cluster_id, node_id=node_id, alone=alone(settings)
        )
        used.callback(self._close_store)
        loop = asyncio.get_running_loop()
        self.worker = ThreadWorker(loop, fail, settings.storage.worker_jobs_max)
        self._workers.append(self.worker)
        # A thread of its own: a vote or an acknowledgement must not wait behind a sync of the store.
        self.store_worker = ThreadWorker(loop, fail, name="quorate-store")
        self._workers.append(self.store_worker)
        # A thread of its own: neither a sync nor the loop must wait behind a read.
        self.reader = ThreadWorker(loop, fail, name="quorate-read")
        self._workers.append(self.reader)
        self.directory, self.journal = open_directory(
            Disks(voter_file=voter_file, store=self.store, disk=self.disk, worker=self.worker, reader=self.reader),
            cluster_id=cluster_id,
            node_id=node_id,
            alone=alone(settings),
            journal=settings.storage.journal,
            clock=clock,
            fresh=new_id,
        )
        if self.directory.may_not_vote:
            log.warning("rejoining without a vote", reason=self.directory.may_not_vote)

        self.journal.syncer = self._syncer = syncer = kernel_sync(
            lambda: KernelSync(loop, self.disk, self._newest_segment(), settings.storage.journal, fail, metrics),
            settings.storage.journal,
            lambda reason: log.info("a thread syncs the journal, for the kernel does not", reason=reason),
        )
        if syncer is not None:
            ends.callback(syncer.close, STOP_PATIENCE_S)
        metrics.gauge(
            "journal_synced_by_kernel",
            "1: the kernel syncs the journal beside the node (AIO); 0: a thread does.",
            lambda: int(self.journal_sync() == "kernel"),
        )

    def _let_go(self) -> None:
        """Nobody else may have the directory while one of the threads waits for a disk that hangs."""
        ended = [worker.close(STOP_PATIENCE_S) for worker in reversed(self._workers)]
        if all(ended):
            self._used_by_workers.close()
        else:
            self._log.critical(
                "the disk does not answer: the directory stays in use until it does, or this process ends",
                data_dir=str(self.path),
            )
            Thread(target=self._let_go_later, name="quorate-end", daemon=True).start()

    def _let_go_later(self) -> None:
        for worker in self._workers:
            worker.close(None)
        # This is not the loop's thread, and the node is gone: nothing more is written, or told.
        self._sound = lambda: False
        self.store.on_damage = lambda _: None
        self._used_by_workers.close()

    def _newest_segment(self) -> str:
        """Of the journal, whose folder may hold other things: a volume of its own has ``lost+found``."""
        return [name for name in self.disk.names() if segment_id(name) is not None][-1]

    def _close_store(self) -> None:
        sound = self._sound()
        try:
            if sound:
                self.store.sync()
            self.store.close()
        except StorageError as error:
            if sound:
                self._fail(error)  # The next start makes a damaged store anew.
                raise

    def journal_sync(self) -> str:
        """Who syncs the journal now: ``kernel`` or ``thread``."""
        return "kernel" if self._syncer is not None and self._syncer.active else "thread"

    def info(self) -> StorageInfo:
        """Bytes on the disk, and how long the oldest write has waited for it."""
        journal = self.journal
        since = journal.oldest_unsynced_since()
        store_bytes = sum(map(_file_bytes, (self.path / "store").iterdir()))
        return StorageInfo(
            bytes_on_disk=journal.bytes_on_disk() + store_bytes,
            journal_bytes=journal.bytes_on_disk(),
            unsynced_for_s=0.0 if since is None else self._clock.monotonic() - since,
        )


def free_bytes(data_dir: str) -> int:
    """The least that is free on a data directory's volumes; journal and store may have their own. Raises OSError."""
    data = Path(data_dir)
    volumes = [os.statvfs(place) for place in (data, data / "journal", data / "store")]
    return min(volume.f_bavail * volume.f_frsize for volume in volumes)


def _file_bytes(path: Path) -> int:
    """0 of what is no file, or has gone meanwhile."""
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0


def give_up_damaged(
    settings: NodeSettings, damage: StoreDamagedError | StateIsWrongError, directory: Directory | None = None
) -> None:
    """Put a damaged store aside, of a node that ran (``directory``) or could not start. Raises StorageError,
    UsageError.
    """
    disk = FileDisk(str(Path(settings.node.data_dir) / "journal"))
    try:
        give_up_store(
            FileVoterFile(settings.node.data_dir),
            disk,
            damage,
            cluster_id=settings.cluster.id,
            node_id=NodeId(settings.node.id),
            alone=alone(settings),
            directory=directory,
        )
    finally:
        disk.close()


def _make(data: Path) -> None:
    try:
        was_there = data.is_dir()
        for folder in reversed((data, *data.parents)):
            folder.mkdir(mode=0o700, exist_ok=True)
        try:
            sync_directory(str(data.resolve().parent))
        except PermissionError:  # It may be entered but not listed: whoever made the directory for us saw to its name.
            if not was_there:
                raise
    except OSError as error:
        raise UsageError(f"node.data_dir: {data} cannot be made: {reason_of(error)}") from error
    unseen_by_git(data)


def _close_to_others(data: Path, log: FilteringBoundLogger) -> None:
    try:
        closed, still = tightened(data)
    except OSError as error:
        raise UsageError(f"node.data_dir: {data} cannot be closed to other users: {reason_of(error)}") from error
    if closed:
        log.warning("data was open to other users; it is its owner's alone now", entries=closed)
    if still:
        log.warning("data is open to other users, and not ours to close", path=str(still[0]), entries=len(still))
