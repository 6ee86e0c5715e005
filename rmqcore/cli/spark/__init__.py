"""``rmqcore spark VERB``, a file for each verb.

Imports `cli.common`, `cli.reports` and, when a verb runs, `rmqcore.spark`; never `cli.verbs`.
"""
