from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.put.mapped_file import MappedFiles

def view_at(
    files: MappedFiles, phy_offset: int, end_offset: int, levels: DelayLevels
) -> MessageView | None: ...
def store_time(files: MappedFiles, phy_offset: int, end_offset: int) -> int: ...
