"""What Spark itself needs: its versions, its Java, its workers, code that is sent to them, and tasks.

Imports `errors` and nothing else of the package.
"""
