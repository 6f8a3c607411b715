"""The reasons to believe the rest."""
