"""ConsumeQueues that a broker keeps in RocksDB: the database is read, never written, and never opened where it lies.

Imports `disk` and what `disk` imports. The package `rocksdict` (the extra ``rocksdb``) is imported when a database is opened.
"""
