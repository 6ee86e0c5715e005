import numpy as np
from numpy.typing import NDArray

from rmqcore._native.put.appender import Appender

def put_arrow(
    appender: Appender, data: object
) -> tuple[
    NDArray[np.int8],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    int,
    str | None,
    str | None,
    str | None,
]: ...
