from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

CQ_DTYPE: Final[np.dtype[np.void]]

Column: TypeAlias = int | Sequence[int] | npt.NDArray[np.integer[Any]]

def pack_columns(phy_offset: Column, msg_size: Column, tags_code: Column) -> bytes: ...
def unpack_cq_entries(buf: Buffer) -> npt.NDArray[np.void]: ...
