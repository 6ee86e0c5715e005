"""State of a broker besides its store: topics, groups, offsets, clients, held pulls, locks, statistics."""
