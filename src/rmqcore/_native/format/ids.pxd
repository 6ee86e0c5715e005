from libc.stdint cimport uint8_t

cdef enum:
    HOST_V6_SIZE = 20

# Reads "ip:port" or "[v6]:port" into `out`, which has HOST_V6_SIZE bytes; gives the bytes used, 8 or 20.
cdef size_t parse_host(str text, uint8_t *out) except 0
