"""The engine's thread, and the way to it from the HTTP server's event loop."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Container
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from .engine import Engine, Progress
from .log import log_core
from .requests import FinishReason, Generated, Request, Wish

T = TypeVar("T")


class EngineDeadError(Exception):
    """The engine's thread ended with an error; only a new process helps."""

    def __init__(self) -> None:
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause."
        )


@dataclass(frozen=True, slots=True)
class Update:
    """News about a request."""

    added: tuple[Generated, ...]
    finish_reason: FinishReason | None
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class _Listener:
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Update | EngineDeadError]

    def tell(self, news: Update | EngineDeadError) -> None:
        self.loop.call_soon_threadsafe(self.queue.put_nowait, news)


@dataclass(frozen=True, slots=True)
class _Order:
    """Something to do between two steps, and who waits for it."""

    action: Callable[[], Any]
    outcome: "Future[Any]"


class Worker:
    """Runs the engine while there is something to do."""

    def __init__(self, engine: Engine, observe: Callable[[Engine, list[Progress]], None]) -> None:
        self.dead = False
        self._engine = engine
        self._observe = observe
        self._orders: list[_Order] = []
        self._wake = threading.Condition()
        self._listeners: dict[Request, _Listener] = {}
        self._to_preempt: set[Request] = set()

    def start(self) -> None:
        """Start the thread; it ends with the process."""
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    async def generate(
        self, request_id: str, wish: Wish, faults: Container[str]
    ) -> AsyncGenerator[Update]:
        """Have a wish fulfilled; leaving the iterator early gives it up.

        Args:
            request_id: Unique on this server.
            wish: What is wanted.
            faults: Of `faults.AT_REQUEST`, those that happen to this request.

        Raises:
            EngineDeadError: The engine is dead, or died meanwhile.
        """
        listener = _Listener(asyncio.get_running_loop(), asyncio.Queue())
        request = await self.call(lambda: self._add(request_id, wish, faults, listener))
        try:
            while True:
                news = await listener.queue.get()
                if isinstance(news, EngineDeadError):
                    raise news
                yield news
                if news.finish_reason is not None:
                    break
        finally:
            if request.finish_reason is None and not self.dead:
                self._order(lambda: self._abort(request), Future())

    async def call(self, action: Callable[[], T]) -> T:
        """Have something done on the engine's thread, between two steps.

        Raises:
            EngineDeadError: The engine died before, or of it.
        """
        outcome: Future[T] = Future()
        self._order(action, outcome)
        return await asyncio.wrap_future(outcome)

    def _order(self, action: Callable[[], Any], outcome: "Future[Any]") -> None:
        with self._wake:
            if self.dead:
                raise EngineDeadError
            self._orders.append(_Order(action, outcome))
            self._wake.notify()

    def _add(
        self, request_id: str, wish: Wish, faults: Container[str], listener: _Listener
    ) -> Request:
        request = self._engine.add(request_id, wish)
        self._listeners[request] = listener
        self._suffer(request, faults)
        return request

    def _abort(self, request: Request) -> None:
        self._engine.abort(request)
        self._listeners.pop(request, None)

    def _run(self) -> None:
        try:
            while True:
                self._follow_orders()
                self._report(self._engine.step())
        except Exception:  # noqa: BLE001 - whatever it was, those who wait must learn of it
            log_core.exception("EngineCore encountered a fatal error.")
            self._die()

    def _follow_orders(self) -> None:
        scheduler = self._engine.scheduler
        with self._wake:
            self._wake.wait_for(lambda: self._orders or scheduler.running or scheduler.waiting)
        while self._orders:
            order = self._orders[0]
            if order.outcome.set_running_or_notify_cancel():  # else whoever waited has left
                order.outcome.set_result(order.action())
            self._orders.pop(0)

    def _report(self, progress: list[Progress]) -> None:
        self._observe(self._engine, progress)
        for made in progress:
            request = made.request
            if request in self._to_preempt and request.finish_reason is None and made.added:
                self._to_preempt.discard(request)
                self._engine.scheduler.preempt_last()
            if made.added and request in self._listeners:
                self._listeners[request].tell(
                    Update(made.added, request.finish_reason, request.cached_tokens or 0)
                )
            if request.finish_reason is not None:
                self._listeners.pop(request, None)

    def _die(self) -> None:
        with self._wake:
            self.dead = True
        for listener in self._listeners.values():
            listener.tell(EngineDeadError())
        for order in self._orders:  # the one that killed it included
            if not order.outcome.cancelled():
                order.outcome.set_exception(EngineDeadError())

    def _suffer(self, request: Request, faults: Container[str]) -> None:
        """Let the faults happen that a test wants on this request."""
        if "evict" in faults:
            self._engine.scheduler.cache.evict_idle()
        if "preempt" in faults:
            self._to_preempt.add(request)
        if "hang" in faults:
            threading.Event().wait()
        if "freeze" in faults:
            os.kill(os.getpid(), signal.SIGSTOP)
        if "exit-0" in faults:
            os._exit(0)
        if "engine-dies" in faults:
            raise RuntimeError("MINIATURE: the engine dies because the fault engine-dies is on")
