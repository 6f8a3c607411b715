"""What is true in the cluster and who may change it: pure values and functions, no clock, no chance, no I/O."""
