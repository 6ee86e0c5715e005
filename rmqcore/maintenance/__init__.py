"""An operator's tools: rebuild queues and index, salvage, backup, forecast, diagnosis.

Each has a room. They read like `rmqcore.offline`; writes into a store go through `rmqcore.engine` or
`rmqcore.disk.swap`, under the store's lock. Imports `rmqcore.opening` and what lies below; the command line and Spark
import it.
"""
