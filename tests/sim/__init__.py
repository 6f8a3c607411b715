"""The deterministic simulator: production consensus and controller code in virtual time, under faults (docs/simulator.md)."""
