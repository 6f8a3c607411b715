"""``/openapi.json``: the table of routes and the types of the answers, as OpenAPI 3.1."""

from collections.abc import Sequence
from typing import Any

import msgspec

from quorate.gateway.http.answers import Failed
from quorate.gateway.http.messages import JSON
from quorate.gateway.http.routing import Route

INTEGERS = frozenset({"at", "events_from", "from", "limit", "min_offset", "to"})
CHOICES = {"level": ["linearizable", "at_least", "stale"]}


def document(routes: Sequence[Route], version: str) -> bytes:
    """The description of every route that says what it answers."""
    described = [route for route in routes if route.answer is not None]
    types = list(dict.fromkeys([t for r in described for t in (r.answer, r.body) if t is not None] + [Failed]))
    references, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(types, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        paths.setdefault(route.pattern.replace("...}", "}"), {})[route.method.lower()] = _operation(route, schemas)
    info = {"title": "Quorate", "version": version, "description": "An event-sourced cluster controller."}
    return msgspec.json.encode(
        {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}}
    )


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    parameters = [
        {"name": part.strip("{}.").removesuffix("..."), "in": "path", "required": True, "schema": {"type": "string"}}
        for part in route.pattern.split("/")
        if part.startswith("{")
    ]
    parameters += [{"name": name, "in": "query", "schema": _schema(name)} for name in route.query]
    if route.method != "GET":
        parameters.append({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}})
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.handler.__name__}",
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {JSON: {"schema": schemas[route.answer]}}},
            "default": {"description": "Why not.", "content": {JSON: {"schema": schemas[Failed]}}},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas[route.body]}}}
    return operation


def _schema(name: str) -> dict[str, Any]:
    """Of a query parameter."""
    if name in CHOICES:
        return {"type": "string", "enum": CHOICES[name]}
    return {"type": "integer" if name in INTEGERS else "string"}
