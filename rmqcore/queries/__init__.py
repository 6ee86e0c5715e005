"""Java's rules of an answer, over any source of entries: what may be asked, index and tag matches, search by time, message ids.

Used by engine and offline. Imports `shown`, `codec`, `vocabulary`, `errors` and `_native`.
"""
