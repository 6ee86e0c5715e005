"""What a broker knows beside its store: topics, groups, offsets, clients, held pulls, locks, numbers."""
