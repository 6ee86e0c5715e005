#include "scan/arrow_export.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct rmq_shared_batch {
    atomic_long holds;
    rmq_batch *batch;
};

rmq_shared_batch *rmq_shared_new(rmq_batch *batch) {
    rmq_shared_batch *shared = malloc(sizeof *shared);
    if (shared == NULL) {
        rmq_batch_release(batch);
        return NULL;
    }
    atomic_init(&shared->holds, 1);
    shared->batch = batch;
    return shared;
}

void rmq_shared_hold(rmq_shared_batch *shared) { atomic_fetch_add_explicit(&shared->holds, 1, memory_order_relaxed); }

void rmq_shared_drop(rmq_shared_batch *shared) {
    if (atomic_fetch_sub_explicit(&shared->holds, 1, memory_order_acq_rel) != 1) return;
    rmq_batch_release(shared->batch);
    free(shared);
}

const rmq_batch *rmq_shared_batch_of(const rmq_shared_batch *shared) { return shared->batch; }

/* ---- schema ------------------------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        struct ArrowSchema *child = schema->children[i];
        if (child->release) child->release(child);
        free(child);
    }
    free(schema->children);
    schema->release = NULL;
}

/* Formats and names are string literals, so only the child list is owned. */
static int start_schema(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                        int64_t children) {
    memset(out, 0, sizeof *out);
    out->format = format;
    out->name = name;
    out->flags = flags;
    out->release = release_schema;
    if (children == 0) return 0;
    out->children = calloc((size_t)children, sizeof *out->children);
    return out->children ? 0 : -1;
}

/* A child that start_schema can fill in; NULL without memory. */
static struct ArrowSchema *add_schema(struct ArrowSchema *parent) {
    struct ArrowSchema *child = calloc(1, sizeof *child);
    if (child) parent->children[parent->n_children++] = child;
    return child;
}

static int add_field(struct ArrowSchema *parent, const char *format, const char *name, int64_t flags,
                     int64_t children) {
    struct ArrowSchema *child = add_schema(parent);
    return child ? start_schema(child, format, name, flags, children) : -1;
}

static int add_column_schema(struct ArrowSchema *parent, const rmq_column_type *type) {
    static const char *const formats[] = {
        [RMQ_KIND_I32] = "i",  [RMQ_KIND_I64] = "l",    [RMQ_KIND_TEXT] = "u",    [RMQ_KIND_BYTES] = "z",
        [RMQ_KIND_MAP] = "+m", [RMQ_KIND_WORDS] = "+l", [RMQ_KIND_HASHES] = "+l",
    };
    const int64_t flags = type->nullable ? ARROW_FLAG_NULLABLE : 0;
    const int64_t children = type->kind >= RMQ_KIND_MAP;
    if (add_field(parent, formats[type->kind], type->name, flags, children)) return -1;
    struct ArrowSchema *field = parent->children[parent->n_children - 1];
    switch (type->kind) {
        case RMQ_KIND_MAP:
            if (add_field(field, "+s", "entries", 0, 2)) return -1;
            if (add_field(field->children[0], "u", "key", 0, 0)) return -1;
            return add_field(field->children[0], "u", "value", ARROW_FLAG_NULLABLE, 0);
        case RMQ_KIND_WORDS:
            return add_field(field, "u", "item", ARROW_FLAG_NULLABLE, 0);
        case RMQ_KIND_HASHES:
            return add_field(field, "i", "item", ARROW_FLAG_NULLABLE, 0);
        default:
            return 0;
    }
}

int rmq_arrow_schema(const int32_t *columns, int64_t count, struct ArrowSchema *out) {
    struct ArrowSchema schema;
    int failed = start_schema(&schema, "+s", "", 0, count);
    for (int64_t i = 0; i < count && !failed; i++) {
        failed = add_column_schema(&schema, &rmq_column_types[columns[i]]);
    }
    if (failed) {
        schema.release(&schema);
        return -1;
    }
    *out = schema;
    return 0;
}

/* ---- arrays ------------------------------------------------------------------------------------- */

enum { MAX_BUFFERS = 3 };

typedef struct owned_array {
    rmq_shared_batch *shared;
    const void *buffers[MAX_BUFFERS];
} owned_array;

static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *child = array->children[i];
        if (child->release) child->release(child);
        free(child);
    }
    free(array->children);
    owned_array *owned = array->private_data;
    rmq_shared_drop(owned->shared);
    free(owned);
    array->release = NULL;
}

static int start_array(struct ArrowArray *out, rmq_shared_batch *shared, int64_t length, int64_t n_buffers,
                       int64_t children) {
    memset(out, 0, sizeof *out);
    owned_array *owned = calloc(1, sizeof *owned);
    struct ArrowArray **list = children ? calloc((size_t)children, sizeof *list) : NULL;
    if (owned == NULL || (children && list == NULL)) {
        free(owned);
        free(list);
        return -1;
    }
    rmq_shared_hold(shared);
    owned->shared = shared;
    out->length = length;
    out->n_buffers = n_buffers;
    out->buffers = owned->buffers;
    out->children = list;
    out->private_data = owned;
    out->release = release_array;
    return 0;
}

static struct ArrowArray *add_array(struct ArrowArray *parent, rmq_shared_batch *shared, int64_t length,
                                    int64_t n_buffers, int64_t children) {
    struct ArrowArray *child = malloc(sizeof *child);
    if (child == NULL || start_array(child, shared, length, n_buffers, children)) {
        free(child);
        return NULL;
    }
    parent->children[parent->n_children++] = child;
    return child;
}

static int add_strings(struct ArrowArray *parent, rmq_shared_batch *shared, const rmq_strings *s) {
    struct ArrowArray *array = add_array(parent, shared, (int64_t)s->count, 3, 0);
    if (array == NULL) return -1;
    array->buffers[1] = s->offsets;
    array->buffers[2] = s->data;
    return 0;
}

static int add_column_array(struct ArrowArray *parent, rmq_shared_batch *shared, int id) {
    const rmq_column *c = &shared->batch->columns[id];
    const int64_t rows = shared->batch->rows;
    struct ArrowArray *array;
    switch (rmq_column_types[id].kind) {
        case RMQ_KIND_I32:
        case RMQ_KIND_I64:
            if ((array = add_array(parent, shared, rows, 2, 0)) == NULL) return -1;
            array->buffers[1] = c->values.any;
            return 0;
        case RMQ_KIND_TEXT:
        case RMQ_KIND_BYTES:
            if (add_strings(parent, shared, &c->strings)) return -1;
            array = parent->children[parent->n_children - 1];
            array->null_count = c->null_count;
            if (c->null_count) array->buffers[0] = c->validity;
            return 0;
        case RMQ_KIND_MAP: {
            if ((array = add_array(parent, shared, rows, 2, 1)) == NULL) return -1;
            array->buffers[1] = c->offsets;
            struct ArrowArray *entries = add_array(array, shared, (int64_t)c->strings.count, 1, 2);
            if (entries == NULL || add_strings(entries, shared, &c->strings)) return -1;
            return add_strings(entries, shared, &c->second);
        }
        case RMQ_KIND_WORDS:
            if ((array = add_array(parent, shared, rows, 2, 1)) == NULL) return -1;
            array->buffers[1] = c->offsets;
            return add_strings(array, shared, &c->strings);
        default: {
            if ((array = add_array(parent, shared, rows, 2, 1)) == NULL) return -1;
            array->buffers[1] = c->offsets;
            struct ArrowArray *hashes = add_array(array, shared, c->offsets[rows], 2, 0);
            if (hashes == NULL) return -1;
            hashes->buffers[1] = c->values.any;
            return 0;
        }
    }
}

int rmq_arrow_array(rmq_shared_batch *shared, const int32_t *columns, int64_t count, struct ArrowArray *out) {
    struct ArrowArray array;
    if (start_array(&array, shared, shared->batch->rows, 1, count)) return -1;
    for (int64_t i = 0; i < count; i++) {
        if (add_column_array(&array, shared, columns[i])) {
            array.release(&array);
            return -1;
        }
    }
    *out = array;
    return 0;
}
