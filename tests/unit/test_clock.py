"""A turn: what it has to send leaves when it ends, in one go, and not in a turn of its own."""

import asyncio
from collections.abc import Callable

from quorate.clock import LoopScheduler
from tests.sim.world import Loop, World


def on_a_loop(steps: Callable[[LoopScheduler, list[str]], None]) -> tuple[list[str], list[str]]:
    """What ran, and what the loop was told of, once nothing is left to run."""
    ran: list[str] = []
    told: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        steps(LoopScheduler(loop), ran)
        ran.append("after the turn")
        await asyncio.sleep(0)

    asyncio.run(run())
    return ran, told


def test_what_a_turn_puts_off_runs_once_when_it_ends() -> None:
    """In the order it was put off, after all of the turn and before anything else of the loop, and never again."""

    def steps(scheduler: LoopScheduler, ran: list[str]) -> None:
        def turn() -> None:
            scheduler.at_turns_end(lambda: ran.append("sends"))
            scheduler.take_turn(lambda: scheduler.at_turns_end(lambda: ran.append("answers")))
            ran.append("decides")

        scheduler.take_turn(turn)
        scheduler.take_turn(lambda: ran.append("another"))

    assert on_a_loop(steps) == (["decides", "sends", "answers", "another", "after the turn"], [])


def test_outside_of_a_turn_it_runs_soon() -> None:
    """Nobody waits for a turn that may not come."""

    def steps(scheduler: LoopScheduler, ran: list[str]) -> None:
        scheduler.at_turns_end(lambda: ran.append("sends"))

    assert on_a_loop(steps) == (["after the turn", "sends"], [])


def test_an_error_keeps_nothing_else_from_leaving() -> None:
    """Whether the turn raises or one of those that wait for its end: the others run, and the error is told."""

    def steps(scheduler: LoopScheduler, ran: list[str]) -> None:
        def refuse() -> None:
            raise ValueError("one of them")

        def turn() -> None:
            scheduler.at_turns_end(refuse)
            scheduler.at_turns_end(lambda: ran.append("sends"))
            raise ValueError("the turn")

        try:
            scheduler.take_turn(turn)
        except ValueError as error:
            ran.append(str(error))

    assert on_a_loop(steps) == (["sends", "the turn", "after the turn"], ["one of them"])


def test_a_simulated_process_that_dies_in_its_turn_sends_nothing() -> None:
    """As one that is killed: what was put off to the turn's end never happens."""
    for dies in (False, True):
        world, ran = World(1), list[str]()
        loop = Loop(world, "n1", lambda: None)

        def turn(loop: Loop = loop, ran: list[str] = ran, dies: bool = dies) -> None:
            loop.at_turns_end(lambda: ran.append("sends"))
            if dies:
                loop.die()

        loop.call_soon(lambda loop=loop, turn=turn: loop.take_turn(turn))  # type: ignore[misc]
        world.run_until(world.now + 1)
        assert ran == ([] if dies else ["sends"])
