"""Every error of the schema registry as Confluent says it: a status, a code and a text.

Rules: one table. 50002 means that nobody knows what became of a write, 50003 that nothing was done.
Source: ``io.confluent.kafka.schemaregistry.rest.exceptions.Errors`` of 7.9.
"""

from collections.abc import Mapping
from typing import Final

from quorate.gateway.fresh import NotFresh
from quorate.gateway.http.messages import STATUS, HttpError
from quorate.metadata.commands import Refusal

Error = tuple[int, int, str]

SCHEMA_UNKNOWN: Final = (404, 40403, "Schema not found")
INVALID_SCHEMA: Final = 42201
NOT_PERMITTED: Final = 42205
TIMED_OUT: Final = 50002
NOT_FORWARDED: Final = 50003
VERSION_INVALID: Final = "is not a valid version id. Allowed values are between [1, 2^31-1] and the string"
REFUSALS: Final[Mapping[str, int]] = {
    "InvalidSubject": 42208,
    "ReservedSubject": NOT_PERMITTED,
    "InvalidSchema": INVALID_SCHEMA,
    "SchemaIncompatible": 409,
    "SchemaTooLarge": INVALID_SCHEMA,
    "TooManySchemas": NOT_PERMITTED,
    "SubjectNotFound": 40401,
    "SubjectDeleted": 40404,
    "SubjectNotDeleted": 40405,
    "VersionNotFound": 40402,
    "VersionDeleted": 40406,
    "VersionNotDeleted": 40407,
    "UnsupportedFeatureLevel": NOT_PERMITTED,
    "InvalidConfigScope": 42208,
    "InvalidConfigValue": 42203,
    "CommandTooLarge": INVALID_SCHEMA,
    "NoRoom": 50001,
    "CallFailed": 50001,
    "RequestExpired": TIMED_OUT,
}
"""Every refusal as Confluent's error code; others are 422."""


def refused(refusal: Refusal) -> Error:
    """What a refusal is here."""
    return error(REFUSALS.get(refusal.code, 422), refusal.remark)


def error(code: int, message: str) -> Error:
    """By its code, whose first digits are the status."""
    return (code // 100 if code > 999 else code, code, message)


def failed(trouble: HttpError) -> Error:
    """What an error of the one vocabulary is here."""
    return error(STATUS[trouble.trouble.code], trouble.trouble.message)


def not_fresh(reason: NotFresh) -> Error:
    """Why a state could not be had."""
    match reason.reason:
        case "behind":
            return error(TIMED_OUT, f"Operation timed out: {reason.message}")
        case "busy" | "unavailable":
            return error(NOT_FORWARDED, reason.message)
        case other:
            return error(STATUS[other], reason.message)


def no_version(version: str) -> Error:
    """What is no text of a version."""
    return (422, 42202, f"The specified version '{version[:40]}' {VERSION_INVALID} \"latest\"")


def unknown(subject: str) -> Error:
    """A subject without versions that are not deleted."""
    return (404, 40401, f"Subject '{subject[:80]}' not found.")
