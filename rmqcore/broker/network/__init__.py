"""The sockets of a broker: its own ports, and its connections to name servers and to a master."""
