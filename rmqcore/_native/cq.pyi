from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

CQ_STORE_UNIT_SIZE: Final[int]
CQ_FILLER_SIZE: Final[int]
CQ_DTYPE: Final[np.dtype[np.void]]

Column: TypeAlias = int | Sequence[int] | npt.NDArray[np.integer[Any]]

def pack_cq(phy_offset: Column, msg_size: Column, tags_code: Column) -> bytes: ...
def unpack_cq(buf: Buffer) -> npt.NDArray[np.void]: ...
def valid_prefix(buf: Buffer) -> int: ...
def prefix_below(buf: Buffer, phy_offset: int) -> int: ...
