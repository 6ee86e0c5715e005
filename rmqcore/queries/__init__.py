"""Java's rules for reads, over any source of entries: arguments, index and tag matches, search by time, message ids.

Used by engine and offline. Imports `shown`, `codec`, `vocabulary`, `errors` and `_native`.
"""
