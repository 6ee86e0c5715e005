"""Transactions: `service` ends halves, `check` asks producers about the others; the other modules help them.

May import `put_message`, `stored_copy`, `names` and `state` of the broker; no handler.
"""
