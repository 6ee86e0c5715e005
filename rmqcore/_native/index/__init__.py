"""Index files: a reader of any of them, mapped files that are put to and searched, a whole query.

Imports `_native.format`, `_native.scan`, `_native.put`, `_native.files`.
"""
