"""The commands that ask a running node: status, quorum, brokers, topics, config, elections, why, state-hash.

Rules: any node answers for the cluster. Every command says how fresh its answer must be (cli/freshness.py); status,
quorum and state-hash are of the node itself unless told otherwise; state-hash then asks the others too, and compares.
Exit 1 when what was asked about is not well: no leader, a dead controller, a set without a master, a difference; or
when nothing could be compared.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from quorate.cli.changing import change_topic, elect, election_arguments, topic_arguments
from quorate.cli.client import TIMEOUT_S, Node, NodeError, add_node
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.freshness import PATIENCE_S, add_freshness, asked_node, freshness, pages
from quorate.cli.output import add_output, columns, complain, show
from quorate.errors import UsageError
from quorate.events import Candidate
from quorate.gateway.http.answers import (
    BrokerSetItem,
    BrokerSets,
    BrokerTopics,
    ConfigAnswer,
    ConfigItem,
    Configs,
    Done,
    ElectionAnswer,
    Elections,
    Feature,
    Quorum,
    QuorumMember,
    SettingItem,
    Settings,
    StateHash,
    Status,
    Topics,
)
from quorate.gateway.http.writing import ConfigBody, FeatureBody
from quorate.metadata.configs import unread
from quorate.model.election_words import AnyElection, asker, kind_words, rule_words, verdict


def _ask(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser)
    add_freshness(parser)


def status(options: Namespace) -> int:
    """The cluster in one sentence and some figures."""
    answer = asked_node(options).get("/v1/status", Status, **freshness(options))
    figures = msgspec.to_builtins(answer)
    show(figures, options.output, _status_table(answer))
    return DONE if answer.healthy and answer.voters_connected in {None, answer.voters} else REFUSED


def _status_table(answer: Status) -> Iterable[str]:
    yield answer.sentence
    yield ""
    counts = answer.brokers
    rows = [
        ("cluster", answer.cluster_id),
        ("leader", f"node {answer.leader}, term {answer.term}" if answer.leader is not None else "none"),
        *_patience(answer.election_timeout_ms),
        ("voters", _part(answer.voters_connected, answer.voters, f"reachable from node {answer.node}")),
        *([("role", answer.role)] if answer.role else []),
        ("broker sets", f"{counts.sets}, {counts.without_master} without a master"),
        ("brokers", _part(counts.alive, counts.replicas, "alive")),
        ("topics", answer.topics),
        *([("keys", answer.keys), ("leases", answer.leases)] if answer.keys or answer.leases else []),
        *([("members", answer.members)] if answer.members else []),
        *([("schemas", f"{answer.schemas}, {answer.subjects} subjects")] if answer.schemas or answer.subjects else []),
        *([("shards", f"{answer.shards}, {answer.segments} segments")] if answer.shards else []),
        *([("sessions", f"{answer.sessions}, {answer.wills} wills")] if answer.sessions or answer.wills else []),
        ("offset", answer.offset),
        ("version", f"{answer.version}, feature level {answer.feature_level}"),
        *_runs_on(answer),
        *(("alarm", alarm) for alarm in answer.alarms or ()),
        *(("settings", sentence) for sentence in answer.overruled or ()),
    ]
    yield from (f"{name:<12}  {value}" for name, value in rows)


def _runs_on(answer: Status) -> Iterable[tuple[str, str]]:
    """Nothing of a node that does not tell it, and nothing of the past: what was, ran on something else."""
    if answer.python and not answer.past:
        yield "runs on", f"{answer.python}; leaf {answer.leaf}"
    if answer.journal_sync:
        yield "journal", f"synced by {'the kernel' if answer.journal_sync == 'kernel' else 'a thread'}"


def _patience(timeout_ms: int | None) -> Iterable[tuple[str, str]]:
    """How long a silent leader is waited for, at the least; of the past that is not known."""
    if timeout_ms is not None:
        yield "elections", f"after {timeout_ms} ms of silence, at the earliest"


def _part(known: int | None, all_of_them: int, which: str) -> object:
    """A count from heartbeats or connections; of the past it is not known."""
    return all_of_them if known is None else f"{known} of {all_of_them} {which}"


def quorum(options: Namespace) -> int:
    """The voters and the leader."""
    answer = asked_node(options).get("/v1/quorum", Quorum, **freshness(options))
    rows = [(v.id, _role(v, answer), v.connected, v.rpc, v.raft, v.kafka, v.http, v.version) for v in answer.voters]
    header = ("node", "role", "reachable", "rpc", "raft", "kafka", "http", "version")
    show(msgspec.to_builtins(answer), options.output, columns(header, rows))
    reachable = sum(voter.connected is not False for voter in answer.voters)
    return DONE if answer.leader is not None and reachable > len(answer.voters) // 2 else REFUSED


def _role(voter: QuorumMember, answer: Quorum) -> str:
    """Of the node that answers what it says itself; of another it knows only whether it leads."""
    told = answer.role if voter.id == answer.node else None
    return told or ("leader" if voter.leader else "follower")


def brokers(options: Namespace) -> int:
    """Broker sets and their replicas; or the topics of one."""
    if options.topics and not options.broker_set:
        raise UsageError("--topics are of one set: name it")
    items = [item for page in pages(options, "/v1/brokers", BrokerSets) for item in page.brokers]
    if options.broker_set:
        items = [item for item in items if item.broker_set == options.broker_set]
        if not items:
            raise NodeError(f"there is no broker set {options.broker_set}")
    if options.topics:
        return _told_topics(options)
    header = ("set", "epoch", "id", "address", "role", "in sync", "alive", "fenced", "log end", "capabilities")
    rows = [row for item in items for row in _replica_rows(item)]
    show([msgspec.to_builtins(item) for item in items], options.output, columns(header, rows))
    return REFUSED if any(item.replicas and item.master is None for item in items) else DONE


def _told_topics(options: Namespace) -> int:
    """Which topics a set has, as its brokers told the node that is asked, or else another; or the log's names."""
    answers = _asked_topics(options)
    if answers[0].source == "log" and options.at is None:
        answers = next(_elsewhere(options, answers[0].node), answers)
    version = answers[0].version
    for broker in answers[0].brokers:
        complain(f"{broker.broker_id} at {broker.address}: heard {broker.silent_for_ms} ms ago")
    names = [name for page in answers for name in page.names]
    if version is None:
        whence = "these are the names they registered with" if names else "none registered with topics either"
        complain(f"no broker of it has told this node its topics: {whence}")
    else:
        complain(f"data version: state {version.state_version}, {version.timestamp_ms}, counter {version.counter}")
    header = ("topic", "read", "write", "permission", "type", "order", "attributes")
    rows = [
        (t.topic, t.read_queues, t.write_queues, t.permission, t.filter_type, t.order,
         [f"{k}={v}" for k, v in t.attributes.items()])
        for page in answers for t in page.topics
    ]  # fmt: skip
    table = columns(header, rows) if version else names
    show([msgspec.to_builtins(page) for page in answers], options.output, table)
    return DONE


def _asked_topics(options: Namespace) -> list[BrokerTopics]:
    path = f"/v1/brokers/{quote(options.broker_set, safe='')}/topics"
    return list(pages(options, path, BrokerTopics))


def _elsewhere(options: Namespace, asked: int) -> Iterator[list[BrokerTopics]]:
    """What brokers told other nodes than the one that was asked, the leader first."""
    voters = Node(options.node).get("/v1/quorum", Quorum, level="stale").voters
    for voter in sorted(voters, key=lambda voter: not voter.leader):
        with suppress(NodeError):
            if voter.id != asked:
                found = _asked_topics(Namespace(**{**vars(options), "node": voter.http}))
                if found[0].source == "brokers":
                    complain(f"brokers told node {voter.id}, not node {asked}")
                    yield found


def _replica_rows(item: BrokerSetItem) -> Iterator[tuple[object, ...]]:
    for replica in item.replicas:
        role = "master" if replica.broker_id == item.master else "replica" if replica.registered else "unregistered"
        alive = "unheard" if replica.alive is None else replica.alive
        said = [f"{name}={value}" for name, value in replica.capabilities.items()]
        state = (role, replica.in_sync, alive, replica.fenced, replica.max_offset, said)
        yield (item.broker_set, item.master_epoch, replica.broker_id, replica.address, *state)


def topics(options: Namespace) -> int:
    """Topics and their settings; or change one."""
    if options.action:
        return change_topic(options)
    items = [item for page in pages(options, "/v1/topics", Topics) for item in page.topics]
    header = ("topic", "read", "write", "permission", "order", "attributes")
    rows = [
        (t.topic, t.read_queues, t.write_queues, t.permission, t.order, [f"{k}={v}" for k, v in t.attributes.items()])
        for t in items
    ]
    show([msgspec.to_builtins(item) for item in items], options.output, columns(header, rows))
    return DONE


def config(options: Namespace) -> int:
    """Show the settings in force and their source, or those of a scope of the log; or change some there."""
    node = asked_node(options)
    if options.changes and options.at is not None:
        raise UsageError("the past cannot be changed")
    if options.changes:
        body = ConfigBody(changes=dict(_change(text) for text in options.changes), unread=options.unread)
        if not options.unread and (reason := unread(options.scope, body.changes)):
            raise UsageError(f"{reason}. --unread records it all the same")
        done = node.send("PUT", f"/v1/config/{quote(options.scope, safe='/')}", body, Done)
        complain(f"committed; true from offset {done.offset}")
    if options.scope:
        items = [node.get(f"/v1/config/{quote(options.scope, safe='/')}", ConfigAnswer, **freshness(options)).config]
    else:
        items = [item for page in pages(options, "/v1/config", Configs) for item in page.config]
        if options.at is None and (own := _in_force(node, items)) is not None:
            rows = [(item.name, item.value, item.source) for item in own]
            show(msgspec.to_builtins(own), options.output, columns(("setting", "value", "from"), rows))
            return DONE
    rows = [(item.scope, name, value) for item in items for name, value in sorted(item.values.items())]
    show([msgspec.to_builtins(item) for item in items], options.output, columns(("scope", "setting", "value"), rows))
    return DONE


def _in_force(node: Node, logged: Iterable[ConfigItem]) -> list[SettingItem] | None:
    """The settings in force at the node, and the others in the log; None where a build does not tell."""
    try:
        settings = node.get("/v1/settings", Settings).settings
    except NodeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    more = [
        SettingItem(name=f"{item.scope} {name}", value=value, source=f"log, scope {item.scope}")
        for item in logged
        for name, value in sorted(item.values.items())
    ]
    return [*settings, *more]


def feature(options: Namespace) -> int:
    """The feature level: show it, or raise it once every voter knows the new one."""
    node = asked_node(options)
    if options.action == "raise":
        if options.at is not None:
            raise UsageError("the past cannot be changed")
        before = node.get("/v1/feature", Feature)
        wanted = before.highest if options.level is None else options.level
        done = node.send("PUT", "/v1/feature", FeatureBody(level=wanted), Done)
        raised = f"committed; level {wanted} from offset {done.offset}"
        complain(f"level {wanted} is in force already" if wanted == before.level else raised)
    elif options.level is not None:
        raise UsageError("feature show takes no level")
    answer = node.get("/v1/feature", Feature, **freshness(options))
    rows = [(n.id, f"{n.feature_min} to {n.feature_max}" if n.feature_max else "never started") for n in answer.nodes]
    line = f"feature level {answer.level}; every voter knows {answer.highest}"
    show(msgspec.to_builtins(answer), options.output, [line, *columns(("node", "knows levels"), rows)])
    return DONE


def _change(text: str) -> tuple[str, str | None]:
    """``name=value`` sets, ``name=`` unsets."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text}: expected NAME=VALUE, or NAME= to unset")
    return name, value or None


def elections(options: Namespace) -> int:
    """The latest election of each set; or have one."""
    if options.action:
        return elect(options)
    items = [item for page in pages(options, "/v1/elections", Elections) for item in page.elections]
    rows = [
        (i.broker_set, e.offset, i.master, i.master_epoch, rule_words(e.decided_by), e.explanation)
        for i, e in ((item, item.election) for item in items)
    ]
    header = ("set", "offset", "master", "epoch", "decided by", "why")
    show([msgspec.to_builtins(item) for item in items], options.output, columns(header, rows))
    return DONE


def why(options: Namespace) -> int:
    """Why that broker is the master, and why the others are not."""
    node, offset = asked_node(options), options.offset
    if offset is None:
        items = [item for page in pages(options, "/v1/elections", Elections) for item in page.elections]
        offset = next((item.election.offset for item in items if item.broker_set == options.broker_set), None)
        if offset is None:
            raise NodeError(f"broker set {options.broker_set} never had an election")
    answer = node.get(f"/v1/elections/{offset}", ElectionAnswer, **freshness(options))
    event = answer.election.event
    if event.broker_set != options.broker_set:
        raise NodeError(f"the election at offset {offset} was of broker set {event.broker_set}")
    show(msgspec.to_builtins(answer), options.output, explain(event))
    return DONE


def explain(event: AnyElection) -> Iterable[str]:
    """An election as an operator reads it: the reason, then every candidate and where it fell."""
    yield event.explanation
    epoch = f"epoch {event.master_epoch}, old master {event.old_master or 'none'}"
    cause, asked = kind_words(event.evidence or event.trigger), f"asked by {asker(event.trigger)}"
    yield f"{epoch}; {asked}" if cause == asked else f"{epoch}; cause: {cause}; {asked}"
    yield ""
    header = ("broker", "verdict", "alive", "in sync", "epoch", "log end", "confirmed", "priority")
    yield from columns(header, (_candidate_row(candidate, event) for candidate in event.candidates))


def _candidate_row(candidate: Candidate, event: AnyElection) -> tuple[object, ...]:
    priority = "-" if candidate.priority == JAVA_INT_MAX else candidate.priority
    log = (candidate.epoch, candidate.max_offset, candidate.confirm_offset)
    return candidate.broker_id, verdict(candidate, event), candidate.alive, candidate.in_sync, *log, priority


JAVA_INT_MAX = 2**31 - 1
"""The election priority that brokers report when none is set."""


def state_hash(options: Namespace) -> int:
    """Compare the state hash of every node that can be reached, where they reflect the same offset."""
    first, fresh = asked_node(options), freshness(options)
    answers = [first.get("/v1/state-hash", StateHash, **fresh)]
    voters = [] if options.only else first.get("/v1/quorum", Quorum, level="stale").voters
    others = {voter.id: voter.http for voter in voters if voter.id != answers[0].node}
    same = fresh if options.at is not None else {"min_offset": answers[0].offset}
    told, silent = _hashes(others, TIMEOUT_S if options.at is None else PATIENCE_S, same)
    if told and _compared_nothing([*answers, *told]):  # A busy log: each was further than the one before.
        told, silent = _hashes(others, PATIENCE_S, {"at": answers[0].offset})
    answers += told
    rows = [(answer.node, answer.offset, answer.rows, _hidden(answer.index), answer.hash or "-") for answer in answers]
    header = ("node", "offset", "entities", "index", "with requests and groups")
    agreed = [] if options.only else ["", *agreement(answers)]
    show([msgspec.to_builtins(a) for a in answers], options.output, [*columns(header, rows), *agreed])
    wrong = [*differing(answers, "offset", "rows"), *differing(answers, "index", "hash")]
    if len(voters) > 1 and _compared_nothing(answers):
        wrong.append("nothing was compared: no two nodes answered at one offset; --at N asks all of them for the same")
    for sentence in (*silent, *wrong):
        complain(sentence)
    return REFUSED if wrong else DONE


def _hashes(
    nodes: Mapping[int, str], timeout_s: float, query: Mapping[str, object]
) -> tuple[list[StateHash], list[str]]:
    """What each of these nodes answers, and a sentence for each that does not."""
    answers, silent = [], []
    for number, address in nodes.items():
        try:
            answers.append(Node(address, timeout_s).get("/v1/state-hash", StateHash, **query))
        except NodeError as error:
            reason, *_ = str(error).splitlines()  # What else it says is for who reached no node at all.
            silent.append(f"node {number} is not compared: {reason}")
    return answers, silent


def _compared_nothing(answers: Sequence[StateHash]) -> bool:
    return len({answer.offset for answer in answers}) == len(answers)


def agreement(answers: Iterable[StateHash]) -> Iterator[str]:
    """For each offset, which nodes agree and which differ."""
    by_offset: dict[int, list[StateHash]] = {}
    for answer in answers:
        by_offset.setdefault(answer.offset, []).append(answer)
    for offset, those in sorted(by_offset.items()):
        names = ", ".join(str(answer.node) for answer in those)
        if len(those) == 1:
            yield f"node {names} alone is at offset {offset}: not compared"
        elif len({answer.rows for answer in those}) == 1:
            yield f"nodes {names} agree at offset {offset}"
        else:
            yield f"nodes {names} do not agree at offset {offset}"


def _hidden(value: object) -> object:
    return "-" if value is None else value


def differing(answers: Iterable[StateHash], place: str, name: str) -> Iterator[str]:
    """Nodes that reflect the same ``place`` of the log and yet add up to something else, a sentence for each place."""
    by_place: dict[object, dict[object, list[int]]] = {}
    for answer in answers:
        if getattr(answer, name) is not None:
            by_place.setdefault(getattr(answer, place), {}).setdefault(getattr(answer, name), []).append(answer.node)
    for at, nodes in by_place.items():
        if len(nodes) > 1:
            sides = " and ".join(", ".join(map(str, side)) for side in nodes.values())
            yield f"nodes differ at {place} {at}: {sides}"


def _with(*more: Callable[[ArgumentParser], object]) -> Callable[[ArgumentParser], None]:
    def arguments(parser: ArgumentParser) -> None:
        _ask(parser)
        for add in more:
            add(parser)

    return arguments


def _broker_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("broker_set", nargs="?", metavar="SET")
    parser.add_argument("--topics", action="store_true", help="the topics its brokers told the node that is asked")


def _config_arguments(parser: ArgumentParser) -> None:
    scopes = "controller, cluster, node/ID, broker-set/NAME, topic/NAME, subject/NAME"
    parser.add_argument("scope", nargs="?", help=scopes)
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE", help="NAME= unsets")
    parser.add_argument("--unread", action="store_true", help="record also what nothing reads, as a note")


def _feature_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show", "raise"), default="show")
    parser.add_argument("level", nargs="?", type=int, help="default: the highest that every voter knows")


def _why_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("broker_set", metavar="SET")
    parser.add_argument("--offset", type=int, help="of the election; default: the latest")


STATUS = Command(_with(), status)
QUORUM = Command(_with(), quorum)
BROKERS = Command(_with(_broker_arguments), brokers)
TOPICS = Command(_with(topic_arguments), topics)
CONFIG = Command(_with(_config_arguments), config)
FEATURE = Command(_with(_feature_arguments), feature)
ELECTIONS = Command(_with(election_arguments), elections)
WHY = Command(_with(_why_arguments), why)
STATE_HASH = Command(
    _with(lambda parser: parser.add_argument("--only", action="store_true", help="of the node that is asked")),
    state_hash,
)
