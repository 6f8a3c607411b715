"""The rules by which commands become events: pure values and functions, no clock, no chance, no I/O."""
