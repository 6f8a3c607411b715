"""``/metrics``: what a node counted, as Prometheus text; RocketMQ's controller names beside ours.

Rules: read when scraped, from plain integers (quorate/metrics.py); one ``# TYPE`` per name; our times are seconds,
RocketMQ's microseconds, as in ``ControllerMetricsManager``. No label takes a value a client may invent.
Source: Prometheus text format 0.0.4; RocketMQ ``ControllerMetricsConstant``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from quorate.controller import Listener
from quorate.events import ElectionFailed, Event, MasterElected
from quorate.gateway.http.answers import BrokerCounts
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.messages import Response
from quorate.gateway.http.reading import count_brokers, living
from quorate.gateway.http.routing import Call
from quorate.metrics import LATENCY_BOUNDS_US, Histogram, Metrics
from quorate.slices import Steps, finished, in_slices, sorting
from quorate.wire.kafka import Api

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JAVA_ROLES = {"not voting": 0, "candidate": 1, "follower": 2, "leader": 3}
"""RocketMQ's ``role``: 0 unknown, 1 candidate, 2 follower, 3 leader."""

LINES_PER_STEP = 500
"""Of text made in one step: tens of microseconds."""
SAMPLES_PER_STEP = 50
"""Of one metric, that are written in one step."""
ELECTIONS_PER_STEP = 100
"""Of results of elections, that are counted or made samples of."""
GONE_MAX = 1_000
"""Results of elections of sets that are gone, at most, before they become one sum."""

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Exposition:
    """Collects the lines of one scrape."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def text(self) -> Steps[bytes]:
        """All of it, some hundred lines a step."""
        parts: list[bytes] = []
        for at in range(0, len(self._lines), LINES_PER_STEP):
            parts.append(("\n".join(self._lines[at : at + LINES_PER_STEP]) + "\n").encode())
            yield
        return b"".join(parts)

    def add(self, kind: str, name: str, about: str, samples: Iterable[Sample], *, head: bool = True) -> None:
        """A metric with its samples; without ``head``, more samples of the metric before."""
        if head:
            self._head(kind, name, about)
        self._lines += [f"{name}{labelled(labels)} {number(value)}" for labels, value in samples]

    def counter(self, name: str, about: str, value: float, labels: Labels | None = None) -> None:
        """A counter without a family."""
        self.add("counter", name, about, [(labels or {}, value)])

    def gauge(self, name: str, about: str, value: float, labels: Labels | None = None) -> None:
        """A gauge without a family."""
        self.add("gauge", name, about, [(labels or {}, value)])

    def histogram(self, name: str, about: str, series: Iterable[tuple[Labels, Histogram]], per_unit_us: int) -> None:
        """Latencies, in a unit of ``per_unit_us`` microseconds."""
        self._head("histogram", name, about)
        for labels, histogram in series:
            total = 0
            for bound, count in zip((*LATENCY_BOUNDS_US, None), histogram.counts, strict=True):
                total += count
                le = "+Inf" if bound is None else number(bound / per_unit_us)
                self._lines.append(f"{name}_bucket{labelled({**labels, 'le': le})} {total}")
            self._lines.append(f"{name}_sum{labelled(labels)} {number(histogram.total_us / per_unit_us)}")
            self._lines.append(f"{name}_count{labelled(labels)} {total}")

    def _head(self, kind: str, name: str, about: str) -> None:
        self._lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def number(value: float) -> str:
    """The shortest text of a number."""
    return str(int(value)) if value == int(value) else repr(value)


def labelled(labels: Labels) -> str:
    """``{name="value",…}``, escaped; nothing for no labels."""
    if not labels:
        return ""
    pairs = (f'{name}="{escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def escaped(value: str) -> str:
    """A label value between quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Scrape(Listener):
    """The handler of GET /metrics."""

    concerns = frozenset((MasterElected, ElectionFailed))

    def __init__(self, context: HttpContext, role: Callable[[], str]) -> None:
        self._context = context
        self._role = role
        context.controller.listeners.add(self)

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """On the leader, what it decided."""
        elections = self._context.metrics.elections
        for _, event in events:
            if event.__class__ is MasterElected or event.__class__ is ElectionFailed:
                result = "new_master_elected" if event.__class__ is MasterElected else "no_master_elected"
                elections[event.cluster, event.broker_set, result] += 1
        if len(elections) > GONE_MAX + 2 * len(self._context.controller.state.broker_sets):
            finished(self._folding())

    def _folding(self) -> Steps[None]:
        """Sets that are gone are counted together, without a name: else new names would be new lines for ever."""
        elections, controller = self._context.metrics.elections, self._context.controller
        for seen, (cluster, name, result) in enumerate(list(elections), start=1):
            found = controller.state.broker_sets.get(name)
            if name and (found is None or found.cluster != cluster):  # It may be folded already, by another scrape.
                elections["", "", result] += elections.pop((cluster, name, result), 0)
            if seen % ELECTIONS_PER_STEP == 0:
                yield

    def metrics(self, call: Call) -> None:
        """Everything, as of now; with ``brokers=0`` without what is told of each broker."""
        make = self._scrape(call.integer("brokers", 1) != 0)
        in_slices(make, self._context.scheduler, lambda made: call.settle(lambda: Response(200, made(), CONTENT_TYPE)))

    def _scrape(self, of_each_broker: bool) -> Steps[bytes]:
        out = Exposition()
        ours_counted(out, self._context.metrics)
        yield
        counts = yield from count_brokers(self._context.controller.view())
        self._ours_now(out, counts)
        yield
        yield from self._disbelieved(out)
        if of_each_broker:
            yield from self._heard(out)
        yield from self._java(out)
        return (yield from out.text())

    def _ours_now(self, out: Exposition, counts: BrokerCounts) -> None:
        context, controller = self._context, self._context.controller
        storage, node = context.storage(), context.node
        info = {"version": node.version, "cluster_id": node.cluster_id, "node": str(node.node_id), **context.info}
        out.gauge("quorate_info", "Always 1; what this node is.", 1, info)
        out.gauge("quorate_leader", "1 on the leader.", context.engine.is_leader)
        out.gauge("quorate_leader_known", "1 while a leader is known here.", context.engine.leader_id is not None)
        out.gauge("quorate_voting", "0 while this node may not vote.", context.engine.voting)
        lost = "How often a follower proved, while this node led, to have lost entries that it had acknowledged."
        out.counter("quorate_followers_that_lost_total", lost, context.engine.followers_that_lost)
        timeout = "The smallest election timeout in force here; it grows with what this node's loop and its leader lag."
        out.gauge("quorate_election_timeout_seconds", timeout, context.engine.election_timeout_s)
        out.gauge("quorate_term", "Raft term.", context.engine.term)
        out.gauge("quorate_commit_index", "Highest Raft index known committed.", context.engine.commit_index)
        out.gauge("quorate_applied_index", "Highest Raft index applied here.", context.engine.applied_index)
        out.gauge("quorate_offset", "Events applied here: the next offset.", controller.offset)
        out.counter("quorate_heartbeats_total", "Broker heartbeats received.", controller.live.beats)
        late = "How far behind the last event's time this node's clock was when it was applied; 0: not behind."
        out.gauge("quorate_clock_behind_seconds", late, context.metrics.clock_behind_ms / 1000)
        out.gauge("quorate_in_flight", "Entries proposed and not yet applied.", controller.in_flight)
        out.gauge("quorate_parked", "Requests waiting for a leader to be known.", controller.parked)
        out.gauge("quorate_storage_bytes", "Size of the data directory.", storage.bytes_on_disk)
        out.gauge("quorate_journal_bytes", "Size of the journal.", storage.journal_bytes)
        out.gauge("quorate_journal_unsynced_seconds", "How long the oldest write waits.", storage.unsynced_for_s)
        without = "Broker sets with members and no master."
        out.gauge("quorate_broker_sets", "Broker sets known.", counts.sets)
        out.gauge("quorate_broker_sets_without_master", without, counts.without_master)
        out.gauge("quorate_brokers", "Brokers known.", counts.replicas)
        out.gauge("quorate_brokers_alive", "Brokers this node hears.", counts.alive or 0)
        out.gauge("quorate_topics", "Topics known.", len(controller.state.topics))
        for name in dict.fromkeys(gauge.name for gauge in context.metrics.gauges):
            same = [gauge for gauge in context.metrics.gauges if gauge.name == name]
            out.add("gauge", f"quorate_{name}", same[0].about, [(gauge.labels, gauge.read()) for gauge in same])

    def _disbelieved(self, out: Exposition) -> Steps[None]:
        """What an election would not believe, before there is one."""
        view, policy, count = self._context.controller.view(), self._context.policy, 0
        for broker_set in view.state.broker_sets.values():
            infos = [
                view.live.info(broker_set.cluster, broker_set.name, replica.broker_id)
                for replica in broker_set.replicas
            ]
            count += sum(
                info is not None and info.epoch - broker_set.master_epoch > policy.max_epoch_jump for info in infos
            )
            yield
        about = "Brokers that report a master epoch too far ahead of their set's to be believed."
        out.gauge("quorate_epochs_not_believed", about, count)

    def _heard(self, out: Exposition) -> Steps[None]:
        """Of each broker that this node heard: how long ago, and how far it is behind its master."""
        view, now_ms = self._context.controller.view(), self._context.scheduler.time_ms()
        silences: list[Sample] = []
        lags: list[Sample] = []
        for name, broker_set in view.state.broker_sets.items():
            cluster = broker_set.cluster
            infos = {one.broker_id: view.live.info(cluster, name, one.broker_id) for one in broker_set.replicas}
            master = None if broker_set.master is None else infos.get(broker_set.master)
            for broker_id, info in infos.items():
                if info is None:
                    continue
                labels = {"cluster": cluster, "broker_set": name, "broker_id": str(broker_id)}
                silences.append((labels, max(0, now_ms - info.last_heartbeat_ms) / 1000))
                if master is not None and master.max_offset >= 0 and info.max_offset >= 0:
                    lags.append((labels, max(0, master.max_offset - info.max_offset)))
            yield
        silence = "How long ago this node last heard the broker."
        yield from _added(out, "quorate_broker_silent_seconds", silence, silences)
        lag = "How much shorter the broker's log is than its master's, as both last reported."
        yield from _added(out, "quorate_broker_lag_bytes", lag, lags)

    def _java(self, out: Exposition) -> Steps[None]:
        """The eight instruments of RocketMQ's controller, with its common labels."""
        context, metrics, node = self._context, self._context.metrics, self._context.node
        common = {"address": node.rpc, "group": node.cluster_id, "peer_id": str(node.node_id)}
        append = {**common, "dledger_operation": "append"}
        ended = {
            "success": metrics.commits,
            "failed": metrics.entries_not_executed,
            "timeout": metrics.unknown_outcomes,
        }
        out.gauge("role", "0 unknown, 1 candidate, 2 follower, 3 leader.", JAVA_ROLES[self._role()], common)
        out.gauge("dledger_disk_usage", "Bytes of the data directory.", context.storage().bytes_on_disk, common)
        yield from self._active_brokers(out, common)
        requests = [
            ({**common, "request_type": kind, "request_handle_status": status}, count)
            for (kind, status), count in sorted(metrics.requests.items())
        ]
        out.add("counter", "request_total", "Remoting requests by type and how they ended.", requests)
        operations = [({**append, "dLedger_operation_status": status}, count) for status, count in ended.items()]
        out.add("counter", "dledger_op_total", "Log operations by how they ended.", operations)
        yield from self._elections(out, common)
        latencies = [
            ({**common, "request_type": kind}, histogram) for kind, histogram in sorted(metrics.request_us.items())
        ]
        out.histogram("request_latency", "Microseconds from request to answer.", latencies, 1)
        out.histogram("dledger_op_latency", "Microseconds from command to commit.", [(append, metrics.commit_us)], 1)

    def _elections(self, out: Exposition, common: Labels) -> Steps[None]:
        """Of every set, and what all that are gone add up to."""
        metrics, samples = self._context.metrics, list[Sample]()
        yield from self._folding()
        for (cluster, name, result), count in (yield from sorting(tuple(metrics.elections.items()))):
            labels = {**common, "cluster": cluster, "broker_set": name, "election_result": result}
            samples.append((labels, count))
            if len(samples) % ELECTIONS_PER_STEP == 0:
                yield
        kept = {**common, "cluster": "", "broker_set": "", "election_result": "keep_current_master"}
        samples.append((kept, metrics.refusals.get("MasterStillExists", 0)))
        yield from _added(out, "election_total", "Elections by result.", samples, kind="counter")

    def _active_brokers(self, out: Exposition, common: Labels) -> Steps[None]:
        view, samples = self._context.controller.view(), []
        for name, broker_set in view.state.broker_sets.items():
            samples.append(({**common, "cluster": broker_set.cluster, "broker_set": name}, living(broker_set, view)))
            yield
        yield from _added(out, "active_broker_num", "Living brokers by set.", samples)


def _added(out: Exposition, name: str, about: str, samples: Sequence[Sample], *, kind: str = "gauge") -> Steps[None]:
    """A metric of as many samples as there are brokers, or sets, some of them a step."""
    for at in range(0, max(len(samples), 1), SAMPLES_PER_STEP):
        out.add(kind, name, about, samples[at : at + SAMPLES_PER_STEP], head=at == 0)
        yield


def ours_counted(out: Exposition, metrics: Metrics) -> None:
    """Our counters and latencies."""
    out.counter("quorate_commits_total", "Commands applied here.", metrics.commits)
    out.counter("quorate_events_total", "Events applied here.", metrics.events)
    out.counter("quorate_entries_not_executed_total", "Entries skipped at apply.", metrics.entries_not_executed)
    out.counter("quorate_forwarded_total", "Requests sent on to the leader.", metrics.forwarded)
    out.counter("quorate_unknown_outcomes_total", "Commands whose end nobody knew in time.", metrics.unknown_outcomes)
    out.counter("quorate_leader_changes_total", "Times a new leader was seen.", metrics.leader_changes)
    pushed = [({"result": "acknowledged"}, metrics.role_changes_acknowledged)]
    pushed += [({"result": "failed"}, metrics.role_changes_failed)]
    out.add("counter", "quorate_role_changes_total", "Role changes pushed to brokers.", pushed)
    refusals = [({"code": code}, count) for code, count in sorted(metrics.refusals.items())]
    out.add("counter", "quorate_refusals_total", "Refused commands.", refusals)
    errors = [({"listener": name}, count) for name, count in sorted(metrics.peer_errors.items())]
    out.add("counter", "quorate_peer_errors_total", "Protocol violations by listener.", errors)
    kafka = [
        ({"api": Api(api).name.lower(), "version": str(version)}, count)
        for (api, version), count in sorted(metrics.kafka_requests.items())
    ]
    out.add("counter", "quorate_kafka_requests_total", "Kafka requests.", kafka)
    out.counter("quorate_kafka_sent_bytes_total", "Bytes of Kafka answers.", metrics.kafka_bytes_out)
    out.counter("quorate_kafka_long_polls_total", "Fetches that waited for events.", metrics.fetch_waits)
    out.counter("quorate_journal_syncs_total", "Syncs of the journal.", metrics.fsyncs)
    out.histogram("quorate_journal_sync_seconds", "How long they took.", [({}, metrics.fsync_us)], 10**6)
    out.histogram("quorate_commit_seconds", "From command to answer, where decided.", [({}, metrics.commit_us)], 10**6)
    served = [({"type": kind}, histogram) for kind, histogram in sorted(metrics.request_us.items())]
    out.histogram("quorate_request_seconds", "Remoting requests, from frame to answer.", served, 10**6)
