"""Files that tasks write and a job commits: attempts, a journal, a folder that appears whole or not at all.

Imports `spark.storage` and what that imports, and `rebuild.report`.
"""
