"""Folds that views of state had before they were questions to the model: its judges."""

from tests.projections.former import broker_availability, broker_sets, configs, routes, topics

__all__ = ["broker_availability", "broker_sets", "configs", "routes", "topics"]
