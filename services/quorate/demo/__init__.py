"""The demonstration: a cluster with simulated brokers and faults, told as it happens."""
