"""Planted bugs of one line each: production's text, with that line changed (``planting``)."""

from typing import Any, Final

import msgspec

from quorate.consensus.journal import journal
from quorate.consensus.journal import recovery as journal_recovery
from quorate.consensus.journal.journal import Journal
from quorate.consensus.journal.read_back import ReadBack
from quorate.consensus.raft import follower, replication, staging
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.election_timing import ElectionTiming
from quorate.consensus.raft.elections import Elections
from quorate.consensus.raft.flow import PeerFlow
from quorate.consensus.raft.founding import Founding
from quorate.consensus.raft.install import Installer
from quorate.consensus.raft.lives import Lives
from quorate.consensus.raft.membership import Membership
from quorate.consensus.raft.pysyncobj_engine import _Core
from quorate.consensus.raft.read_rounds import ReadRounds
from quorate.consensus.raft.reads import Reads
from quorate.consensus.raft.rejoin import Rejoin
from quorate.consensus.raft.snapshots import Trimmer
from quorate.consensus.storage import directory
from quorate.consensus.storage.directory import Directory
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.scrub import Scrub
from quorate.consensus.transport import hello
from quorate.controller import deciding, space
from quorate.controller.deciding import Decider
from quorate.controller.endings import Endings
from quorate.controller.group_writer import GroupWriter
from quorate.controller.lease_keeper import LeaseKeeper
from quorate.controller.machine import ReplicatedState
from quorate.controller.member_keeper import MemberKeeper
from quorate.controller.segment_keeper import SegmentKeeper
from quorate.controller.session_keeper import SessionKeeper
from quorate.controller.space import DiskSpace
from quorate.gateway.grpc.watching import WatchHub, WatchStream
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.offsets import GroupOffsets
from quorate.metadata import cluster, members, segment_elections, sessions, wills
from quorate.metadata import journal as journal_rules
from quorate.metadata.commands import ElectMaster, FenceBroker, HandOverWills, RaiseFeatureLevel, RegisterMember
from quorate.metadata.decide import DECIDERS
from quorate.model import evolve, evolve_sessions, segments
from quorate.node import compose
from quorate.node.compose import Core
from quorate_projections.mirror.copying import MirrorCopier
from quorate_projections.store import RowStore
from tests.sim import nodes
from tests.sim.planting import Mutant, edit, swap, together
from tests.sim.replay import other_hash_seed

UNIT: Final = "tests/unit"


def _majority_founds() -> None:
    edit(Elections, "ask", "self.timing.unanimous = not membership.founding.founded", "pass")()
    edit(Elections, "campaign", "self.timing.unanimous = not founding.founded", "pass")()


def _foreign_journal_read() -> None:
    for module in (journal_recovery, compose):
        swap(module, "check_owner", lambda _disk, _owner: None)


def _life_before_its_journal() -> None:
    edit(
        nodes,
        "open_directory",
        """        # That it has begun is written after the journal was made: who has lived must find a journal.
        opened = open_journal(must_exist=directory.voter.begun)
""",
        """        begun = directory.voter.begun
        directory.save(begun=True)
        opened = open_journal(must_exist=begun)
""",
    )()


def _wills_without_topics() -> None:
    for module in (wills, sessions):
        swap(module, "will_bytes", lambda will: len(will.payload))


def _by_hash_order() -> None:
    """How many queues a topic has depends on which of some names a process meets first."""
    original = evolve._topic

    def topic(event: Any) -> Any:
        first = next(iter({event.topic, "one", "another"}))
        return msgspec.structs.replace(original(event), read_queues=1 + len(first))

    swap(evolve, "_topic", topic)


def _raised_unasked() -> None:
    edit(
        cluster, "raise_feature_level", "for voter in state.cluster.voters:", "for voter in state.cluster.voters[:1]:"
    )()
    deciders: Any = DECIDERS
    deciders[RaiseFeatureLevel] = cluster.raise_feature_level


def _two_of_one_name() -> None:
    edit(members, "register_member", "is not False", "is not context.members.alive(before.name, before.epoch)")()
    deciders: Any = DECIDERS
    deciders[RegisterMember] = members.register_member


def _taken_from_the_living() -> None:
    edit(wills, "hand_over_wills", "is not None:", "is None:")()
    deciders: Any = DECIDERS
    deciders[HandOverWills] = wills.hand_over_wills


EDITED: Final[dict[str, Mutant]] = {
    "another life is added": Mutant(
        "a member that lost what it held is in sync by a word about its life before, and may lead",
        edit(journal_rules, "_ready", "return fit(state, member, epoch) and", "return"),
        test=f"{UNIT}/metadata/test_journal.py::test_a_copy_is_added_in_the_life_that_the_leader_saw",
    ),
    "another life leads": Mutant(
        "a member that registered anew is held for the one that was in sync",
        edit(segment_elections, "_stand", "held == member.epoch, held not in", "held is not None, held not in"),
        test=f"{UNIT}/metadata/test_segment_elections.py::test_another_life_of_a_member_holds_nothing",
    ),
    "who was deposed ends a segment": Mutant(
        "a segment is sealed where a former leader says, before what was acknowledged since",
        edit(
            journal_rules, "_fenced", "if not found.leader or by.leader != found.leader:", "return None\n    if True:"
        ),
        test=f"{UNIT}/metadata/test_journal.py::test_only_the_leader_says_where_a_segment_ends",
    ),
    "the last copy leaves": Mutant(
        "a member that is to leave and leads nothing may go with the last copy in sync of a segment",
        edit(segments, "_is_last", "return mine and", "return False and"),
        test=f"{UNIT}/metadata/test_journal.py::test_who_has_the_last_copy_in_sync_may_not_leave",
    ),
    "a segment without a leader": Mutant(
        "whoever leads segments may be fenced, and nobody follows",
        edit(SegmentKeeper, "_elect", "if needed:", "if False:"),
        test=f"{UNIT}/controller/test_segment_keeper.py::test_a_fenced_leader_is_replaced_soon",
    ),
    "who is gone is waited for": Mutant(
        "a deletion does not end when a member that had a copy is gone for good",
        edit(SegmentKeeper, "committed", "case ShardDeleting():", "case ShardDeleting() if False:"),
        test=f"{UNIT}/controller/test_segment_keeper.py::test_deletions_end_without_those_that_are_gone",
    ),
    "a snapshot of what is left": Mutant(
        "rows that the leader's store lost are missing in its snapshot, and nobody is told",
        edit(ReplicatedState, "_as_written", "if joined(total) != mark.whole:", "if False:"),
        test=f"{UNIT}/controller/test_group_writer.py::test_a_row_that_the_store_lost_is_not_sent_as_the_state",
    ),
    "a level raised unasked": Mutant(
        "the feature level is raised without every voter having said that it knows it", _raised_unasked
    ),
    "leases of the leader before": Mutant(
        "a new leader knows nothing of leases it did not grant",
        edit(LeaseKeeper, "opened", "begin(self._state().leases, PER_TURN)", "begin((), PER_TURN)"),
    ),
    "a lease not renewed": Mutant(
        "the holder of a lease is told that it is kept, and its time runs on",
        edit(LeaseKeeper, "heard", "watched.due = watched.ends = now + found.ttl_s", "pass"),
    ),
    "leases begin anew": Mutant(
        "under every leader a lease has its whole time once more, whatever was written down of it",
        edit(LeaseKeeper, "_left_s", "if not lease.remaining_s:", "if True:"),
        test=f"{UNIT}/controller/test_lease_keeper.py",
    ),
    "short leaderships forgotten": Mutant(
        "a leader that did not lead for long leaves no word of the leases whose holders it did not hear",
        edit(LeaseKeeper, "_take_up", "self._note(watched)", "pass"),
        test=f"{UNIT}/controller/test_lease_keeper.py",
    ),
    "a keep-alive unconfirmed": Mutant(
        "a leader that may be none any more says that a lease is kept",
        edit(
            Decider,
            "decide",
            "if isinstance(pending.request, KeepLease):",
            "if isinstance(pending.request, KeepLease) and not decision.events:\n"
            "        self._settle(pending, Answered(decision.reply, tip.offset))\n"
            "        self._leases.heard(pending.request.lease)\n"
            "        return True\n"
            "    if isinstance(pending.request, KeepLease):",
        ),
    ),
    "a lease ends without its keys": Mutant(
        "a key goes on under a lease that ended",
        edit(evolve, "without_key", "left = attached[lease].delete(name)", "left = attached[lease]"),
    ),
    "compared with what is applied": Mutant(
        "a transaction is decided on what is applied, and what is proposed before it counts for nothing",
        edit(
            Decider,
            "decide",
            "decision = decide(tip.state,",
            "decision = decide(self._machine.state if type(pending.request).__name__ == 'Transact' else tip.state,",
        ),
    ),
    "an expiry forgotten": Mutant(
        "the end of a lease that could not be decided is not tried again",
        edit(LeaseKeeper, "_end", "self._agenda.add(RETRY_S, watched)", "pass"),
        test=f"{UNIT}/controller/test_lease_keeper.py",
    ),
    "members of the leader before": Mutant(
        "a new leader knows nothing of members that registered with another",
        edit(MemberKeeper, "opened", "following(self._state().member_names)", "iter(())"),
    ),
    "a heartbeat not counted": Mutant(
        "a member is answered that it is heard, and its time runs on",
        edit(MemberKeeper, "heard", "found.seen = found.heard =", "found.heard ="),
    ),
    "a word answered before its time": Mutant(
        "a heartbeat is answered by the tip, and does not wait until that is committed",
        together(
            edit(Decider, "decide", "if decide(applied.state, pending.request, context) == decision:", "if True:"),
            edit(Decider, "_untouched", "is applied.members.get(name)", "is not None"),
        ),
        test=f"{UNIT}/controller/test_member_keeper.py::test_a_heartbeat_waits_for_what_is_in_flight_about_its_member",
    ),
    "fenced and back unseen": Mutant(
        "a member that is fenced and unfenced in flight is answered of what is applied, where it is unfenced too",
        edit(Decider, "_untouched", "is applied.members.get(name)", "is not None"),
        test=f"{UNIT}/controller/test_member_keeper.py"
        "::test_who_is_fenced_and_heard_again_in_flight_is_told_when_both_are_sure",
    ),
    "a full queue hears nobody": Mutant(
        "a heartbeat is thrown away where there is no room for what is written, though it writes nothing",
        edit(Decider, "decide", "if full and not isinstance(pending.request, HearMember | KeepLease):", "if full:"),
        test=f"{UNIT}/controller/test_member_keeper.py::test_who_is_heard_is_not_fenced_because_a_queue_is_full",
    ),
    "a name given away unheard": Mutant(
        "who stood still takes another for silent, before it reads what the other said meanwhile",
        edit(MemberKeeper, "alive", "(found.waits and", "(False and"),
        test=f"{UNIT}/controller/test_member_keeper.py::test_a_node_that_stood_still_gives_no_name_away",
    ),
    "wills without their topics": Mutant(
        "how much a decision about wills may say is counted without their topics: it may fit no entry",
        _wills_without_topics,
        test=f"{UNIT}/controller/test_session_keeper.py::test_many_wills_with_long_topics_are_decided_and_handed_on",
    ),
    "a stale member heard": Mutant(
        "a member that was replaced is told that it is there",
        edit(members, "checked", "member.epoch != epoch", "member.epoch < epoch"),
    ),
    "two of one name": Mutant("another incarnation is taken while the first is alive", _two_of_one_name),
    "a fencing forgotten": Mutant(
        "the fencing of a member that could not be decided is not tried again",
        edit(MemberKeeper, "_fence", "self._again(delay_s, found)", "pass"),
        test=f"{UNIT}/controller/test_member_keeper.py",
    ),
    "sessions of the leader before": Mutant(
        "a new leader knows nothing of sessions whose clients went under another",
        edit(SessionKeeper, "opened", "iter(self._state().sessions.values())", "iter(())"),
    ),
    "a loser heard": Mutant(
        "whoever a session was taken from may still change it",
        edit(
            sessions, "found_session", "session.session_epoch != session_epoch", "session.session_epoch < session_epoch"
        ),
    ),
    "a lost member's clients": Mutant(
        "nothing is told of the clients of a member that is lost",
        edit(sessions, "with_sessions", "if held and", "if False and held and"),
    ),
    "a will decided twice": Mutant(
        "a session keeps its will when that is decided",
        edit(evolve_sessions, "_session", "return _replace(before, will=None)", "return before"),
    ),
    "a will taken from the living": Mutant("wills are handed on from living members", _taken_from_the_living),
    "an end forgotten": Mutant(
        "the end of a session that could not be decided is not tried again",
        edit(SessionKeeper, "_settled", "heappush(self._counted, (again, client, session_epoch))", "pass"),
        test=f"{UNIT}/controller/test_session_keeper.py",
    ),
    "a change passed over at a resume": Mutant(
        "a watch from a revision on begins behind it",
        edit(WatchStream, "watch", "request.start_revision or now + 1", "(request.start_revision or now) + 1"),
    ),
    "a change told twice": Mutant(
        "a watch that caught up is told once more what the others are still to be told",
        edit(WatchHub, "_tell_one", "change.revision >= watcher.next", "True"),
    ),
    "a revision in pieces": Mutant(
        "what one transaction wrote is told in several answers",
        edit(
            WatchStream,
            "tell",
            "for response in self._answers(watcher, found):",
            "for response in [part for one in found for part in self._answers(watcher, [one])]:",
        ),
    ),
    "a snapshot passed over": Mutant(
        "a watch is not told what came in a snapshot, or is no longer in memory",
        edit(WatchHub, "_tell", "if self.seen < history.floor:", "if False:"),
    ),
    "lost to a slow client": Mutant(
        "a watch that falls behind passes over the change that did not fit",
        edit(
            WatchStream, "tell", "falls_behind(watcher, change.revision)", "falls_behind(watcher, change.revision + 1)"
        ),
    ),
    "a command below its level": Mutant(
        "a command is run below the level of its events", edit(deciding, "decide", "> state.feature_level", "> 9")
    ),
    "an upgrade unseen": Mutant(
        "what a node said it knows at its first start holds for ever",
        edit(
            evolve,
            "_node",
            "feature_max=event.feature_max",
            "feature_max=event.feature_max if node is None else node.feature_max",
        ),
    ),
    "suspect bytes not rewritten": Mutant(
        "recovery believes what a failed sync may have left in the page cache alone",
        edit(journal, "_make_durable", "if image.suspect:", "if False:"),
    ),
    "header not rewritten": Mutant(
        "recovery believes a segment's header that a failed sync may have left in the page cache alone",
        edit(journal, "_make_durable", "disk.write(last, 0,", "_nothing() or (last, 0,"),
        test=f"{UNIT}/consensus/test_journal_crash.py::test_a_segment_whose_first_sync_failed_is_there_after_a_power_loss",
    ),
    "trim beyond the commit": Mutant(
        "a journal is trimmed below what is applied, committed as it has it or not",
        edit(Applying, "tidy", "min(self.applied, self._core.commit_index)", "self.applied"),
    ),
    "reset keeps the generation": Mutant(
        "a sync report from before a snapshot's reset is believed",
        edit(Journal, "reset", "self.generation += 1", "pass"),
        test=f"{UNIT}/consensus/test_journal.py::test_a_sync_from_before_a_reset_proves_nothing_of_the_log_after_it",
    ),
    "read back from before a truncation": Mutant(
        "what was read back of a log that has been cut off since is sent as this one's",
        edit(ReadBack, "find", "key[0] == generation and", ""),
        test=f"{UNIT}/consensus/test_read_back.py::test_entries_that_were_replaced_after_they_were_read_are_not_served",
    ),
    "trimmed while it was read": Mutant(
        "a segment that a trim removed while it was being read is called damaged",
        edit(Journal, "_valid", "return plan.generation", "return True or plan.generation"),
        test=f"{UNIT}/consensus/test_read_back.py::test_a_segment_that_went_while_it_was_read_is_no_damage",
    ),
    "the store is not added up": Mutant(
        "what a start reads from its store is believed, whatever was written",
        edit(ReplicatedState, "prepare", "applied is not None and applied.sums", "False and applied.sums"),
    ),
    "a snapshot's rows are not added up": Mutant(
        "a snapshot becomes the state without what its rows add up to",
        edit(staging, "switching", "marker.time_ms, marker.sums,", "marker.time_ms, b'',"),
        test=f"{UNIT}/consensus/test_staging.py::test_a_switch_leaves_what_its_rows_add_up_to",
    ),
    "staged survives its leader": Mutant(
        "what an old leader's snapshot staged is kept under a new one",
        edit(Installer, "drop_unless", "if staged is not None and", "if False and"),
    ),
    "heard before it is kept": Mutant(
        "a peer's life is heard before it is known durably",
        edit(
            Lives,
            "meet",
            "self._directory.meet(peer, directory_text(incarnation), directory_text(life), self._worker, done)",
            "self._directory.meet(peer, directory_text(incarnation), directory_text(life), self._worker, bool)\n"
            "        done()",
        ),
    ),
    "an older copy is believed": Mutant(
        "a voter that is told of a life it has not lived goes on",
        edit(Lives, "judge", "if our_life == NO_LIFE or", "if True or"),
    ),
    "a copy takes itself for the original": Mutant(
        "a directory that was copied votes as if nothing had been",
        edit(Directory, "open", "if content is not None and content.copied and voter.begun:", "if False:"),
    ),
    "any directory is heard": Mutant(
        "a voter is heard whatever directory it has",
        edit(hello.Party, "is_named", "return known is None or known == incarnation", "return True"),
    ),
    "a directory comes back with an old store": Mutant(
        "which directory a voter has is asked of the store alone, which may be older than what was applied",
        edit(Core, "_name_of", "return applied if not kept or", "return applied if True or"),
        test=f"{UNIT}/node/test_unnamed_directory.py::test_a_store_that_is_older_does_not_bring_a_given_up_directory_back",
    ),
    "named before it is kept": Mutant(
        "a voter's new directory is heard before its name is durable",
        edit(Core, "on_met", "not self.directory.named_durably(peer)", "False"),
        test=f"{UNIT}/node/test_unnamed_directory.py::test_a_new_name_is_heard_once_it_is_durable",
    ),
    "whoever comes was there": Mutant(
        "a directory that did not found the cluster votes at once",
        edit(
            Founding,
            "judge",
            "self._settled = founders.get(self._directory.node_id) == self._directory.incarnation",
            "self._settled = True",
        ),
    ),
    "a majority founds": Mutant(
        "a cluster is founded by a majority of its voters",
        _majority_founds,
    ),
    "every refusal proves a loss": Mutant(
        "a follower that is behind is told that it lost what it acknowledged",
        edit(PeerFlow, "proves_loss", "return any(", "return True or any("),
    ),
    "a foreign journal is read": Mutant(
        "a journal is read whoever's it is",
        _foreign_journal_read,
    ),
    "a life before its journal": Mutant(
        "a directory has lived before it has a journal: a machine that dies in between is taken for one that forgot",
        _life_before_its_journal,
    ),
    "no stickiness": Mutant(
        "who just heard its leader votes for another all the same",
        edit(ElectionTiming, "protects_leader", "return self.leader_alive and", "return False and"),
    ),
    "who asks is waited for again": Mutant(
        "a node that hears no answers, and asks for pre-votes for ever, keeps those from standing that lag",
        edit(ElectionTiming, "would_vote_for", "if peer not in self._waited_for:", "if True:"),
        test=f"{UNIT}/consensus/test_guard.py",
    ),
    "back able to vote again": Mutant(
        "a node that lost its journal comes back without marking the terms it may have voted in",
        edit(Membership, "go_on", "core.forbid_vote()", "pass"),
    ),
    "lost acks still count": Mutant(
        "a leader goes on counting what a node acknowledged before it lost its journal",
        edit(replication.Replication, "forget_acks", "self._core.forget_match(peer)", "pass"),
    ),
    "held by who forgot, and sent again": Mutant(
        "what a voter that forgot acknowledges moves nothing: it is offered one snapshot after the other",
        edit(
            replication.Replication,
            "_move_uncounted",
            "if core.next_index(peer) < message.next_index:",
            "if False:",
        ),
        test=f"{UNIT}/consensus/test_engine_rejoin.py::test_what_a_node_that_forgot_holds_is_not_sent_again",
    ),
    "rejoin without all terms": Mutant(
        "a node that lost its journal comes back before it knows every other voter's term",
        edit(Rejoin, "on_index", "and self._heard", ""),
        test=f"{UNIT}/consensus/test_engine_rejoin.py",
    ),
    "terms from before another forgot": Mutant(
        "a node that lost its journal counts terms that were told before another voter forgot what it had won",
        edit(Rejoin, "on_term", "self._terms.clear()", "return"),
        test=f"{UNIT}/consensus/test_engine_rejoin.py",
    ),
    "in doubt, so never": Mutant(
        "an entry that a snapshot may have brought is called not executed",
        edit(
            Decider,
            "installed",
            "self._settle(self._in_doubt.pop(covered).pending, "
            'UnknownOutcome("a snapshot took the place of its entry"))',
            "self._never(self._in_doubt.pop(covered))",
        ),
        test=f"{UNIT}/controller/test_certainty.py::test_a_snapshot_over_entries_in_doubt_leaves_them_unknown_and_forgets_them",
    ),
    "one voice is a majority": Mutant(
        "of five too, a leader answers a follower's read by that follower's word alone",
        edit(Reads, "on_read_ask", "message.counts and self._quorum == 2", "message.counts"),
        test=f"{UNIT}/consensus/test_engine.py::test_the_asker_s_word_is_a_majority_of_three_only",
    ),
    "snapshot acknowledged unsynced": Mutant(
        "an installed snapshot is acknowledged before the store holds it durably",
        edit(Installer, "_finish_switch", "self._worker.submit(self._store.sync, synced)", "synced()"),
        test=f"{UNIT}/consensus/test_snapshots.py",
    ),
    "trim before the store's sync": Mutant(
        "entries are forgotten that the store may lose again",
        edit(
            Trimmer,
            "consider",
            "self._worker.submit(self._store.sync, lambda: self._trim(target))",
            "self._trim(target)",
        ),
    ),
    "a new segment forgets the vote": Mutant(
        "the header of a segment does not repeat the vote of the term",
        edit(Journal, "_rotate", "voted_for=self.voted_for", "voted_for=None"),
    ),
    "everybody's copy is needed": Mutant(
        "an entry is committed only once every voter has it",
        edit(replication, "commit_ceiling", "[quorum - 1]", "[-1]"),
    ),
    "everybody's word is needed": Mutant(
        "a read is confirmed only once every voter answered",
        edit(ReadRounds, "count", "len(round_.confirmed) >= self._quorum", "len(round_.confirmed) > self._quorum"),
    ),
    "damage taken for a crash": Mutant(
        "a journal that is bad in the middle is cut off there and believed",
        edit(journal_recovery._Replay, "_judge", "seed = seed_of", "return\n    seed = seed_of"),
    ),
    "a term is adopted, not stored": Mutant(
        "a node takes part in a term that a restart forgets",
        edit(_Core, "adopt_term", "self._SyncObj__setCurrentTerm(term, None)", "self._SyncObj__raftCurrentTerm = term"),
    ),
    "no deadline for who waits": Mutant(
        "a request that waits for a leader, or for an answer, has no deadline",
        edit(Endings, "watch", "self._arm()", "pass"),
    ),
    "unknown told as failure": Mutant(
        "a command whose answer is late is called not executed",
        edit(Endings, "_end_overdue", "UnknownOutcome(", "Unavailable("),
    ),
    "commit beyond what is matched": Mutant(
        "a follower believes a commit index for entries it was not shown",
        edit(follower, "shape_append", "upto = min(message.commit, verified)", "upto = message.commit"),
    ),
    "the core's own count": Mutant(
        "what pysyncobj counts is believed: the leader's copy before it is durable",
        edit(_Core, "_SyncObj__applyLogEntries", "self._SyncObj__raftCommitIndex = self._floor", "pass"),
    ),
    "candidate for ever": Mutant(
        "a node that asked for votes once does not ask again",
        edit(ElectionTiming, "ask", "self.due_at = now + self._retry()", "self.due_at = now + 1e9"),
    ),
    "cut from the applied tip": Mutant(
        "a snapshot claims the leader's last entry, and holds what is applied",
        edit(Installer, "snapshot", "applied.index, applied.term,", "Index(applied.index + 1), applied.term,"),
    ),
    "groups decided at the applied offset": Mutant(
        "what groups keep is proposed as if nothing were in flight",
        edit(Decider, "keep", "tip = self._tip if term == self._term else None", "tip = None"),
    ),
    "a lost entry holds up groups": Mutant(
        "a leader that leads again waits for the groups entry of its last term",
        edit(GroupWriter, "lost", "self._flight = None", "pass"),
        test=f"{UNIT}/controller/test_group_writer.py::test_an_entry_that_went_with_its_term_holds_up_nobody",
    ),
    "a groups entry of any term": Mutant(
        "another leader's groups entry in the same place is taken for one's own",
        edit(
            GroupWriter,
            "_applied",
            "if self._flight != (index, term):",
            "if self._flight is None or self._flight[0] != index:",
        ),
        test=f"{UNIT}/controller/test_group_writer.py::test_an_entry_of_another_term_in_the_same_place_is_not_ours",
    ),
    "a renewal overtakes a commit": Mutant(
        "a position is renewed as it was while a newer one is being committed",
        edit(GroupOffsets, "sweep", " or self._ledger.pending(key)", ""),
        test=f"{UNIT}/gateway/kafka/test_offsets.py::test_a_commit_under_way_is_not_overtaken",
    ),
    "an assignment told before it is kept": Mutant(
        "members read by an assignment that the next coordinator may not know",
        edit(
            Groups,
            "_assign",
            "self._keep(group, lambda error: self._assigned(group, request.generation, error))",
            "self._keep(group, _unheard)\n    self._assigned(group, request.generation, ErrorCode.NONE)",
        ),
        test=f"{UNIT}/gateway/kafka/test_groups.py",
    ),
    "position before its rows": Mutant(
        "a projection's position is written before the rows it speaks of",
        edit(RowStore, "save", "batch.put(META, _encode(self.position))", "self._db.put(META, _encode(self.position))"),
    ),
    "a lost voter file forgets nothing": Mutant(
        "a node whose voter file is damaged votes on, and believes no peer that has met it",
        together(
            edit(directory, "_from_store", 'may_not_vote="" if had_none else lost', 'may_not_vote=""'),
            edit(Lives, "judge", "if our_life == NO_LIFE or self._directory.knows(life):", "if True:"),
        ),
    ),
    "the event log is not read again": Mutant(
        "damage in old batches waits until somebody asks for them",
        edit(Scrub, "slices", "yield from self._events()", "yield 0"),
    ),
    "the journal is not read again": Mutant(
        "damage in sealed segments waits until a start, or somebody who needs old entries",
        edit(Scrub, "slices", "yield from self._segment(segment)", "yield 0"),
        test=f"{UNIT}/consensus/test_scrub.py::test_a_sealed_segment_that_changed_is_met",
    ),
    "a batch is believed": Mutant(
        "a batch that is not what was written is served, and passed over when all is read again",
        edit(EventLog, "_checked", "last = key_offset(key)", "return parse_batch(batch)[0]"),
    ),
    "a gap is the end of the log": Mutant(
        "readers wait for ever where a batch is gone",
        together(
            edit(EventLog, "_from_store", "if offset < end:", "if False:"),
            edit(EventLog, "verify", "if offset < end:", "if False:"),
        ),
    ),
    "a low disk holds nothing back": Mutant(
        "a leader with too little room takes what grows, until its disk is full",
        edit(DiskSpace, "lacks_room", "return self.lack()", "return None"),
    ),
    "another's low disk": Mutant(
        "a leader with room takes what grows, and a voter's disk gets full",
        edit(DiskSpace, "told", "self._said[peer] = (message.free_bytes, until)", "pass"),
    ),
    "low for ever": Mutant(
        "a disk that was low once is never fine again",
        edit(DiskSpace, "measured", "floor * ENOUGH if self._low", "1 << 62 if self._low"),
    ),
    "no master on a low disk": Mutant(
        "fences and elections are refused like what grows",
        lambda: swap(space, "GROWING", space.GROWING | {ElectMaster, FenceBroker}),
    ),
    "a target's end unproved": Mutant(
        "a mirror goes on behind a last record that is not the cluster's",
        edit(
            MirrorCopier,
            "_find_place",
            "for other in (first, last):",
            "for other in (first,):",
        ),
        test=f"{UNIT}/mirror/test_copying.py::test_another_log_in_the_target_is_refused",
    ),
    "a state by the order of a hash table": Mutant(
        "which name an event changes depends on how a process walks a set",
        _by_hash_order,
        lambda seed: other_hash_seed(seed, "a state by the order of a hash table"),
    ),
}


def check(name: str) -> str:
    """Why it cannot be planted any more; empty if it can. It leaves its change behind: only in a child of its own."""
    try:
        EDITED[name].apply()
    except (LookupError, SyntaxError) as error:
        return f"{name}: {error}"
    return ""
