"""A new store of every record of a damaged one that proves itself, each at the place where it lay.

`salvage` reads the log once (`log_copy`) and writes a new one (`new_log`, `filler`), sees to it that no two records ask for one
place of a queue (`queue_claims`, `set_aside`), has queues and index made by `rmqcore.maintenance.rebuild`, and says what
lacks (`queue_loss`, `report`).
"""
