"""The deterministic simulator: production code in virtual time, under faults (docs/simulator.md)."""
