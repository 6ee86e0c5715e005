"""`put` and `append` of a MessageStore as native methods: a frame of Python before the append took 30 to 70 of some 180 ns."""


cdef class PutMethod:
    """The base of MessageStore that has its `put` and `append`.

    Methods of the class, not the native append itself as an attribute of each store: so a bound `store.put` keeps its store, as
    any method does, a store that is dropped is let go at once, and a subclass may have a `put` of its own.
    """

    cdef object putting, appending

    def _put_with(self, put, append):
        """Set `put` and `append` to these callables: each accepts a Message and returns a PutResult."""
        self.putting = put
        self.appending = append

    def put(self, message):
        """Append one message.

        Parameters
        ----------
        message : Message

        Returns
        -------
        PutResult
            PUT_OK: the message is in the log, with SYNC_FLUSH on disk too, and where a SYNC_MASTER waits for followers in enough
            of theirs (docs/durability.md). FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT: it is in the log, and disk or followers were
            late. A message that breaks a limit is MESSAGE_ILLEGAL or PROPERTIES_SIZE_EXCEEDED, and nothing is stored.

        Raises
        ------
        StoreFailedError
            A write, a sync or an allocation failed, now or earlier.
        StoreClosedError
            The store is closed.
        ValueError
            A property with a separator (0x01, 0x02) in it, text that is not valid Unicode.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#putMessage, CommitLog#asyncPutMessage.
        """
        return self.putting(message)

    def append(self, message):
        """Append one message and wait for nothing: neither for the disk, under SYNC_FLUSH, nor for followers.

        `on_flushed` tells when the log is on disk up to ``phy_offset + msg_size`` of the answer, `on_replicated` when enough
        followers hold it.

        Parameters
        ----------
        message : Message

        Returns
        -------
        PutResult
            PUT_OK: the message is in the log, in the page cache at least. What is refused is refused as `put` does, also
            by a slave.

        Notes
        -----
        Errors as `put`. Source: RocketMQ 5.5.0 CommitLog#asyncPutMessage, before #handleDiskFlushAndHA.
        """
        return self.appending(message)
