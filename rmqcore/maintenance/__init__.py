"""What an operator makes of a store: queues and index anew, a sound store of a damaged one, a copy, a forecast, a diagnosis.

Each has a room. They read as `rmqcore.offline` does; what writes into a store goes through `rmqcore.engine` or
`rmqcore.disk.swap`, under the store's lock. Imports `rmqcore.opening` and what lies below; the command line and Spark import it.
"""
