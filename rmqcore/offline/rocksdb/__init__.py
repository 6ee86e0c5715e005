"""ConsumeQueues and an index that a broker keeps in RocksDB: read only, and never opened in the store's own directory.

Imports `disk` and what `disk` imports. The package `rocksdict` (the extra ``rocksdb``) is imported when a database is opened.
"""
