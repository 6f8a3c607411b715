"""The cases by name: ``<subject>: <what it is about>``; every case is a function of a ``Teller``."""

from typing import Final

from tests.etcd.teller import Case

CASES: Final[dict[str, Case]] = {}


def case(function: Case) -> Case:
    """Take a function as a case, called as it is."""
    add(function.__name__.replace("_", " ").strip(), function)
    return function


def add(name: str, function: Case) -> None:
    """Take a case under a name of its own; the module it comes from names the subject."""
    subject = function.__module__.rpartition(".")[2]
    full = f"{subject}: {name}"
    assert full not in CASES, full
    CASES[full] = function
