"""Messages into the mapped CommitLog: filling, appending, the result, Arrow rows.

Imports `_native.files`, `_native.format` and `_native.threads`; `rmqcore.errors` and `rmqcore.vocabulary.status`.
"""
