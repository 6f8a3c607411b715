"""All cases, in the order in which they are told."""

from tests.etcd.registry import CASES
from tests.etcd.subjects import (
    bad_input,
    cluster,
    deletes,
    expiry,
    leases,
    puts,
    ranges,
    revisions,
    transactions,
    watches,
)

SUBJECTS = (ranges, puts, deletes, transactions, revisions, leases, expiry, watches, cluster, bad_input)

__all__ = ["CASES", "SUBJECTS"]
