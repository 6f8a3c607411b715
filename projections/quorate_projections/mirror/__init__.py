"""The mirror: an exactly-once copy of the event topic into a real Apache Kafka.

Rules: one mirror stands beside each node and copies only while that node leads. The copy's position is kept nowhere
but in the target topic itself: the ``offset`` header of its last committed record. Nothing is skipped, ever: what does
not fit stops the copy and says why.

Theory: every mirror of a cluster has the same transactional id, so opening one fences every other (KIP-98: the
coordinator raises the producer epoch and aborts what was left open). Only *then* is the last committed record looked
up, so nobody can add to it behind our back. A commit whose outcome is unknown is found out in the same way: open again,
look again. Offsets in the target have holes (transaction markers, aborted records); the header is the event's offset.
"""
