"""The gRPC edge: etcd's KV, Watch, Lease, Cluster and Maintenance, our own services (cluster, members, journal, MQTT,
offsets), health and reflection, on any node (docs/grpc.md).

Rules: no decision is made here. A write becomes one command, a read one view of the state, a watch a reading of what
was applied; messages become ours in ``messages``, refusals and outcomes become gRPC's codes in ``codes``.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# For our own clients, who have their messages from here: their library would write to stderr what it thinks of a node.
