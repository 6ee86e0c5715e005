"""The index files of a store against the log and themselves. Imports `rmqcore.offline.fsck`'s batches and findings."""
