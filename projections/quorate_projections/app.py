"""The Faust app: one topic, one table, its pages. ``faust -A quorate_projections.app worker`` runs it.

Rules: settings come from the environment (``QUORATE_PROJECTIONS_…``, settings.py) when the module is imported; the rows
are opened when the worker starts, so that looking at the app (``faust tables``) locks nothing.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Final, cast

import faust
from faust.app.base import BootStrategy

from quorate_projections.answers import Answer, Answers
from quorate_projections.door import GuardedWeb
from quorate_projections.exposition import exposition
from quorate_projections.materialized_views import MaterializedViews
from quorate_projections.settings import ProjectionSettings, read_settings
from quorate_projections.table import EventTable
from quorate_projections.transport import SCHEME, DirectAssignor, DirectConsumer

JSON: Final = "application/json"


class _Boot(BootStrategy):
    """Nothing is ever produced."""

    enable_kafka_producer = False


class ProjectionApp(faust.App):
    """A Faust app that knows its settings and its rows."""

    BootStrategy = _Boot
    projection_settings: ProjectionSettings
    table: EventTable
    answers: Answers | None = None
    on_ready: Callable[[MaterializedViews], None] | None = None
    """Told once, when the worker is ready for the first time."""

    def _new_web(self) -> GuardedWeb:
        return GuardedWeb(self, self.projection_settings)

    def open_rows(self) -> MaterializedViews:
        """Open the rows. Raises UsageError, StorageError."""
        partition = self.table._partition  # noqa: SLF001  The table is ours.

        def heard() -> tuple[int, int] | None:
            return cast("DirectConsumer", self.consumer).heard(partition)

        materialized_views = MaterializedViews(self.projection_settings, _wall_ms, heard)
        self.answers = Answers(materialized_views)
        return materialized_views

    async def on_first_start(self) -> None:
        """Open the rows, and make their directory, before anything is served."""
        _ = self.table.materialized_views
        await super().on_first_start()

    async def on_shutdown(self) -> None:
        """Close them when all else has stopped."""
        await super().on_shutdown()
        self.table.close_rows()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def make_app(settings: ProjectionSettings) -> ProjectionApp:
    """The app; nothing is opened or connected yet."""
    app = ProjectionApp(
        "quorate-projections",
        broker=f"{SCHEME}://" + ";".join(settings.bootstrap),
        store="memory://",
        worker_redirect_stdouts=False,
        datadir=os.path.join(settings.data_dir, "faust"),  # noqa: PTH118  Faust takes text.
        web_bind=settings.host,
        web_host=settings.host,
        web_port=settings.port,
        web_tables_enabled=False,
        PartitionAssignor=DirectAssignor,
        topic_allow_declare=False,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        recovery_consistency_check=False,
        broker_request_timeout=settings.request_timeout_s,
        broker_session_timeout=min(settings.request_timeout_s, 8.0),
    )
    app.projection_settings = settings
    # Raw on both sides: what Faust cannot decode it drops, and a fold must see every event or stand still.
    raw: faust.Schema[bytes, bytes] = faust.Schema(
        key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
    )
    events = app.topic(settings.topic, schema=raw, partitions=1, acks=False)
    app.table = EventTable(app, name="views", changelog_topic=events)
    app.tables.add(app.table)
    _add_pages(app)
    return app


def _add_pages(app: ProjectionApp) -> None:
    """The routes."""

    def send(page: Any, answer: Answer) -> Any:
        return page.bytes(answer.body, content_type=JSON, status=answer.status)

    def answers() -> Answers:
        _ = app.table.materialized_views
        if app.answers is None:
            raise RuntimeError("the rows are not open")
        return app.answers

    @app.page("/views")
    async def views(page: Any, request: Any) -> Any:
        return send(page, await answers().waited(request.query) or answers().views())

    @app.page("/views/{view}")
    async def view_page(page: Any, request: Any, view: str) -> Any:
        return send(page, await answers().waited(request.query) or answers().page(view, request.query))

    @app.page("/views/{view}/{key:.+}")
    async def view_row(page: Any, request: Any, view: str, key: str) -> Any:
        return send(page, await answers().waited(request.query) or answers().row(view, key))

    @app.page("/ready")
    async def ready(page: Any, request: Any) -> Any:
        return send(page, answers().ready())

    @app.page("/metrics")
    async def metrics(page: Any, request: Any) -> Any:
        text = exposition(app.table.materialized_views, answers())
        return page.text(text, content_type="text/plain")


app: Final = make_app(read_settings(os.environ))
