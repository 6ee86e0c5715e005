"""Words that every part of the package uses: statuses, flags, names of topics and properties, units, time, Java's JSON.

No part knows a file, a message or a store. Imports `rmqcore.errors`; `sysflag` also `_native.format`.
"""
