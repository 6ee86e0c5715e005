"""A name server without sockets and clocks: functions of a request and a table.

Imports `rmqcore.remoting` and the vocabulary; nothing of engine, disk or services.
"""
