"""Transactions: `service` has the halves that ended, `check` asks about the others, with the other modules.

May import `put_message`, `stored_copy`, `names` and `state` of the broker; no handler.
"""
