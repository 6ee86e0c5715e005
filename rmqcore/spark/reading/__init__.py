"""From bytes to rows, in a task: where its split begins and ends, the walk over it, and the Arrow batches of its records.

Imports `spark.rows`, `spark.splits` and what they import. The driver finds the ends of logs with the same rule.
"""
