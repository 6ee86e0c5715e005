"""From bytes to rows, in a task: where its split begins and ends, the walk over it, and the Arrow batches of its records.

It imports `spark.rows`, `spark.splits` and what they import; the driver finds the ends of logs here, by the same rule.
"""
