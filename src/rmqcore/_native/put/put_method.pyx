"""`MessageStore.put` as a native method: a frame of Python between the caller and the append took 30 to 70 of some 180 ns."""


cdef class PutMethod:
    """The base of MessageStore that has its `put`.

    A method of the class, not the append itself as an attribute of each store: so a bound `store.put` keeps its store, as it does
    with any method, a store that is dropped is let go at once, and a subclass may have a `put` of its own.
    """

    cdef object append

    def _put_with(self, append):
        """Let `put` be this callable: it takes a Message and gives a PutResult."""
        self.append = append

    def put(self, message):
        """Append one message.

        Parameters
        ----------
        message : Message

        Returns
        -------
        PutResult
            PUT_OK: the message is in the log, with SYNC_FLUSH on disk too (docs/durability.md). A message that breaks a limit
            is MESSAGE_ILLEGAL or PROPERTIES_SIZE_EXCEEDED, and nothing is stored.

        Raises
        ------
        StoreFailedError
            A write, a sync or an allocation failed, now or earlier.
        StoreClosedError
            The store is closed.
        ValueError
            A property with a separator (0x01, 0x02) in it, text that is no valid Unicode.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#putMessage, CommitLog#asyncPutMessage.
        """
        return self.append(message)
