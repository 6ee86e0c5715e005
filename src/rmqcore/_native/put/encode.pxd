from libc.stdint cimport int64_t

from rmqcore._native.kernels cimport rmq_message


# The error for a message that makes no record: a length has no room in its field, which rmq_record_encoded_size names.
cdef object no_room(const rmq_message *msg, int64_t code)

# The offset of a queue that stands `number` behind another; OverflowError where a Java long has no room for it.
cdef int64_t offset_after(int64_t first, int64_t number, str name) except? -1
