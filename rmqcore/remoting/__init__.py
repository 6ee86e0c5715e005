"""RocketMQ's remoting protocol without sockets: bytes into commands and back, the fields and bodies that they carry.

Imports only the vocabulary (``errors``, ``java_json``, ...): nothing of engine, disk or services, and neither does it wait,
read a clock or open anything.
"""
