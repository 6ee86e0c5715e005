"""The broker, room by room: so far the filter of consumers that subscribe with SQL92.

May import everything below `opening`, that included; never Spark.
"""
