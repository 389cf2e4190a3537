"""The engine's thread: orders that are given up, orders that kill."""

import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest

from orchestrator.miniature.engine import Engine
from orchestrator.miniature.model import Model
from orchestrator.miniature.requests import Wish
from orchestrator.miniature.worker import EngineDeadError, Update, Worker

from .conftest import MEASURED

WISH = Wish(prompt=tuple(range(50)), max_tokens=3)


@pytest.fixture
def engine(model: Model) -> Engine:
    """A fresh engine."""
    return Engine(model, MEASURED, seed=0)


@pytest.fixture
def worker(engine: Engine) -> Worker:
    """Its thread, started."""
    worker = Worker(engine, lambda _engine, _progress: None)
    worker.start()
    return worker


async def tokens(worker: Worker, name: str, faults: frozenset[str] = frozenset()) -> int:
    """How many tokens a request gets."""
    return sum([len(update.added) async for update in worker.generate(name, WISH, faults)])


def test_a_request_that_is_given_up_before_it_began_never_begins(
    worker: Worker, engine: Engine
) -> None:
    """The client left while the engine was busy; the next one is served as ever."""
    busy = threading.Event()

    async def scenario() -> int:
        """What happens in the loop."""
        blocking = asyncio.create_task(worker.call(busy.wait))
        leaving = asyncio.create_task(tokens(worker, "leaving"))
        await asyncio.sleep(0.05)
        leaving.cancel()
        await asyncio.wait({leaving})
        busy.set()
        await blocking
        return await tokens(worker, "staying")

    assert asyncio.run(scenario()) == 3
    assert list(engine.truths) == ["staying"]


async def rest(updates: AsyncGenerator[Update]) -> int:
    """How many updates follow."""
    return len([update async for update in updates])


def test_a_death_reaches_everybody_who_waits(worker: Worker) -> None:
    """Those under way, the one that killed, those that come after."""
    long = Wish(prompt=WISH.prompt, max_tokens=1500)

    async def scenario() -> list[int | BaseException]:
        """What happens in the loop."""
        running = worker.generate("running", long, frozenset())
        await anext(running)
        results = await asyncio.gather(
            rest(running),
            tokens(worker, "killing", frozenset({"engine-dies"})),
            return_exceptions=True,
        )
        after = await asyncio.gather(tokens(worker, "late"), return_exceptions=True)
        return [*results, *after]

    results = asyncio.run(scenario())
    assert [type(result) for result in results] == [EngineDeadError] * 3
    assert worker.dead
