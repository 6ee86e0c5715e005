"""The sockets of a broker: its own ports, and its way to name servers."""
