"""The table of kernels that c_api.h describes, for extensions of other projects: `rmqcore.c_api` is its public home."""

from cpython.pycapsule cimport PyCapsule_New

from rmqcore._native.kernels cimport choose_crc32, rmq_crc32, rmq_crc32_fn

cdef extern from *:
    """
    #define RMQCORE_FUNCTION(result, name, parameters, arguments) .name = name,
    #define RMQCORE_ACTION(name, parameters, arguments) .name = name,
    #define RMQCORE_STRUCT(name) .size_of_##name = sizeof(name),
    static rmqcore_api rmqcore_own_table = {
        .major = RMQCORE_API_MAJOR, .minor = RMQCORE_API_MINOR, .size = sizeof(rmqcore_api),
        RMQCORE_API(RMQCORE_FUNCTION, RMQCORE_ACTION, RMQCORE_STRUCT)
    };
    #undef RMQCORE_FUNCTION
    #undef RMQCORE_ACTION
    #undef RMQCORE_STRUCT
    """
    ctypedef struct rmqcore_api:
        rmq_crc32_fn crc32
    rmqcore_api rmqcore_own_table
    const char *RMQCORE_API_NAME

choose_crc32()
rmqcore_own_table.crc32 = rmq_crc32

TABLE = PyCapsule_New(&rmqcore_own_table, RMQCORE_API_NAME, NULL)
