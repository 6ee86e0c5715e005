"""An operator's tools: rebuild queues and index, salvage, backup, forecast, diagnosis.

Each has a room. They read as `rmqcore.offline` does; what writes into a store goes through `rmqcore.engine` or
`rmqcore.disk.swap`, under the store's lock. Imports `rmqcore.opening` and what lies below; the command line and Spark import it.
"""
