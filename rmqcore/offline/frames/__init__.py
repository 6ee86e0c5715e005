"""Messages as whole frames of pyarrow, Polars and pandas, and what a test of a column says of messages.

Imports ``log``. The libraries are imported when they are asked for.
"""
