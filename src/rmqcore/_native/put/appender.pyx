"""Appender: the way of messages into the mapped CommitLog, under one C lock.

Two rules keep it free of deadlocks, each of them enough: no thread waits for the C lock while it has the GIL, and no thread takes
the GIL while it holds the C lock. A single put keeps the GIL unless the lock is taken: letting it go costs 45 ns, more than the
append. A batch and many messages do so up to 128 KiB of records, and let the GIL go above; Arrow rows always let it go.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from rmqcore._native.format.lost_pages cimport raise_if_lost
from rmqcore._native.kernels cimport *
from rmqcore._native.put.light_counters cimport count_light, expect_light
from rmqcore._native.files.mapped_file cimport MappedFile
from rmqcore._native.put.message cimport Message, check_body, no_message
from rmqcore._native.put.message_fill cimport PROPS_ROOM, check, fill
from rmqcore._native.put.put_chunk cimport CHUNK, CHUNK_PROPS, PutChunk, batch_chunk, check_batch, check_types, new_chunk
from rmqcore._native.put.put_result cimport PutResult, no_body, refused_code, refused_put, stored_result, unstored_rows
from rmqcore._native.threads.mutex cimport Calls, PyThread_get_thread_ident

cdef enum:
    ANY = -1  # whatever the counter is; and a value that it never has
    NO_COUNTER = -2
    COUNTERS_MOVED = 100  # beside the codes RMQ_A_...: another put took the offsets that were expected of light queues

choose_crc32()

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF


@cython.final
cdef class Appender:
    """The writing end of a CommitLog.

    Parameters
    ----------
    file_size, max_message_size : int
        Bytes.
    append_prop_crc : bool
        enabledAppendPropCRC.
    make_room : callable
        ``make_room(msg_size) -> bool``: creates the next file or allocates more of the present one. It returns False when it
        cannot, and the messages that wait get CREATE_MAPPED_FILE_FAILED.
    clock : callable, optional
        Returns milliseconds; called once per put, inside the lock. Without it the system's clock is read.
    most_topic_bytes : int, optional
    ipv6_hosts : bool
        What the version of RocketMQ reads for which the log is written (`ReadableRecords`); messages beyond that are refused.
    calls : Calls, optional
        Told which thread is inside the clock: nothing that it does there may wait for the lock.

    Notes
    -----
    Thread safety: all methods may be called at once.

    Source: RocketMQ 5.5.0 CommitLog#asyncPutMessage, CommitLog.DefaultAppendMessageCallback#doAppend.
    """

    def __cinit__(self, *, int64_t file_size, int64_t max_message_size, bint append_prop_crc, make_room, clock=None,
                  Calls calls=None, most_topic_bytes=None, bint ipv6_hosts=True):
        cdef rmq_log_limits limits
        limits.file_size = file_size
        limits.max_message_size = max_message_size
        limits.append_prop_crc = append_prop_crc
        limits.most_topic_bytes = most_topic_bytes or 0
        limits.ipv4_hosts_only = not ipv6_hosts
        self.log = rmq_log_new(&limits)
        self.can_fill = rmq_fill_init(&self.filling) == 0
        if self.log == NULL or not self.can_fill:
            raise MemoryError
        self.append_prop_crc = append_prop_crc
        self.make_room = make_room
        self.clock = clock
        self.calls = calls if calls is not None else Calls()
        self.alarm = self.append_alarm = self.space_alarm = NEVER

    def __dealloc__(self):
        if self.can_fill:
            rmq_fill_destroy(&self.filling)
        rmq_log_free(self.log)

    # ---- state

    cdef int lock(self) except -1:
        if self.forbidden:
            self.refuse()
        if self.clock_caller and self.clock_caller == PyThread_get_thread_ident():
            raise RuntimeError("reentrant call: the clock of a put, or a signal handler on top of it, calls the store")
        if not rmq_log_try_lock(self.log):
            with nogil:
                rmq_log_lock(self.log)
        return 0

    @property
    def max_phy_offset(self):
        """End of the last record; all records below it are whole."""
        return rmq_log_wrote(self.log)

    cdef int64_t end_offset(self) noexcept:
        return rmq_log_wrote(self.log)

    @property
    def allocated_offset(self):
        """The log offset up to which the current file has room."""
        return rmq_log_allocated(self.log)

    @property
    def has_next_file(self):
        """True if there is a next file to roll to."""
        return rmq_log_has_next(self.log) != 0

    def state(self):
        """End of the log and store timestamp of its last message, both of the same moment."""
        cdef int64_t wrote, timestamp
        self.lock()
        rmq_log_state(self.log, &wrote, &timestamp)
        rmq_log_unlock(self.log)
        return wrote, timestamp

    def set_file(self, MappedFile file not None, int64_t wrote, int64_t allocated):
        """Append to `file` from the log offset `wrote` on; its room reaches up to `allocated`."""
        cdef int64_t file_end = file.file_from_offset + file.file_size
        if not file.writable or not file.file_from_offset <= wrote <= allocated <= file_end:
            raise ValueError(f"{file!r}: wrote {wrote}, allocated {allocated}")
        file.map()
        self.lock()
        rmq_log_set_file(self.log, file.base, file.file_from_offset, wrote, allocated)
        rmq_log_unlock(self.log)
        self.file = file

    def set_next_file(self, MappedFile file not None, int64_t allocated):
        """Roll to `file` when the current one is full; its room reaches up to the log offset `allocated`."""
        if not file.writable or not file.file_from_offset <= allocated <= file.file_from_offset + file.file_size:
            raise ValueError(f"{file!r}: allocated {allocated}")
        file.map()
        self.lock()
        if self.next_file is not None:
            # An append has rolled to the next file, or may at any moment: both files stay mapped.
            if not rmq_log_has_next(self.log):
                self.file = self.next_file
        self.next_file = file
        rmq_log_set_next(self.log, file.base, file.file_from_offset, allocated)
        rmq_log_unlock(self.log)

    def stop(self, refuse):
        """End all appends: once this returns the log does not grow, and every put calls `refuse()`, which raises.

        Nothing is stored ahead of the log any more either: another store may open the files next.
        """
        with cython.critical_section(self):
            self.raise_ended = refuse
            self.puts = ENDED
        if self.clock_caller and self.clock_caller == PyThread_get_thread_ident():
            rmq_log_stop(self.log)  # this thread has the lock, further down its stack
            return
        self.lock()
        rmq_log_stop(self.log)
        rmq_log_unlock(self.log)
        with nogil:
            rmq_fill_stop(&self.filling)

    def pause(self, bint paused):
        """Return SERVICE_NOT_AVAILABLE for all puts from now on, or accept them again; a stop is permanent."""
        with cython.critical_section(self):
            if self.puts != ENDED:
                self.puts = PAUSED if paused else TAKEN

    def release(self):
        """Close the files for good: later puts are refused."""
        self.stop(self.raise_ended)
        self.file = self.next_file = None

    def forbid(self, refuse):
        """End all puts in a forked child, without the lock: a thread that does not exist here may hold it."""
        self.raise_ended = refuse
        self.puts = ENDED
        self.forbidden = True

    cdef int64_t exchange(self, str topic, int32_t queue_id, int64_t expected, int64_t value) except? -1:
        """Give the queue offset that the next message of a queue gets; where it is `expected` (ANY: whatever it is) set it."""
        cdef bytes name = topic.encode()
        cdef int64_t *counter
        cdef int64_t found = 0
        self.lock()
        counter = rmq_log_queue_offset(self.log, name, len(name), queue_id)
        if counter != NULL:
            found = counter[0]
            if found != RMQ_QUEUE_CLOSED and (expected == ANY or found == expected):
                counter[0] = value
        rmq_log_unlock(self.log)
        if counter == NULL:
            raise MemoryError
        return found

    def next_queue_offset(self, str topic not None, int32_t queue_id):
        """The queue offset that the next message of a queue gets."""
        return self.exchange(topic, queue_id, NO_COUNTER, 0)

    def set_next_queue_offset(self, str topic not None, int32_t queue_id, int64_t value):
        """Set the queue offset that the next message of a queue gets; recovery calls this."""
        self.exchange(topic, queue_id, ANY, value)

    def restart_queue(self, str topic not None, int32_t queue_id, int64_t expected):
        """Give the next message of a queue offset 0 if it would get `expected`; return True if it will."""
        return self.exchange(topic, queue_id, expected, 0) == expected

    def close_topic(self, str topic not None):
        """Refuse the messages of a topic from now on with MESSAGE_ILLEGAL: its queues are not ours to write."""
        cdef bytes name = topic.encode()
        cdef int code
        self.lock()
        code = rmq_log_close_topic(self.log, name, len(name))
        rmq_log_unlock(self.log)
        if code:
            raise MemoryError

    def is_closed(self, str topic not None):
        """Return True if `close_topic` was called for a topic."""
        return self.exchange(topic, 0, NO_COUNTER, 0) == RMQ_QUEUE_CLOSED

    def arm_append(self, hook):
        """Call `hook()` once, after the next append."""
        self.on_append = hook
        self.append_alarm = rmq_log_wrote(self.log) + 1
        self.alarm = min(self.append_alarm, self.space_alarm)

    def arm_low_space(self, hook, int64_t phy_offset):
        """Call `hook()` once, after an append that ends at `phy_offset` or behind it."""
        self.on_low_space = hook
        self.space_alarm = phy_offset
        self.alarm = min(self.append_alarm, self.space_alarm)

    cdef int ring(self) except -1:
        cdef int64_t wrote = rmq_log_wrote(self.log)
        append_hook = space_hook = None
        if wrote >= self.append_alarm:
            self.append_alarm = NEVER
            append_hook = self.on_append
        if wrote >= self.space_alarm:
            self.space_alarm = NEVER
            space_hook = self.on_low_space
        self.alarm = min(self.append_alarm, self.space_alarm)
        if append_hook is not None:
            append_hook()
        if space_hook is not None:
            space_hook()
        return 0

    # ---- appending

    cdef inline int appended(self) except -1:
        """Checks after every append. Bytes for lost pages of the file are not stored; the next flush reports it too."""
        raise_if_lost(self.file)
        if self.next_file is not None:
            raise_if_lost(self.next_file)
        if rmq_log_wrote(self.log) >= self.alarm:
            self.ring()
        return 0

    cdef int refuse(self) except -1:
        self.raise_ended()
        raise AssertionError("a refusal raises")

    cdef PutResult refusal(self):
        """Return the result of a put while puts are paused; raise if they have ended."""
        if self.puts == ENDED:
            self.refuse()
        return refused_code(RMQ_PUT_SERVICE_NOT_AVAILABLE)

    cdef int append_held(self, rmq_put *puts, size_t n, bint whole, int64_t *now, size_t *done, list light) except -1:
        """One attempt of `append` where Python has a part in it: the injected clock, or the counters of light queues."""
        cdef int code
        cdef unsigned long me = PyThread_get_thread_ident()
        self.calls.enter(me)
        try:
            self.lock()
            try:
                if light is not None and not expect_light(self.log, light):
                    return COUNTERS_MOVED
                if self.clock is not None and now[0] == RMQ_NO_CLOCK:  # once a put, also when it comes again with more room
                    self.clock_caller = me
                    now[0] = self.clock()
                    if self.forbidden:  # the clock has forked: both processes have the lock, and one mapping
                        return RMQ_A_STOPPED
                code = rmq_log_append_any(self.log, puts, n, whole, now[0], done)
                if light is not None and code == RMQ_A_DONE and puts.status == RMQ_PUT_OK:
                    count_light(self.log, light)
            finally:
                self.clock_caller = 0
                rmq_log_unlock(self.log)
        finally:
            self.calls.leave(me)
        return code

    cdef int append_by_steps(self, rmq_put *puts, size_t n, bint whole, size_t *done, list light) except -1:
        """`append` with an injected clock or light queues; with these it may also return COUNTERS_MOVED."""
        cdef int code
        cdef int64_t now = RMQ_NO_CLOCK
        while True:
            code = self.append_held(puts, n, whole, &now, done, light)
            if code == RMQ_A_DONE or code == RMQ_A_STOPPED or code == COUNTERS_MOVED:
                break
            if not self.make_room(sum_sizes(puts, n) if whole else puts[done[0]].msg_size):
                break
        self.appended()
        return code

    cdef int append(self, rmq_put *puts, size_t n, bint whole, bint briefly, size_t *done) except -1:
        """Append prepared items (`check` was called on each), rolling and asking for room as needed.

        `whole`: they are one batch, all or nothing. `briefly`: the GIL is kept unless the lock is taken. Moves `done` behind the
        last item whose status is final, and answers RMQ_A_DONE, RMQ_A_STOPPED, or what was missing when no room could be made.
        """
        cdef int code
        if self.clock is not None:
            return self.append_by_steps(puts, n, whole, done, None)
        while True:
            if self.forbidden:  # a signal handler has forked since the call began
                return RMQ_A_STOPPED
            if briefly and rmq_log_try_lock(self.log):
                # Nothing of Python runs in here: no allocation, no exception.
                code = rmq_log_append_any(self.log, puts, n, whole, RMQ_NO_CLOCK, done)
                rmq_log_unlock(self.log)
            else:
                with nogil:
                    rmq_log_lock(self.log)
                    code = rmq_log_append_any(self.log, puts, n, whole, RMQ_NO_CLOCK, done)
                    rmq_log_unlock(self.log)
            if code == RMQ_A_DONE or code == RMQ_A_STOPPED:
                break
            if not self.make_room(sum_sizes(puts, n) if whole else puts[done[0]].msg_size):
                break
        self.appended()
        return code

    cdef int append_at_once(self, rmq_put *puts, size_t n, bint whole, bint briefly) except -1:
        """Append one message or one batch; afterwards the status of the first item is final."""
        cdef size_t done = 0
        cdef int code = self.append(puts, n, whole, briefly, &done)
        if code == RMQ_A_STOPPED:
            self.refuse()
        if code != RMQ_A_DONE:
            puts.status = RMQ_PUT_CREATE_MAPPED_FILE_FAILED
        return 0

    def put(self, message):
        """Append one message; see MessageStore.put."""
        cdef rmq_put put
        cdef uint8_t props[PROPS_ROOM]
        cdef Py_buffer buffer
        cdef int seen = 0
        if not isinstance(message, Message):
            raise no_message(message)
        # Held: a thread may change the message.
        cdef object topic = (<Message> message).topic
        cdef object body = (<Message> message).body
        if self.puts != TAKEN:
            return self.refusal()
        if body is None:
            return refused_code(RMQ_PUT_MESSAGE_ILLEGAL, no_body())
        fill(<Message> message, topic, &put, self.append_prop_crc, props, PROPS_ROOM, &seen)
        if type(body) is bytes:
            put.msg.body = <const uint8_t *> PyBytes_AS_STRING(body)
            put.msg.body_len = PyBytes_GET_SIZE(body)
            check(self.log, &put, seen)
            if put.status == RMQ_PUT_WAITING:
                self.append_at_once(&put, 1, False, True)
        else:
            check_body(body)
            PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
            try:
                put.msg.body = <const uint8_t *> buffer.buf
                put.msg.body_len = buffer.len
                check(self.log, &put, seen)
                if put.status == RMQ_PUT_WAITING:
                    self.append_at_once(&put, 1, False, True)
            finally:
                PyBuffer_Release(&buffer)
        if put.status == RMQ_PUT_OK:
            return stored_result(&put, put.msg_size, 1, None)
        return refused_put(self.log, &put)

    def put_light(self, Message message not None, list light not None):
        """Append one message whose record says the offsets that it has in light queues, and move their counters with it.

        Parameters
        ----------
        message : Message
        light : list of tuple of bytes, int and bool
            Names of light queues, the offsets that the record says, and whether these move the counter; a name that stands there
            twice counts twice.

        Returns
        -------
        PutResult or None
            None: a counter has moved meanwhile. Nothing is appended, and the caller has to ask for the offsets again.
        """
        cdef PutChunk chunk = new_chunk(self.log, self.append_prop_crc, 1, PROPS_ROOM)
        cdef rmq_put *put = chunk.puts
        cdef size_t done = 0
        cdef int code
        if self.puts != TAKEN:
            return self.refusal()
        chunk.add(message)
        if put.status == RMQ_PUT_WAITING:
            code = self.append_by_steps(put, 1, False, &done, light)
            if code == COUNTERS_MOVED:
                return None
            if code == RMQ_A_STOPPED:
                self.refuse()
            if code != RMQ_A_DONE:
                put.status = RMQ_PUT_CREATE_MAPPED_FILE_FAILED
        return stored_result(put, put.msg_size, 1, None) if put.status == RMQ_PUT_OK else chunk.refused(0)

    def put_batch(self, list messages not None):
        """Append messages of one topic and queue, all or nothing; see MessageStore.put_batch."""
        cdef Py_ssize_t count = len(messages)
        cdef PutChunk chunk
        if self.puts != TAKEN:
            return self.refusal()
        check_batch(messages)
        chunk = self.take_chunk() if count <= CHUNK else batch_chunk(self.log, self.append_prop_crc, messages)
        for place in range(count):
            if not chunk.has_room():  # only in the shared chunk, with very long properties
                chunk = batch_chunk(self.log, self.append_prop_crc, messages)
                for message in messages[:place]:
                    chunk.add(<Message> message)
            chunk.add(<Message> messages[place])
        try:
            return self.put_chunk(chunk)
        finally:
            self.give_chunk(chunk)

    cdef PutResult put_chunk(self, PutChunk chunk):
        """Append a prepared batch."""
        cdef rmq_put *puts = chunk.puts
        cdef int64_t image = 0
        cdef Py_ssize_t i
        for i in range(chunk.count):
            if puts[i].status != RMQ_PUT_WAITING:
                return chunk.refused(i)
            # 20 + body + 2 + properties: the image that a client sends, which maxMessageSize bounds as a body.
            image += 22 + puts[i].msg.body_len + puts[i].msg.props_len
        reason = chunk.broken_rule(image)
        if reason is not None:
            return refused_code(RMQ_PUT_MESSAGE_ILLEGAL, reason)
        self.append_at_once(puts, chunk.count, True, chunk.total <= BRIEF)
        if puts[0].status != RMQ_PUT_OK:
            return chunk.refused(0)
        offsets = tuple([puts[i].msg.phy_offset for i in range(chunk.count)])
        return stored_result(puts, chunk.total, chunk.count, offsets)

    def put_many(self, list messages not None):
        """Append any messages in order.

        Returns
        -------
        tuple
            Arrays of int8 status codes (indexes of `STATUSES`), int64 phy offsets and queue offsets (-1: not stored), int64 store
            timestamps; where the last record ends, 0 when nothing was stored; the place of the first message that breaks a limit,
            -1 without one, and why it does.
        """
        cdef Py_ssize_t count = len(messages), at = 0, i, place = 0
        cdef size_t settled = 0
        cdef int64_t end_offset = 0
        cdef int code
        cdef Py_ssize_t refused_at = -1
        cdef str refusal = None
        if self.puts != TAKEN:
            self.refusal()
            return *unstored_rows(count, RMQ_PUT_SERVICE_NOT_AVAILABLE), end_offset, refused_at, None
        codes, phy_offsets, queue_offsets, timestamps = unstored_rows(count, RMQ_PUT_CREATE_MAPPED_FILE_FAILED)
        cdef int8_t[::1] code_of = codes
        cdef int64_t[::1] phy_offset_of = phy_offsets
        cdef int64_t[::1] queue_offset_of = queue_offsets
        cdef int64_t[::1] timestamp_of = timestamps
        check_types(messages)
        cdef PutChunk chunk = self.take_chunk()
        while at < count and at < len(messages):
            place = at
            at = chunk.add_from(messages, at, count)
            settled = 0
            code = self.append(chunk.puts, chunk.count, False, chunk.total <= BRIEF, &settled)
            if code == RMQ_A_STOPPED and place == 0 and settled == 0:
                self.refuse()  # no message is stored, so this is the only error
            for i in range(<Py_ssize_t> settled):
                code_of[place + i] = <int8_t> chunk.puts[i].status
                if chunk.puts[i].status == RMQ_PUT_OK:
                    phy_offset_of[place + i] = chunk.puts[i].msg.phy_offset
                    queue_offset_of[place + i] = chunk.puts[i].msg.queue_offset
                    timestamp_of[place + i] = chunk.puts[i].msg.store_timestamp
                    end_offset = chunk.puts[i].msg.phy_offset + chunk.puts[i].msg_size
                elif refused_at < 0 and (reason := chunk.reason(i)) is not None:
                    refused_at = place + i
                    refusal = f"message {refused_at}: {reason}"
            if settled < <size_t> chunk.count:
                if code == RMQ_A_STOPPED:
                    codes[place + <Py_ssize_t> settled:] = RMQ_PUT_SERVICE_NOT_AVAILABLE
                break
            chunk.clear()
        else:
            codes[at:] = RMQ_PUT_MESSAGE_ILLEGAL  # another thread has removed them from the list
        self.give_chunk(chunk)
        return codes, phy_offsets, queue_offsets, timestamps, end_offset, refused_at, refusal

    cdef PutChunk take_chunk(self):
        """The chunk of an earlier call, or a new one: a MiB from the system costs more than a small call."""
        cdef PutChunk chunk = self.spare
        self.spare = None
        return chunk if chunk is not None else new_chunk(self.log, self.append_prop_crc, CHUNK, CHUNK_PROPS)

    cdef int give_chunk(self, PutChunk chunk) except -1:
        chunk.clear()
        if chunk.capacity == CHUNK:
            self.spare = chunk
        return 0


cdef int64_t sum_sizes(const rmq_put *puts, size_t n) noexcept:
    cdef int64_t total = 0
    cdef size_t i
    for i in range(n):
        total += puts[i].msg_size
    return total
