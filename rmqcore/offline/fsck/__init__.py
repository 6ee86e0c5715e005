"""`fsck`: its passes check the log, the queues and the index of a store against each other.

It imports `offline.reader` and what that imports; of the package only the command line imports it.
"""

from rmqcore.offline.fsck.fsck import FsckReport, fsck

__all__ = ["FsckReport", "fsck"]
