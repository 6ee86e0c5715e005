"""A broker on a store: what its clients ask for, what it knows beside the store, and its sockets.

May import everything below `opening`, that included; never Spark. docs/broker.md says what it serves.
"""
