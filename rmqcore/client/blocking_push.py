"""The push consumer for code without an event loop: handlers run in threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, Unpack

from rmqcore.client.async_push_consumer import CONCURRENCY, AsyncPushConsumer, check_concurrency
from rmqcore.client.loop_thread import LoopThread
from rmqcore.client.messages.consume_status import ConsumeStatus
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.settings import PushConsumerSettings
from rmqcore.errors import ClientClosedError, ClientError

HURRIED_SECONDS = 1.0
"""Of a `close` after a second Ctrl-C: what is finished is committed, handlers are not waited for."""
BlockingHandler = Callable[[ReceivedMessage], ConsumeStatus | None]


class PushConsumer:
    """Passes the messages of topics to a handler, as a member of a consumer group. Safe to use from several threads.

    Its parameters are those of `AsyncPushConsumer`. Handlers are ordinary functions, which run in threads.
    """

    def __init__(
        self, namesrv: str | Iterable[str], group: str, **settings: Unpack[PushConsumerSettings]
    ) -> None:
        self._client = AsyncPushConsumer(namesrv, group, **settings)
        self._concurrency = settings.get("concurrency", CONCURRENCY)
        self._group = group
        self._handlers: set[int] = set()
        self._closing = False
        self._hurried = False
        self._thread = LoopThread(f"rmqcore-consumer-{group}")
        self._end = weakref.finalize(self, _end, self._thread, self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self, topic: str, expression: str = "*", timeout: float = 30.0) -> None:
        """Add a topic: `AsyncPushConsumer.subscribe`."""
        self._thread.run(lambda: self._client.subscribe(topic, expression, timeout))

    def unsubscribe(self, topic: str, timeout: float = 5.0) -> None:
        """Stop reading a topic: `AsyncPushConsumer.unsubscribe`."""
        self._thread.run(lambda: self._client.unsubscribe(topic, timeout))

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads, those of the retry topic included, sorted."""

        async def assignment() -> list[MessageQueue]:
            return self._client.assignment()

        return self._thread.run(assignment)

    def run(self, handler: BlockingHandler, concurrency: int | None = None) -> None:
        """Call a handler for each message, in threads, until `stop` or `close`: `AsyncPushConsumer.run`.

        After Ctrl-C, or another exception in the calling thread, no handler is called any more, and the exception is
        raised when the running handlers have returned: their results count. A second Ctrl-C does not wait for them:
        their messages are delivered again. `SystemExit` and `KeyboardInterrupt` of a handler are raised here, and its
        message is delivered again.

        Parameters
        ----------
        handler : callable
            A function that receives a `ReceivedMessage`. Several threads call it at the same time.
        concurrency : int, optional
            Number of threads; by default the consumer's `concurrency`.

        Raises
        ------
        TypeError
            The handler returned neither None nor a `ConsumeStatus`. The message is not finished.
        ClientError
            No topic is subscribed, or the consumer was closed.
        """
        number = self._concurrency if concurrency is None else concurrency
        check_concurrency(number)
        if self._closing:
            raise ClientClosedError("this client was closed")
        pool = ThreadPoolExecutor(number, f"rmqcore-handler-{self._group}")

        def call(message: ReceivedMessage) -> ConsumeStatus | _Exit | None:
            me = threading.get_ident()
            self._handlers.add(me)
            try:
                return handler(message)
            except StopIteration as error:  # a future does not accept it, and would never be done
                raise RuntimeError(f"the handler raised {error!r}") from error
            except Exception:
                raise
            except BaseException as error:  # noqa: BLE001 raised in the loop's thread it would end that thread
                return _Exit(error)
            finally:
                self._handlers.discard(me)

        async def in_thread(message: ReceivedMessage) -> ConsumeStatus | None:
            try:
                work = asyncio.get_running_loop().run_in_executor(pool, call, message)
            except RuntimeError as error:  # the interpreter ends
                raise _Exit(ClientClosedError(str(error))) from error
            while not work.done():
                try:
                    await asyncio.wait([work])
                except asyncio.CancelledError:
                    # A thread cannot be cancelled: the handler's result counts.
                    if self._hurried:
                        raise
            status = work.result()
            if isinstance(status, _Exit):
                raise status
            return status

        try:
            self._thread.run(lambda: self._client.run(in_thread, number))
        except _Exit as exit_:
            raise exit_.error from None
        except ClientClosedError:
            if not self._closing:
                raise
        except BaseException:
            self._wait_for_handlers()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _wait_for_handlers(self) -> None:
        try:
            with contextlib.suppress(ClientClosedError):
                self._thread.run(self._client.until_stopped)
        except BaseException:
            self._hurried = True
            raise

    def stop(self) -> None:
        """Make `run` return when the running handlers have finished. Handlers and signal handlers may call it."""

        async def stop() -> None:
            self._client.stop()

        self._thread.run(stop)

    def close(self, timeout: float = 30.0) -> None:
        """Finish the running handlers, commit and unregister: `AsyncPushConsumer.close`. No effect in a forked process.

        Raises
        ------
        ClientError
            A handler called this, and would wait for itself. Handlers call `stop` instead.
        """
        if threading.get_ident() in self._handlers:
            raise ClientError(
                "close() inside a handler would wait for that handler: call stop() instead"
            )
        if self._end.alive and self._thread.is_ours:
            self._closing = True
            seconds = min(timeout, HURRIED_SECONDS) if self._hurried else timeout
            self._thread.run(lambda: self._client.close(seconds))
            self._hurried = True
            self._end()


class _Exit(BaseException):
    """An exception of a handler that ends the program, on its way to the caller of `run`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _end(thread: LoopThread, client: AsyncPushConsumer) -> None:
    """End the thread of a consumer that was closed, or that no program refers to any more."""
    thread.stop(client.abandon)
