"""Transactions: `service` has the halves that ended, `check` asks about the others, with `half_walk`, `marks` and `messages`.

May import `put_message`, `stored_copy`, `names` and `state` of the broker; no handler.
"""
