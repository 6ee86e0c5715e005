from libc.stdint cimport int64_t, uint8_t


cdef class Message:
    # What a put reads comes first.
    cdef public str topic
    cdef public object body
    # `plain`: the properties are TAGS and KEYS with these texts (None: without it), and no dict was asked for yet. Then
    # `own_properties` is made and holds the properties; the texts stay as they are.
    cdef str tags_text, keys_text
    cdef dict own_properties
    cdef public int64_t queue_id, flag, sys_flag, reconsume_times, prepared_transaction_offset
    cdef int64_t born_timestamp
    cdef bint plain
    cdef bint born_now  # born_timestamp_ms is None
    cdef bint born_v6, store_v6
    cdef uint8_t born_packed[20]
    cdef uint8_t store_packed[20]
    cdef str born_host_text, store_host_text

    cdef dict all_properties(self)
    cdef int begin(self, topic, body, queue_id, tags, keys, properties) except -1
    cdef int set_rest(
        self, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, prepared_transaction_offset
    ) except -1


# The error for what is put in the place of a message.
cdef object no_message(value)


# Raises the TypeError of a body that is no buffer; the body that no message has, None, is told by the put.
cdef int check_body(body) except -1


# A whole number, by its `__index__` where it is no int.
cdef int64_t integer(value, str name) except? -1
