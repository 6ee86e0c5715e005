"""The requests that a broker answers, one file per family: functions of a call, without sockets.

Each file has a table ``HANDLERS`` from request code to function; `rmqcore.broker.requests` puts them together.
"""
