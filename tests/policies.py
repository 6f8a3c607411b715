"""Policies that tests compare ours with."""

from typing import Final

from quorate.metadata.policy import PolicySettings

JAVA: Final = PolicySettings(
    offset_comparison_64_bit=False,
    single_epoch_bump_on_failed_election=False,
    epoch_floor_from_reports=False,
    first_election_registered_only=False,
    no_failed_first_election=False,
    exclude_learners=False,
    clean_living_keeps_unlisted=False,
    no_half_known_sets=False,
    living_broker_keeps_address=False,
    elect_moved_master_anew=False,
    positive_broker_ids=False,
)
"""The Java controller's behaviour, defects included."""
