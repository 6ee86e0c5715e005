"""Messages into the mapped CommitLog: filling, appending, the result, Arrow rows; and views of what lies there.

Imports `_native.format` and `_native.threads`; `rmqcore.errors` and `rmqcore.vocabulary.status`.
"""
