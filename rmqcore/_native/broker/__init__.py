"""What a broker does once for each message: plain sends from the bytes of a connection into the log.

Imports `_native.put` and `_native.format`.
"""
