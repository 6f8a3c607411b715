"""The table of all paths: where to add a call."""

from quorate.events import SCHEMAS
from quorate.gateway.first_answers import FirstAnswers
from quorate.gateway.http.answers import (
    Balance,
    BrokerSetAnswer,
    BrokerSets,
    BrokerTopics,
    Check,
    ConfigAnswer,
    Configs,
    Diff,
    Done,
    ElectionAnswer,
    Elections,
    Feature,
    Leases,
    Log,
    MemberAnswer,
    Members,
    Quorum,
    SessionAnswer,
    Sessions,
    Settings,
    ShardAnswer,
    Shards,
    StateHash,
    Status,
    TopicAnswer,
    Topics,
    WhatIfAnswer,
    Wills,
)
from quorate.gateway.http.asking import FRESHNESS, PAGING, Asking
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.exposition import Scrape
from quorate.gateway.http.journal import JournalHandlers
from quorate.gateway.http.leases import LeaseHandlers
from quorate.gateway.http.members import SELECTING, MemberHandlers
from quorate.gateway.http.messages import Response
from quorate.gateway.http.openapi import document
from quorate.gateway.http.probes import Probes
from quorate.gateway.http.reading import ReadHandlers
from quorate.gateway.http.registry import Registry
from quorate.gateway.http.routing import Call, Method, Route, Router
from quorate.gateway.http.sessions import SessionHandlers
from quorate.gateway.http.subjects import Subjects
from quorate.gateway.http.travel import Travel, WhatIfBody
from quorate.gateway.http.writing import (
    ConfigBody,
    ElectBody,
    FeatureBody,
    RebuildBody,
    SegmentElectBody,
    TopicBody,
    WriteHandlers,
)

LIST = (*PAGING, *FRESHNESS)
DIFF = ("from", "to", "events_from", *PAGING)


def interface(context: HttpContext) -> Router:
    """The handler of a node's HTTP listener."""
    asking = Asking(context)
    commands = FirstAnswers(context.controller, context.fresh, context.log, context.scheduler, context.policy)
    reading, writing = ReadHandlers(context, asking), WriteHandlers(context, commands)
    travel, members = Travel(context, asking, reading), MemberHandlers(context, asking)
    routes = [*operator_routes(reading, writing, travel, members), *machine_routes(context, reading)]
    leases = LeaseHandlers(context, asking)
    routes.append(Route("GET", "/v1/leases", leases.leases, "What is left of leases.", Leases, query=("ids", *LIST)))
    routes += held_routes(JournalHandlers(asking), SessionHandlers(asking))
    routes += registry_routes(Subjects(context, asking, commands, SCHEMAS))
    description = document(routes, context.node.version)

    def openapi(call: Call) -> None:
        call.respond(Response(200, description))

    return Router([*routes, Route("GET", "/openapi.json", openapi, "This description.")])


def operator_routes(
    reading: ReadHandlers, writing: WriteHandlers, travel: Travel, members: MemberHandlers
) -> list[Route]:
    """``/v1``."""
    return [
        Route("GET", "/v1/status", reading.status, "The cluster in one sentence.", Status, query=FRESHNESS),
        Route("GET", "/v1/quorum", reading.quorum, "Who votes, who leads.", Quorum, query=FRESHNESS),
        Route("GET", "/v1/state-hash", reading.state_hash, "Hash of the state.", StateHash, query=FRESHNESS),
        Route("GET", "/v1/feature", reading.feature, "The feature level.", Feature, query=FRESHNESS),
        Route("PUT", "/v1/feature", writing.raise_feature, "Raise the feature level.", Done, FeatureBody),
        Route(
            "POST", "/v1/members/{node_id}/rebuild", writing.rebuild, "Name a voter's new directory.", Done, RebuildBody
        ),
        Route("GET", "/v1/brokers", reading.brokers, "Broker sets.", BrokerSets, query=LIST),
        Route("GET", "/v1/brokers/{broker_set}", reading.broker, "One set.", BrokerSetAnswer, query=FRESHNESS),
        Route(
            "GET",
            "/v1/brokers/{broker_set}/topics",
            reading.broker_topics,
            "Its topics, as told here.",
            BrokerTopics,
            query=LIST,
        ),
        Route("GET", "/v1/topics", reading.topics, "Topics.", Topics, query=LIST),
        Route("GET", "/v1/topics/{topic}", reading.topic, "One topic.", TopicAnswer, query=FRESHNESS),
        Route("PUT", "/v1/topics/{topic}", writing.put_topic, "Create or change a topic.", Done, TopicBody),
        Route("DELETE", "/v1/topics/{topic}", writing.delete_topic, "Forget a topic.", Done),
        Route(
            "GET", "/v1/members", members.members, "Members and brokers.", Members, query=("names", *SELECTING, *LIST)
        ),
        Route("GET", "/v1/members/{member}", members.member, "One of them.", MemberAnswer, query=FRESHNESS),
        Route("GET", "/v1/config", reading.configs, "Settings of all scopes.", Configs, query=LIST),
        Route("GET", "/v1/config/{scope...}", reading.config, "Settings of a scope.", ConfigAnswer, query=FRESHNESS),
        Route("PUT", "/v1/config/{scope...}", writing.change_config, "Set and unset.", Done, ConfigBody),
        Route("GET", "/v1/settings", reading.settings, "What is in force at this node.", Settings, query=FRESHNESS),
        Route("GET", "/v1/elections", reading.elections, "The last election of each set.", Elections, query=LIST),
        Route("POST", "/v1/elections", writing.elect, "Elect a master now.", Done, ElectBody),
        Route("GET", "/v1/elections/{offset}", reading.election, "Why that one.", ElectionAnswer, query=FRESHNESS),
        Route("GET", "/v1/log", reading.log, "Events.", Log, query=("from", "limit", *FRESHNESS)),
        Route("GET", "/v1/diff", travel.diff, "What changed between two offsets.", Diff, query=DIFF),
        Route("POST", "/v1/segment-elections", writing.elect_of_segment, "Have it lead.", Done, SegmentElectBody),
        Route("GET", "/v1/balance", travel.balance, "Which leaders would move.", Balance, query=FRESHNESS),
        Route("POST", "/v1/whatif", travel.whatif, "Who would be master if …", WhatIfAnswer, WhatIfBody),
    ]


def held_routes(journal: JournalHandlers, sessions: SessionHandlers) -> list[Route]:
    """What members hold."""
    return [
        Route("GET", "/v1/shards", journal.shards, "Shards.", Shards, query=("prefix", *LIST)),
        Route("GET", "/v1/shards/{shard}", journal.shard, "One of them, its segments.", ShardAnswer, query=LIST),
        Route("GET", "/v1/sessions", sessions.sessions, "Sessions.", Sessions, query=("prefix", "member", *LIST)),
        Route("GET", "/v1/wills", sessions.wills, "Wills to be published.", Wills, query=("member", *LIST)),
        Route("GET", "/v1/sessions/{client}", sessions.session, "One of them.", SessionAnswer, query=FRESHNESS),
    ]


def machine_routes(context: HttpContext, reading: ReadHandlers) -> list[Route]:
    """Probes and metrics."""
    probes, scrape = Probes(context), Scrape(context, reading.role)
    return [
        Route("GET", "/livez", probes.live, "Does the process serve?", Check),
        Route("GET", "/readyz", probes.ready, "Should clients come here?", Check),
        Route("GET", "/quorumz", probes.quorum, "Is there a quorum?", Check),
        Route("GET", "/metrics", scrape.metrics, "Prometheus text.", query=("brokers",)),
    ]


REGISTRY_PARTS = (
    "associations",
    "compatibility",
    "config",
    "contexts",
    "dek-registry",
    "exporters",
    "mode",
    "schemas",
    "subjects",
)
"""First segments of paths that are Confluent's registry's; what is not served there is told in its own shape."""


def registry_routes(registry: Registry) -> list[Route]:
    """Confluent's schema registry."""
    version = "/subjects/{subject}/versions/{version}"
    checked = "/compatibility/subjects/{subject}/versions"
    routes = [
        Route("GET", "/subjects", registry.subjects, "Subjects."),
        Route("POST", "/subjects/{subject}", registry.look_up, "Which version is this schema?"),
        Route("DELETE", "/subjects/{subject}", registry.delete_subject, "Delete all its versions."),
        Route("GET", "/subjects/{subject}/versions", registry.versions, "Versions of a subject."),
        Route("POST", "/subjects/{subject}/versions", registry.register, "Register a schema."),
        Route("GET", version, registry.version, "One version."),
        Route("DELETE", version, registry.delete_version, "Delete it."),
        Route("GET", f"{version}/schema", registry.version_schema, "Its schema alone."),
        Route("GET", f"{version}/referencedby", registry.referenced_by, "Ids of the schemas that name it: none do."),
        Route("GET", "/schemas", registry.schemas, "Every version of every subject."),
        Route("GET", "/schemas/types", registry.types, "Kinds of schemas."),
        Route("GET", "/schemas/ids/{id}", registry.schema, "A schema by id."),
        Route("GET", "/schemas/ids/{id}/schema", registry.bare_schema, "The schema alone."),
        Route("GET", "/schemas/ids/{id}/subjects", registry.schema_subjects, "Whose it is."),
        Route("GET", "/schemas/ids/{id}/versions", registry.schema_versions, "Where it is used."),
        Route("POST", checked, registry.compatible, "Is this schema a version of it?"),
        Route("POST", f"{checked}/{{version}}", registry.compatible, "Is this schema a version of it?"),
        Route("GET", "/contexts", registry.contexts, "Contexts."),
        Route("GET", "/config", registry.compatibility, "Compatibility level."),
        Route("GET", "/config/{subject}", registry.compatibility, "Compatibility level of a subject."),
        Route("PUT", "/config", registry.set_compatibility, "Set it."),
        Route("PUT", "/config/{subject}", registry.set_compatibility, "Set it."),
        Route("DELETE", "/config", registry.unset_compatibility, "Unset it."),
        Route("DELETE", "/config/{subject}", registry.unset_compatibility, "Unset it."),
        Route("GET", "/mode", registry.mode, "Is it read-only?"),
        Route("GET", "/mode/{subject}", registry.mode, "Is it read-only?"),
    ]
    writes: tuple[Method, ...] = ("POST", "PUT", "DELETE")
    for path in ("/subjects/{rest...}", "/config", "/config/{rest...}", "/mode", "/mode/{rest...}"):
        routes += [Route(method, path, registry.refuse, "Refused.") for method in writes]
    for part in REGISTRY_PARTS:
        for path in (f"/{part}", f"/{part}/{{rest...}}"):
            routes.append(Route("GET", path, registry.unknown, "Not here."))
            routes += [Route(method, path, registry.no_such_call, "Not here.") for method in writes]
    return routes
