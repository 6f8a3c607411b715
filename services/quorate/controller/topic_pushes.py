"""Brokers learn of the topics made here: a master is told until it has them.

Rules: told by the leader, with the request by which tools make topics (17), after asking for what the master has (351),
so that an answer that was lost costs nothing and attributes are changed, not set again. A topic that is made or changed
goes to every master, a few in a turn: no commit waits for it. A leader that begins, and a master that is new, are
compared: a topic that the master lacks goes there; one that it has otherwise is counted and left, or made the same
(``push_topics``). Deletions go to no broker: they would take messages along.

Theory: the brokers themselves are the record of what was delivered (level-triggered reconciliation), so nothing of it
is written in the log.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from quorate.clock import Scheduler
from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.paced import UntilDone
from quorate.controller.ports import TopicLink
from quorate.controller.settings import ControllerSettings
from quorate.events import Event, MasterElected, TopicCreated, TopicDeleted, TopicUpdated
from quorate.model.routes import MASTER_ID, addresses
from quorate.model.state import Topic
from quorate.slices import Steps, in_slices

_T = TypeVar("_T")
_Item = tuple[str, str]
"""A set, and a topic; no topic: all of them are compared."""
WAITS_MAX = 10_000
"""With so many waiting a set is compared, instead of being told of one topic more."""
AT_ONCE_MIN = 8
"""Of what a set lacks so many topics wait at least, whatever else does."""


class TopicPushes(Listener):
    """Active while this node leads."""

    concerns = frozenset((TopicCreated, TopicUpdated, TopicDeleted, MasterElected))

    def __init__(
        self, controller: Controller, scheduler: Scheduler, brokers: TopicLink, settings: ControllerSettings
    ) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._brokers = brokers
        self._settings = settings
        self._led: dict[str, None] = {}
        """The sets that had a master when it was last looked."""
        self._made: dict[str, None] = {}
        """Topics of which nobody was told yet."""
        self._spreads = False
        self._term = 0
        self._differing: dict[str, frozenset[str]] = {}
        self._undone: UntilDone[_Item] = UntilDone(scheduler, settings, self._do)
        self.pushed = 0

    def __len__(self) -> int:
        """Masters and topics to be told of, or compared."""
        return len(self._undone)

    @property
    def differing(self) -> int:
        """Topics that a master has otherwise than here, as far as it was compared."""
        return sum(len(topics) for name, topics in self._differing.items() if self._master(name) is not None)

    def opened(self, term: int) -> None:
        """What the former leader may have left undone."""
        self._term = term
        sets = self._controller.state.broker_sets
        self._led = dict.fromkeys(name for name, one in sets.items() if one.master is not None)
        if self._controller.state.topics:
            self._add((name, "") for name in self._led)

    def lost(self) -> None:
        """Whoever leads next compares."""
        self._term = 0
        self._undone.clear()
        self._made.clear()
        self._differing.clear()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """A topic is made or changed, a master is new."""
        if not self._term:
            return
        for _, event in events:
            if isinstance(event, TopicCreated | TopicUpdated):
                self._made[event.topic] = None
                if not self._spreads:
                    self._spreads = True
                    self._scheduler.call_soon(lambda: in_slices(self._spread(), self._scheduler, self._spread_out))
            elif isinstance(event, MasterElected):
                self._led[event.broker_set] = None
                if self._controller.state.topics:
                    self._add([(event.broker_set, "")])
            elif isinstance(event, TopicDeleted):
                self._differing = {name: topics - {event.topic} for name, topics in self._differing.items()}

    def _spread(self) -> Steps[None]:
        """Each topic to each master."""
        while self._made:
            topic = next(iter(self._made))
            del self._made[topic]
            for name in tuple(self._led):
                if self._term:
                    self._add([(name, topic if len(self._undone) < WAITS_MAX else "")])
                yield

    def _spread_out(self, made: Callable[[], None]) -> None:
        self._spreads = False
        made()

    def _add(self, items: Iterable[_Item]) -> None:
        if self._settings.push_topics != "off":
            self._undone.add(items)

    # -- one of them

    def _do(self, item: _Item) -> bool:
        """Begin with it; False: nobody needs it any more."""
        broker_set, topic = item
        master = self._master(broker_set)
        if master is None or (topic and topic not in self._controller.state.topics):
            self._undone.end(item)
            if master is None:
                self._led.pop(broker_set, None)  # A master that is elected later is compared.
                self._differing.pop(broker_set, None)
            return False
        if topic:
            self._brokers.ask_topic(master, topic, self._mine(item, lambda found: self._compared(item, master, found)))
        else:
            self._brokers.ask_all_topics(master, self._mine(item, lambda found: self._all_compared(item, found)))
        return True

    def _master(self, broker_set: str) -> str | None:
        known = self._controller.state.known(broker_set)
        return None if known is None else addresses(known.master, known.replicas).get(str(MASTER_ID))

    def _mine(self, item: _Item, then: Callable[[_T], None]) -> Callable[[_T | None], None]:
        """An answer counts in the term in which it was asked for; none at all: once more, later."""
        term = self._term

        def told(answer: _T | None) -> None:
            if self._term != term or item not in self._undone:
                return
            if answer is None:
                self._undone.again(item)
            else:
                then(answer)

        return told

    def _compared(self, item: _Item, master: str, found: Mapping[str, Topic]) -> None:
        """What the master has under that name is known."""
        topic = self._controller.state.topics.get(item[1])
        if topic is None or found.get(item[1]) == topic:
            self._end(item)
            return

        def acknowledged(_: bool) -> None:
            self.pushed += 1
            if self._controller.state.topics.get(item[1]) == topic:  # Else it waits again already.
                self._end(item)

        told = self._mine(item, acknowledged)
        self._brokers.put_topic(master, topic, found.get(item[1]), lambda done: told(done or None))

    def _all_compared(self, item: _Item, found: Mapping[str, Topic]) -> None:
        """All that the master has is known."""
        broker_set, ours = item[0], self._controller.state.topics
        lacking = [name for name in ours if name not in found]
        differing = [name for name, topic in ours.items() if name in found and found[name] != topic]
        everything = self._settings.push_topics == "all"
        self._differing[broker_set] = frozenset(() if everything else differing)
        self._undone.end(item)
        wanted = [*lacking, *(differing if everything else ())]
        room = max(WAITS_MAX - len(self._undone), AT_ONCE_MIN)
        self._add((broker_set, name) for name in wanted[:room])
        if len(wanted) > room:
            self._add([item])  # Compared again, behind these.

    def _end(self, item: _Item) -> None:
        self._undone.end(item)
        broker_set, topic = item
        if broker_set in self._differing:
            self._differing[broker_set] -= {topic}
