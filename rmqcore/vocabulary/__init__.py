"""Words that every part of the package uses: statuses, flags, names of topics and properties, units, time, Java's JSON.

No part depends on files, messages or stores. Imports `rmqcore.errors`; `sysflag` also `_native.format`.
"""
