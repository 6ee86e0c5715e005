/* Single values of arrays that rmq_import_bind has checked: for arrow_import.c and arrow_messages.c. All are inline, by force:
 * each is a few instructions once its kind is known, and the kind is the same for a whole column. */
#ifndef RMQ_ARROW_VALUES_H
#define RMQ_ARROW_VALUES_H

#include "put/arrow_import.h"
#include <string.h>

/* The order of the numbers is that of their letters in arrow_import.c; lists come last. */
enum {
    RMQ_IK_NONE,
    RMQ_IK_I8,
    RMQ_IK_U8,
    RMQ_IK_I16,
    RMQ_IK_U16,
    RMQ_IK_I32,
    RMQ_IK_U32,
    RMQ_IK_I64,
    RMQ_IK_U64,
    RMQ_IK_NULL,
    RMQ_IK_TEXT32,
    RMQ_IK_TEXT64,
    RMQ_IK_VIEW,
    RMQ_IK_STRUCT,
    RMQ_IK_LIST32,
    RMQ_IK_LIST64,
    RMQ_IK_MAP,
};

#define RMQ_IV_INLINE static inline __attribute__((always_inline))

/* A string, or null (p NULL). Lengths have 64 bits: a large string may be longer than 32 bits can express. */
typedef struct rmq_text {
    const uint8_t *p;
    uint64_t len;
} rmq_text;

/* Arrow's numbers have the machine's byte order; memcpy because nothing promises alignment. */
#define RMQ_IV_LOAD(type, name)                             \
    RMQ_IV_INLINE type name(const uint8_t *p, int64_t at) { \
        type v;                                             \
        memcpy(&v, p + (size_t)at * sizeof v, sizeof v);    \
        return v;                                           \
    }
RMQ_IV_LOAD(int8_t, rmq_iv_i8)
RMQ_IV_LOAD(uint8_t, rmq_iv_u8)
RMQ_IV_LOAD(int16_t, rmq_iv_i16)
RMQ_IV_LOAD(uint16_t, rmq_iv_u16)
RMQ_IV_LOAD(int32_t, rmq_iv_i32)
RMQ_IV_LOAD(uint32_t, rmq_iv_u32)
RMQ_IV_LOAD(int64_t, rmq_iv_i64)
RMQ_IV_LOAD(uint64_t, rmq_iv_u64)

RMQ_IV_INLINE int rmq_iv_valid(const rmq_import_array *a, int64_t i) {
    if (a->validity == NULL) return 1;
    const int64_t at = a->offset + i;
    return a->validity[at >> 3] >> (at & 7) & 1;
}

RMQ_IV_INLINE int64_t rmq_iv_offset(const rmq_import_array *a, int64_t i, int wide) {
    return wide ? rmq_iv_i64(a->values, a->offset + i) : rmq_iv_i32(a->values, a->offset + i);
}

/* A number in 64 bits; 0 for one above INT64_MAX, with *value as it would be signed. */
RMQ_IV_INLINE int rmq_iv_number(const rmq_import_array *a, int64_t i, int64_t *value) {
    const int64_t at = a->offset + i;
    switch (a->kind) {
        case RMQ_IK_I8:
            *value = rmq_iv_i8(a->values, at);
            return 1;
        case RMQ_IK_U8:
            *value = rmq_iv_u8(a->values, at);
            return 1;
        case RMQ_IK_I16:
            *value = rmq_iv_i16(a->values, at);
            return 1;
        case RMQ_IK_U16:
            *value = rmq_iv_u16(a->values, at);
            return 1;
        case RMQ_IK_I32:
            *value = rmq_iv_i32(a->values, at);
            return 1;
        case RMQ_IK_U32:
            *value = rmq_iv_u32(a->values, at);
            return 1;
        default:
            *value = rmq_iv_i64(a->values, at);
            return a->kind == RMQ_IK_I64 || *value >= 0;
    }
}

/* Begin and end of a string or list. */
RMQ_IV_INLINE int32_t rmq_iv_range(const rmq_import_array *a, int64_t i, int wide, uint64_t *begin, uint64_t *end) {
    *begin = (uint64_t)rmq_iv_offset(a, i, wide);
    *end = (uint64_t)rmq_iv_offset(a, i + 1, wide);
    return *begin <= *end && *end <= a->data_len ? 0 : RMQ_IMP_E_OFFSETS; /* a negative one is huge */
}

/* 0 or RMQ_IMP_E_OFFSETS; NULL is not a fault. */
RMQ_IV_INLINE int32_t rmq_iv_plain_text(const rmq_import_array *a, int64_t i, rmq_text *out) {
    out->p = NULL;
    out->len = 0;
    if (a->kind == RMQ_IK_NULL || !rmq_iv_valid(a, i)) return 0;
    if (a->kind != RMQ_IK_VIEW) {
        uint64_t begin, end;
        const int32_t code = rmq_iv_range(a, i, a->kind == RMQ_IK_TEXT64, &begin, &end);
        if (code < 0) return code;
        out->p = a->data ? a->data + begin : (const uint8_t *)"";
        out->len = end - begin;
        return 0;
    }
    const uint8_t *view = a->values + 16 * (size_t)(a->offset + i);
    const int32_t len = rmq_iv_i32(view, 0);
    if (len < 0) return RMQ_IMP_E_OFFSETS;
    if (len <= 12) {
        out->p = view + 4;
    } else {
        const int32_t block = rmq_iv_i32(view, 2), begin = rmq_iv_i32(view, 3);
        if (block < 0 || block >= a->block_count || begin < 0) return RMQ_IMP_E_OFFSETS;
        if ((int64_t)begin + len > rmq_iv_i64(a->block_lens, block) || a->blocks[block] == NULL) {
            return RMQ_IMP_E_OFFSETS;
        }
        out->p = a->blocks[block] + begin;
    }
    out->len = (uint64_t)len;
    return 0;
}

RMQ_IV_INLINE int32_t rmq_iv_text(const rmq_import_texts *t, int64_t i, rmq_text *out) {
    if (!t->encoded) return rmq_iv_plain_text(&t->array, i, out);
    out->p = NULL;
    out->len = 0;
    if (!rmq_iv_valid(&t->array, i)) return 0;
    int64_t index;
    if (!rmq_iv_number(&t->array, i, &index) || index < 0 || index >= t->dictionary.length) return RMQ_IMP_E_INDEX;
    return rmq_iv_plain_text(&t->dictionary, index, out);
}

#endif
