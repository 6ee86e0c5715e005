from libc.stdint cimport int64_t

from rmqcore._native.format.codec cimport DelayLevels, MessageView
from rmqcore._native.files.mapped_file cimport MappedFiles

# The message whose record starts at `phy_offset` and ends at or before `end_offset`; None: there is none.
cdef MessageView view_of(MappedFiles files, int64_t phy_offset, int64_t end_offset, DelayLevels levels)
