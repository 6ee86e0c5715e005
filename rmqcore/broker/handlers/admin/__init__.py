"""The requests of administrators: settings, numbers, tables, clients, cleaning."""
