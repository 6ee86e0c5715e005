from libc.stdint cimport int64_t, uint8_t


cdef class Message:
    cdef public str topic
    cdef public object body
    cdef public dict properties
    cdef public int64_t queue_id, flag, sys_flag, reconsume_times, prepared_transaction_offset
    cdef int64_t born_timestamp
    cdef bint born_now  # born_timestamp_ms is None
    cdef str born_host_text, store_host_text
    cdef uint8_t born_packed[20]
    cdef uint8_t store_packed[20]
    cdef bint born_v6, store_v6
