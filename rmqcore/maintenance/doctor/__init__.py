"""The cause and the safe next step of what is wrong with a store, as far as its directory shows it.

It asks what exists (`rmqcore.offline.fsck`, `rmqcore.engine.recovery`, `rmqcore.maintenance.retention`) and only reads.
"""
