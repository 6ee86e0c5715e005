"""A broker on a store: its answers to clients, its own state, and its sockets.

May import `opening` and everything below it; never Spark. docs/broker.md lists the requests that it serves.
"""
