"""One timeout for a whole call with all its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rmqcore.errors import AnswerTimeoutError


@asynccontextmanager
async def deadline(seconds: float, call: str) -> AsyncIterator[None]:
    """Cancel the body when the time is over.

    Parameters
    ----------
    seconds : float
    call : str
        Name of the method, for the error.

    Raises
    ------
    AnswerTimeoutError
        The time is over; the request may have been carried out.
    """
    limit = asyncio.timeout(max(seconds, 0))
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise AnswerTimeoutError("the cluster", call, seconds) from None
