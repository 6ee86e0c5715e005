#include "put/arrow_import.h"
#include "put/arrow_values.h"
#include <string.h>

void rmq_import_init(rmq_import *import) {
    memset(import, 0, offsetof(rmq_import, seen));
    for (int id = 0; id < RMQ_IMP_COLUMNS; id++) import->child[id] = -1;
}

/* ---- types ---------------------------------------------------------------------------------------- */

static uint8_t number_kind(const char *format) {
    static const char letters[] = "cCsSiIlL"; /* in the order of the kinds */
    const char *at = format[0] && !format[1] ? strchr(letters, format[0]) : NULL;
    return at ? (uint8_t)(RMQ_IK_I8 + (at - letters)) : RMQ_IK_NONE;
}

static uint8_t text_kind(const char *format, int binary) {
    if (strcmp(format, "n") == 0) return RMQ_IK_NULL;
    if (strcmp(format, binary ? "z" : "u") == 0) return RMQ_IK_TEXT32;
    if (strcmp(format, binary ? "Z" : "U") == 0) return RMQ_IK_TEXT64;
    if (strcmp(format, binary ? "vz" : "vu") == 0) return RMQ_IK_VIEW;
    return RMQ_IK_NONE;
}

/* The kind of a column of strings, plain or by dictionary; RMQ_IK_NONE for any other column. */
static uint8_t texts_kind(const struct ArrowSchema *schema, int binary, uint8_t *index_kind) {
    *index_kind = RMQ_IK_NONE;
    if (schema == NULL || schema->format == NULL) return RMQ_IK_NONE;
    if (schema->dictionary == NULL) return text_kind(schema->format, binary);
    *index_kind = number_kind(schema->format);
    if (*index_kind == RMQ_IK_NONE || schema->dictionary->format == NULL || schema->dictionary->dictionary) {
        return RMQ_IK_NONE;
    }
    return text_kind(schema->dictionary->format, binary);
}

static int timestamp_units(const char *format, int64_t *units) {
    if (strncmp(format, "ts", 2) != 0 || format[2] == '\0' || format[3] != ':') return 0;
    switch (format[2]) {
        case 's':
            *units = -1000;
            return 1;
        case 'm':
            *units = 1;
            return 1;
        case 'u':
            *units = 1000;
            return 1;
        case 'n':
            *units = 1000000;
            return 1;
        default:
            return 0;
    }
}

static const struct ArrowSchema *child_schema(const struct ArrowSchema *schema, int64_t n, int64_t of) {
    return schema && schema->n_children == of && schema->children ? schema->children[n] : NULL;
}

int32_t rmq_import_type_of(const struct ArrowSchema *schema, int32_t column, rmq_import_type *out) {
    memset(out, 0, sizeof *out);
    if (schema->format == NULL) return RMQ_IMP_E_TYPE;
    const char *format = schema->format;
    if (strcmp(format, "n") == 0 && schema->dictionary == NULL) {
        out->kind = RMQ_IK_NULL;
        return 0;
    }
    const struct ArrowSchema *entries;
    switch (column) {
        case RMQ_IMP_TOPIC:
        case RMQ_IMP_BODY:
        case RMQ_IMP_TAGS:
        case RMQ_IMP_BORN_HOST:
        case RMQ_IMP_STORE_HOST:
            out->kind = texts_kind(schema, column == RMQ_IMP_BODY, &out->index_kind);
            break;
        case RMQ_IMP_KEYS:
            if (schema->dictionary) break;
            if (strcmp(format, "+l") == 0) out->kind = RMQ_IK_LIST32;
            if (strcmp(format, "+L") == 0) out->kind = RMQ_IK_LIST64;
            out->item[0] = texts_kind(child_schema(schema, 0, 1), 0, &out->item_index[0]);
            if (out->item[0] == RMQ_IK_NONE) out->kind = RMQ_IK_NONE;
            break;
        case RMQ_IMP_PROPERTIES:
            entries = child_schema(schema, 0, 1);
            if (schema->dictionary || strcmp(format, "+m") != 0) break;
            if (entries == NULL || entries->format == NULL || strcmp(entries->format, "+s") != 0) break;
            for (int i = 0; i < 2; i++) {
                out->item[i] = texts_kind(child_schema(entries, i, 2), 0, &out->item_index[i]);
                if (out->item[i] == RMQ_IK_NONE) return RMQ_IMP_E_TYPE;
            }
            out->kind = RMQ_IK_MAP;
            break;
        case RMQ_IMP_BORN_TIMESTAMP_MS:
            if (schema->dictionary) break;
            out->kind = timestamp_units(format, &out->units) ? RMQ_IK_I64 : number_kind(format);
            break;
        default:
            if (schema->dictionary == NULL) out->kind = number_kind(format);
            break;
    }
    return out->kind == RMQ_IK_NONE ? RMQ_IMP_E_TYPE : 0;
}

/* ---- batches -------------------------------------------------------------------------------------- */

static int32_t refuse(rmq_import_fault *fault, const char *what, int64_t found, int64_t expected) {
    fault->code = RMQ_IMP_E_SHAPE;
    fault->what = what;
    fault->found = found;
    fault->expected = expected;
    return RMQ_IMP_E_SHAPE;
}

static int32_t refuse_offsets(rmq_import_fault *fault, int64_t found, int64_t expected) {
    refuse(fault, NULL, found, expected);
    return fault->code = RMQ_IMP_E_OFFSETS;
}

/* Buffers, bitmap, length and offset of an array whose elements [skip, skip + rows) will be read. */
static int32_t bind_frame(const struct ArrowArray *a, uint8_t kind, int64_t skip, int64_t rows, rmq_import_array *out,
                          rmq_import_fault *fault) {
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->length = rows;
    if (a == NULL || a->release == NULL) return refuse(fault, "array", 0, 1);
    int64_t end;
    if (a->length < 0) return refuse(fault, "length", a->length, 0);
    if (a->offset < 0) return refuse(fault, "offset", a->offset, 0);
    if (__builtin_add_overflow(skip, rows, &end) || end > a->length) return refuse(fault, "length", a->length, end);
    /* No element has more than 16 bytes; positions below stay far from the end of 64 bits. */
    if (__builtin_add_overflow(a->offset, a->length, &end) || end > INT64_MAX / 32) {
        return refuse(fault, "offset", a->offset, INT64_MAX / 32);
    }
    out->offset = a->offset + skip;
    if (kind == RMQ_IK_NULL) return 0;
    const int64_t least = kind == RMQ_IK_STRUCT                                                   ? 1
                          : kind == RMQ_IK_TEXT32 || kind == RMQ_IK_TEXT64 || kind == RMQ_IK_VIEW ? 3
                                                                                                  : 2;
    if (a->n_buffers < least || (kind != RMQ_IK_VIEW && a->n_buffers != least)) {
        return refuse(fault, "n_buffers", a->n_buffers, least);
    }
    if (a->buffers == NULL) return refuse(fault, "buffers", 0, 1);
    if (a->null_count < -1 || a->null_count > a->length) return refuse(fault, "null_count", a->null_count, a->length);
    if (a->null_count > 0 && a->buffers[0] == NULL) return refuse(fault, "validity", 0, 1);
    if (a->null_count != 0) out->validity = a->buffers[0];
    if (kind == RMQ_IK_STRUCT) return 0;
    out->values = a->buffers[1];
    if (out->values == NULL && rows > 0) return refuse(fault, "values", 0, 1);
    return 0;
}

/* *last: end of the data (or the items) of the whole array; the end of the rows would not be a limit, because offsets
 * behind them may be lower. */
static int32_t bind_offsets(const struct ArrowArray *a, const rmq_import_array *out, int64_t *last,
                            rmq_import_fault *fault) {
    *last = 0;
    if (out->length == 0) return 0;
    const int wide = out->kind == RMQ_IK_TEXT64 || out->kind == RMQ_IK_LIST64;
    const int64_t first = rmq_iv_offset(out, 0, wide);
    *last = rmq_iv_offset(out, a->length - (out->offset - a->offset), wide);
    if (first < 0) return refuse_offsets(fault, first, 0);
    if (*last < first) return refuse_offsets(fault, *last, first);
    return 0;
}

static int32_t bind_plain(const struct ArrowArray *a, uint8_t kind, int64_t skip, int64_t rows, rmq_import_array *out,
                          rmq_import_fault *fault) {
    int32_t code = bind_frame(a, kind, skip, rows, out, fault);
    if (code < 0) return code;
    if (kind == RMQ_IK_VIEW) {
        out->blocks = (const uint8_t *const *)(const void *)(a->buffers + 2);
        out->block_count = a->n_buffers - 3;
        out->block_lens = a->buffers[a->n_buffers - 1];
        if (out->block_lens == NULL && out->block_count > 0) return refuse(fault, "buffer lengths", 0, 1);
    } else if (kind == RMQ_IK_TEXT32 || kind == RMQ_IK_TEXT64) {
        int64_t last;
        code = bind_offsets(a, out, &last, fault);
        if (code < 0) return code;
        out->data = a->buffers[2];
        out->data_len = (uint64_t)last;
        if (out->data == NULL && last > 0) return refuse(fault, "data", 0, 1);
    }
    return 0;
}

static int32_t bind_texts(const struct ArrowArray *a, uint8_t kind, uint8_t index_kind, int64_t skip, int64_t rows,
                          rmq_import_texts *out, rmq_import_fault *fault) {
    out->encoded = index_kind != RMQ_IK_NONE;
    if (!out->encoded) return bind_plain(a, kind, skip, rows, &out->array, fault);
    int32_t code = bind_plain(a, index_kind, skip, rows, &out->array, fault);
    if (code < 0) return code;
    if (a->dictionary == NULL) return refuse(fault, "dictionary", 0, 1);
    return bind_plain(a->dictionary, kind, 0, a->dictionary->length, &out->dictionary, fault);
}

/* A list or map: its offsets, and the arrays of its items. */
static int32_t bind_lists(const struct ArrowArray *a, const rmq_import_type *type, int64_t skip, int64_t rows,
                          rmq_import_column *out, rmq_import_fault *fault) {
    rmq_import_array *lists = &out->texts.array;
    int64_t last;
    int32_t code = bind_frame(a, type->kind, skip, rows, lists, fault);
    if (code < 0) return code;
    code = bind_offsets(a, lists, &last, fault);
    if (code < 0) return code;
    if (a->n_children != 1 || a->children == NULL) return refuse(fault, "n_children", a->n_children, 1);
    const struct ArrowArray *items = a->children[0];
    if (items == NULL || items->length < last) return refuse(fault, "list items", items ? items->length : -1, last);
    lists->data_len = (uint64_t)last;
    if (type->kind != RMQ_IK_MAP) {
        return bind_texts(items, type->item[0], type->item_index[0], 0, last, &out->items[0], fault);
    }
    rmq_import_array entries;
    code = bind_frame(items, RMQ_IK_STRUCT, 0, last, &entries, fault);
    if (code < 0) return code;
    if (items->n_children != 2 || items->children == NULL) return refuse(fault, "n_children", items->n_children, 2);
    for (int i = 0; i < 2; i++) {
        code = bind_texts(items->children[i], type->item[i], type->item_index[i], entries.offset, last, &out->items[i],
                          fault);
        if (code < 0) return code;
    }
    return 0;
}

int32_t rmq_import_bind(rmq_import *import, const struct ArrowArray *array, rmq_import_batch *out,
                        rmq_import_fault *fault) {
    fault->column = -1;
    fault->row = -1;
    fault->sample_len = 0;
    memset(out, 0, sizeof *out);
    rmq_import_array frame;
    int32_t code = bind_frame(array, RMQ_IK_STRUCT, 0, array->length, &frame, fault);
    if (code < 0) return code;
    out->validity = frame.validity;
    out->offset = frame.offset;
    out->rows = array->length;
    import->last[0].text = import->last[1].text = NULL; /* they pointed into the batch before */
    if (array->n_children != import->children) return refuse(fault, "n_children", array->n_children, import->children);
    if (array->n_children > 0 && array->children == NULL) return refuse(fault, "children", 0, 1);
    for (int32_t id = 0; id < RMQ_IMP_COLUMNS; id++) {
        rmq_import_column *column = &out->columns[id];
        const rmq_import_type *type = &import->types[id];
        column->present = import->child[id] >= 0 && type->kind != RMQ_IK_NULL;
        if (import->child[id] < 0) continue;
        fault->column = id;
        const struct ArrowArray *a = array->children[import->child[id]];
        if (type->kind >= RMQ_IK_LIST32) {
            code = bind_lists(a, type, frame.offset, out->rows, column, fault);
        } else {
            code = bind_texts(a, type->kind, type->index_kind, frame.offset, out->rows, &column->texts, fault);
        }
        if (code < 0) return code;
    }
    return 0;
}
