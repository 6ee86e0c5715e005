"""ConsumeQueues and an index that a broker keeps in RocksDB: a database is read, never written, and never opened where it lies.

Imports `disk` and what `disk` imports. The package `rocksdict` (the extra ``rocksdb``) is imported when a database is opened.
"""
