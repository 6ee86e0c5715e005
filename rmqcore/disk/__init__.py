"""What lies in a store directory, and how it is touched safely: paths, lock, abort and checkpoint files, ranges, queue files.

Used by engine, offline, rebuild and spark. Imports `shown`, `vocabulary`, `errors` and `_native`.
"""
