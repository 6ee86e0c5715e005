"""Messages on the wire, as clients send and get them, without sockets. Imports nothing else of `rmqcore.client`."""
