"""Parts of a store directory and safe access to them: paths, locks, abort and checkpoint files, ranges, queue files.

Used by engine, offline, rebuild and spark. Imports `shown`, `vocabulary`, `errors` and `_native`.
"""
