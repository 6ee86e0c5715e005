/* The kernels of records, queue entries, index files, CRC and properties, for extensions of other projects: docs/c_api.md.
 *
 * Inline kernels are compiled into the extension. All other functions of the included headers jump through a table of the installed
 * package. rmqcore_import() compares its version and sizes with those of this file. There is no library to link.
 */
#ifndef RMQCORE_C_API_H
#define RMQCORE_C_API_H

#include <Python.h>
/* Here and not only in the kernels: in C++ a system header must not be included first inside extern "C". */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RMQCORE_LINKS_KERNELS
/* Two extensions in one process have a table each. */
#pragma GCC visibility push(hidden)
#endif
#include "_native/crc32/crc32.h"
#include "_native/format/be.h"
#include "_native/format/cq.h"
#include "_native/format/cq_bulk.h"
#include "_native/format/index_file.h"
#include "_native/format/jhash.h"
#include "_native/format/layout.h"
#include "_native/format/properties.h"
#include "_native/format/record.h"
#include "_native/format/text.h"
#include "_native/format/utf8.h"
#ifndef RMQCORE_LINKS_KERNELS
#pragma GCC visibility pop
#endif

/* An entry that is added at the end of RMQCORE_API raises the minor version. Any other change of the list, and any change of a
 * struct in it or of the meaning of an inline function or a constant, raises the major version. */
#define RMQCORE_API_MAJOR 1
#define RMQCORE_API_MINOR 0
#define RMQCORE_API_NAME "rmqcore.c_api._C_API"

/* FUNCTION(result, name, parameters, arguments), ACTION(the same, without a result), STRUCT(name): in the order of the table. */
// clang-format off: a line an entry
#define RMQCORE_API(FUNCTION, ACTION, STRUCT) \
    STRUCT(rmq_record) \
    STRUCT(rmq_message) \
    STRUCT(rmq_slice) \
    STRUCT(rmq_prop) \
    STRUCT(rmq_props_iter) \
    STRUCT(rmq_known_props) \
    STRUCT(rmq_cq_entry) \
    STRUCT(rmq_cq_columns) \
    STRUCT(rmq_index_header) \
    STRUCT(rmq_index_entry) \
    STRUCT(rmq_index_walk) \
    STRUCT(rmq_index_finding) \
    STRUCT(rmq_index_check) \
    STRUCT(rmq_delay_levels) \
    FUNCTION(const char *, rmq_crc32_name, (void), ()) \
    FUNCTION(int32_t, rmq_record_parse_any, (const uint8_t *buf, size_t left, rmq_record *out), (buf, left, out)) \
    FUNCTION(int32_t, rmq_record_check_prop_crc, (rmq_record *rec), (rec)) \
    FUNCTION(int, rmq_record_has_prop_crc, (const rmq_record *rec), (rec)) \
    FUNCTION(int64_t, rmq_record_encoded_size, (const rmq_message *msg), (msg)) \
    ACTION(rmq_record_write, (const rmq_message *msg, int64_t size, uint8_t *out), (msg, size, out)) \
    FUNCTION(int64_t, rmq_record_encode, (const rmq_message *msg, uint8_t *out, size_t room), (msg, out, room)) \
    FUNCTION(int, rmq_keys_next, (rmq_slice keys, size_t *pos, rmq_slice *word), (keys, pos, word)) \
    FUNCTION(size_t, rmq_cq_valid_prefix, (const uint8_t *buf, size_t len), (buf, len)) \
    FUNCTION(size_t, rmq_cq_prefix_below, (const uint8_t *buf, size_t len, int64_t phy_offset), (buf, len, phy_offset)) \
    FUNCTION(size_t, rmq_cq_rising_prefix, (const uint8_t *buf, size_t len, int64_t log_end, int64_t *last_end), \
             (buf, len, log_end, last_end)) \
    FUNCTION(int64_t, rmq_cq_pack, (const rmq_cq_columns *columns, size_t count, uint8_t *out, size_t room), \
             (columns, count, out, room)) \
    FUNCTION(int, rmq_index_header_decode, (const uint8_t *buf, size_t len, rmq_index_header *out), (buf, len, out)) \
    FUNCTION(int, rmq_index_header_encode, (const rmq_index_header *header, uint8_t *out, size_t room), \
             (header, out, room)) \
    FUNCTION(int32_t, rmq_index_hash, (const uint8_t *topic, size_t topic_len, const uint8_t *key, size_t key_len), \
             (topic, topic_len, key, key_len)) \
    FUNCTION(int, rmq_index_chain_walk, (rmq_index_walk *walk, const uint8_t *window, size_t len, int32_t first_index, \
                                         int64_t *out, size_t room, size_t *hits), \
             (walk, window, len, first_index, out, room, hits)) \
    FUNCTION(int64_t, rmq_index_check_entries, (rmq_index_check *check, const uint8_t *buf, size_t len, \
                                                rmq_index_finding *out, size_t room), \
             (check, buf, len, out, room)) \
    FUNCTION(int64_t, rmq_index_check_slots, (const rmq_index_check *check, const uint8_t *buf, size_t len, \
                                              size_t first_slot, rmq_index_finding *out, size_t room), \
             (check, buf, len, first_slot, out, room)) \
    FUNCTION(uint32_t, rmq_jhash_any, (uint32_t seed, const uint8_t *utf8, size_t len), (seed, utf8, len)) \
    FUNCTION(int, rmq_utf8_valid, (const uint8_t *p, size_t len), (p, len)) \
    FUNCTION(size_t, rmq_utf8_next, (const uint8_t *p, size_t left, uint32_t *cp), (p, left, cp)) \
    FUNCTION(size_t, rmq_utf8_sanitize, (const uint8_t *p, size_t len, uint8_t *out), (p, len, out)) \
    FUNCTION(char *, rmq_decimal, (char *out, int64_t value), (out, value)) \
    FUNCTION(size_t, rmq_host_text, (const uint8_t *host, int v6, char *out), (host, v6, out)) \
    FUNCTION(size_t, rmq_host_parse, (const char *text, size_t len, uint8_t *out), (text, len, out)) \
    ACTION(rmq_hex_upper, (const uint8_t *bytes, size_t len, char *out), (bytes, len, out)) \
    FUNCTION(size_t, rmq_msg_id, (const rmq_record *rec, char *out), (rec, out)) \
    FUNCTION(size_t, rmq_msg_id_text, (const uint8_t *host, int v6, int64_t phy_offset, char *out), \
             (host, v6, phy_offset, out)) \
    FUNCTION(int, rmq_msg_id_parse, (const char *text, size_t len, uint8_t *host, int *v6, int64_t *phy_offset), \
             (text, len, host, v6, phy_offset)) \
    FUNCTION(int64_t, rmq_tags_code, (const rmq_record *rec, const rmq_known_props *known, const rmq_delay_levels *levels), \
             (rec, known, levels))
// clang-format on

#define RMQCORE_FUNCTION(result, name, parameters, arguments) result(*name) parameters;
#define RMQCORE_ACTION(name, parameters, arguments) void(*name) parameters;
#define RMQCORE_STRUCT(name) size_t size_of_##name;
typedef struct rmqcore_api {
    int32_t major, minor; /* first in every version */
    size_t size; /* of this struct */
    rmq_crc32_fn crc32;
    RMQCORE_API(RMQCORE_FUNCTION, RMQCORE_ACTION, RMQCORE_STRUCT)
} rmqcore_api;
#undef RMQCORE_FUNCTION
#undef RMQCORE_ACTION
#undef RMQCORE_STRUCT

#ifdef RMQCORE_LINKS_KERNELS
/* The package's own extensions, which share the declarations: they have the functions themselves. */
static inline int rmqcore_import(void) { return 0; }
#else

/* Weak: each file of an extension that includes this one defines them, the linker keeps one. */
#define RMQCORE_ONCE __attribute__((weak, visibility("hidden")))

RMQCORE_ONCE const rmqcore_api *rmqcore_table;
RMQCORE_ONCE rmq_crc32_fn rmq_crc32;

#define RMQCORE_FUNCTION(result, name, parameters, arguments) \
    RMQCORE_ONCE result name parameters { return rmqcore_table->name arguments; }
#define RMQCORE_ACTION(name, parameters, arguments) \
    RMQCORE_ONCE void name parameters { rmqcore_table->name arguments; }
#define RMQCORE_STRUCT(name)
RMQCORE_API(RMQCORE_FUNCTION, RMQCORE_ACTION, RMQCORE_STRUCT)
#undef RMQCORE_FUNCTION
#undef RMQCORE_ACTION
#undef RMQCORE_STRUCT

/* 0, or -1 with an ImportError that names the number found and the number expected. */
static inline int rmqcore_check(const rmqcore_api *found) {
    if (found->major != RMQCORE_API_MAJOR || found->minor < RMQCORE_API_MINOR) {
        PyErr_Format(PyExc_ImportError,
                     "the C API of the installed rmqcore is %d.%d, expected %d.%d or a later %d.x: build this module "
                     "against the installed rmqcore, or install another",
                     (int)found->major, (int)found->minor, RMQCORE_API_MAJOR, RMQCORE_API_MINOR, RMQCORE_API_MAJOR);
        return -1;
    }
    if (found->size < sizeof(rmqcore_api)) {
        PyErr_Format(PyExc_ImportError, "the C API of the installed rmqcore has %zu bytes, expected at least %zu",
                     found->size, sizeof(rmqcore_api));
        return -1;
    }
#define RMQCORE_FUNCTION(result, name, parameters, arguments)
#define RMQCORE_ACTION(name, parameters, arguments)
#define RMQCORE_STRUCT(name)                                                                                         \
    if (found->size_of_##name != sizeof(name)) {                                                                     \
        PyErr_Format(PyExc_ImportError, "the struct " #name " of the installed rmqcore has %zu bytes, expected %zu", \
                     found->size_of_##name, sizeof(name));                                                           \
        return -1;                                                                                                   \
    }
    RMQCORE_API(RMQCORE_FUNCTION, RMQCORE_ACTION, RMQCORE_STRUCT)
#undef RMQCORE_FUNCTION
#undef RMQCORE_ACTION
#undef RMQCORE_STRUCT
    return 0;
}

/* Call it once, with the GIL, before any other function of this file. 0, or -1 and an exception. */
static inline int rmqcore_import(void) {
    PyObject *module = PyImport_ImportModule("rmqcore.c_api");
    if (module == NULL) return -1;
    PyObject *capsule = PyObject_GetAttrString(module, "_C_API");
    Py_DECREF(module);
    if (capsule == NULL) return -1;
    const rmqcore_api *found = (const rmqcore_api *)PyCapsule_GetPointer(capsule, RMQCORE_API_NAME);
    Py_DECREF(capsule); /* the table outlives it: an extension module is never unloaded */
    if (found == NULL || rmqcore_check(found) < 0) return -1;
    rmqcore_table = found;
    rmq_crc32 = found->crc32;
    return 0;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
