"""docker-compose.yml is one a Docker engine would take, and keeps the house's promises about images and health."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PINNED = re.compile(r"^[a-z/]+:\d+\.\d+(\.\d+)?(-[a-z]+)?$")


def test_it_follows_the_compose_specification() -> None:
    """The file validates against the schema of the Compose Specification; a misspelt key would not."""
    schema = json.loads((ROOT / "tests/data/compose-spec.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    validator.validate(COMPOSE)
    wrong = json.loads(json.dumps(COMPOSE))
    wrong["services"]["kafka"]["helthcheck"] = {}
    assert not validator.is_valid(wrong)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_pinned_and_watched(name: str) -> None:
    """An image of others has an exact version, ours is built from this tree; each service has a health check."""
    service = SERVICES[name]
    if "build" in service:
        stages = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        assert service["build"]["target"] in stages
        assert service["image"] == f"quorate:{service['build']['target']}"
    else:
        assert PINNED.match(service["image"]), service["image"]
    assert service["healthcheck"]["test"][0] == "CMD"


def test_every_named_volume_and_host_is_there() -> None:
    """What a service mounts or waits for exists, and every host a command names is a service."""
    text = (ROOT / "docker-compose.yml").read_text() + (ROOT / "docs/examples/broker.conf").read_text()
    hosts = set(re.findall(r"[\"@,; =]([a-z][a-z0-9-]*):\d{4}", text))
    assert hosts <= SERVICES.keys(), hosts - SERVICES.keys()
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= SERVICES.keys()
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or source.startswith("./")


def test_the_images_come_from_the_locks() -> None:
    """The Dockerfile starts from an exact Python and installs only with hashes."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^FROM python:3\.11\.\d+-slim-\w+ AS node$", text, re.MULTILINE)
    installs = re.findall(r"pip install [^\n]*", text)
    assert installs
    assert all("--require-hashes" in line or line.endswith("--no-deps . \\") for line in installs)


def test_nothing_is_published_off_loopback() -> None:
    """Published ports are bound to 127.0.0.1: the composition has neither TLS nor authentication."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
