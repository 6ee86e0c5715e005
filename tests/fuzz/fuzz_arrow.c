/* Arrow columns into messages. The input makes a schema and an array whose numbers lie: offsets, indices, views, bitmaps, lengths.
 * Only what the interface itself cannot tell is kept true, the sizes of buffers; each buffer is a block of its own of exactly the
 * size that the array's length, its offset and (for strings) its last offset imply. What comes out is written as a record and
 * parsed again. Layout of the input: a stream of bytes, taken as they are needed; zeros behind its end.
 */
#include "put/arrow_import.h"
#include "crc32/crc32.h"
#include "fuzz.h"

enum { MOST_ROWS = 40, MOST_BLOCKS = 4096, MOST_DATA = 1 << 14 };

typedef struct maker {
    const uint8_t *p, *end;
    void *blocks[MOST_BLOCKS];
    int used;
} maker;

static uint8_t take(maker *m) { return m->p < m->end ? *m->p++ : 0; }

static void *block(maker *m, size_t size) {
    CHECK(m->used < MOST_BLOCKS);
    void *made = calloc(1, size ? size : 1);
    CHECK(made != NULL);
    return m->blocks[m->used++] = made;
}

static uint8_t *filled(maker *m, size_t size) {
    uint8_t *made = malloc(size ? size : 1);
    CHECK(made != NULL && m->used < MOST_BLOCKS);
    m->blocks[m->used++] = made;
    for (size_t i = 0; i < size; i++) made[i] = take(m);
    return made;
}

static void no_schema_release(struct ArrowSchema *s) { (void)s; }
static void no_array_release(struct ArrowArray *a) { (void)a; }

static struct ArrowSchema *schema(maker *m, const char *format, int64_t children) {
    struct ArrowSchema *s = block(m, sizeof *s);
    s->format = format;
    s->release = no_schema_release;
    s->n_children = children;
    if (children) s->children = block(m, (size_t)children * sizeof *s->children);
    return s;
}

/* Length, offset and null count: right, near it, or anything. A length that is too long is checked only at the root, which has
 * other arrays to compare with; anywhere else it is the size of a buffer. */
static struct ArrowArray *array(maker *m, int64_t rows, int64_t buffers, int64_t children) {
    struct ArrowArray *a = block(m, sizeof *a);
    const uint8_t control = take(m);
    a->length = rows;
    a->offset = control & 3;
    a->null_count = control & 4 ? -1 : 0;
    a->release = no_array_release;
    a->n_buffers = buffers;
    a->n_children = children;
    a->buffers = block(m, (size_t)(buffers ? buffers : 1) * sizeof *a->buffers);
    if (buffers && a->null_count) a->buffers[0] = filled(m, (size_t)(a->offset + rows + 7) / 8);
    if (children) a->children = block(m, (size_t)children * sizeof *a->children);
    if (control >= 0xF8) a->length = (int8_t)take(m);
    if (a->length > rows && children != RMQ_IMP_COLUMNS) a->length = rows;
    if (control >= 0xFC) a->null_count = (int8_t)take(m);
    if (control >= 0xFE) a->n_buffers = take(m) % (buffers + 1);
    if (control == 0xFF) a->n_children = take(m) % (children + 1);
    return a;
}

static const uint8_t WIDTHS[256] = {['c'] = 1, ['C'] = 1, ['s'] = 2, ['S'] = 2,
                                    ['i'] = 4, ['I'] = 4, ['l'] = 8, ['L'] = 8};

/* The offsets of `rows` elements, which mostly grow. Data (or items) end where the array's own length says that they end: a length
 * below `rows` makes an offset before the last one the end, and the offsets behind it may be lower. */
static int64_t offsets(maker *m, struct ArrowArray *a, int64_t rows, int wide) {
    const size_t width = wide ? 8 : 4;
    const int64_t end = a->offset + (a->length < 0 ? 0 : a->length);
    uint8_t *out = block(m, (size_t)(a->offset + rows + 1) * width);
    a->buffers[1] = out;
    int64_t last = 0, data_end = 0;
    for (int64_t i = 0; i <= a->offset + rows; i++) {
        const uint8_t step = take(m);
        last = step < 0xF0 ? last + step % 16 : step == 0xFF ? -(int64_t)take(m) : (int64_t)take(m) << (step - 0xF0);
        if (i == end && last > MOST_DATA) last = MOST_DATA;
        if (i == end) data_end = last;
        const int32_t narrow = (int32_t)last;
        if (wide) memcpy(out + (size_t)i * width, &last, 8);
        else memcpy(out + (size_t)i * width, &narrow, 4);
    }
    return data_end < 0 ? 0 : data_end;
}

static struct ArrowArray *plain_texts(maker *m, const char *format, int64_t rows) {
    if (format[0] == 'n') return array(m, rows, 0, 0);
    if (format[0] != 'v') {
        struct ArrowArray *a = array(m, rows, 3, 0);
        const int64_t size = offsets(m, a, rows, format[0] < 'a');
        a->buffers[2] = filled(m, (size_t)size);
        return a;
    }
    struct ArrowArray *a = array(m, rows, 5, 0);
    int64_t *lens = block(m, 2 * sizeof *lens);
    for (int i = 0; i < 2; i++) {
        lens[i] = take(m) % 64;
        a->buffers[2 + i] = filled(m, (size_t)lens[i]);
    }
    /* The last buffer, however many the array claims, holds the lengths: nobody could check that claim either. */
    if (a->n_buffers > 2) a->buffers[a->n_buffers - 1] = lens;
    uint8_t *views = block(m, 16 * (size_t)(a->offset + rows));
    a->buffers[1] = views;
    for (int64_t i = 0; i < a->offset + rows; i++, views += 16) {
        const int32_t len = (int8_t)take(m) % 40, where[2] = {(int8_t)take(m) % 4, (int8_t)take(m)};
        memcpy(views, &len, 4);
        if (len <= 12) {
            for (int j = 4; j < 16; j++) views[j] = take(m);
        } else {
            memcpy(views + 8, where, 8);
        }
    }
    return a;
}

/* Strings of a column, perhaps by dictionary. */
static struct ArrowArray *texts(maker *m, int binary, int64_t rows, struct ArrowSchema **type) {
    static const char *const kinds[2][4] = {{"u", "U", "vu", "n"}, {"z", "Z", "vz", "n"}};
    static const char *const indices[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    const uint8_t control = take(m);
    const char *format = kinds[binary][control & 3];
    if ((control & 0x80) == 0 || format[0] == 'n') {
        *type = schema(m, format, 0);
        return plain_texts(m, format, rows);
    }
    *type = schema(m, indices[control >> 4 & 7], 0);
    (*type)->dictionary = schema(m, format, 0);
    struct ArrowArray *a = array(m, rows, 2, 0);
    a->buffers[1] = filled(m, (size_t)(a->offset + rows) * WIDTHS[(uint8_t)(*type)->format[0]]);
    a->dictionary = plain_texts(m, format, take(m) % 8);
    return a;
}

static struct ArrowArray *numbers(maker *m, int32_t column, int64_t rows, struct ArrowSchema **type) {
    static const char *const kinds[] = {"i", "l", "c", "C", "s", "S", "I", "L"};
    static const char *const times[] = {"tss:", "tsm:", "tsu:UTC", "tsn:"};
    const uint8_t control = take(m);
    const int timestamp = column == RMQ_IMP_BORN_TIMESTAMP_MS && control & 8;
    *type = schema(m, timestamp ? times[control & 3] : kinds[control & 7], 0);
    struct ArrowArray *a = array(m, rows, 2, 0);
    a->buffers[1] = filled(m, (size_t)(a->offset + rows) * (timestamp ? 8 : WIDTHS[(uint8_t)(*type)->format[0]]));
    return a;
}

static struct ArrowArray *lists(maker *m, int32_t column, int64_t rows, struct ArrowSchema **type) {
    const int wide = column == RMQ_IMP_KEYS && take(m) & 1;
    *type = schema(m, column == RMQ_IMP_PROPERTIES ? "+m" : wide ? "+L" : "+l", 1);
    struct ArrowArray *a = array(m, rows, 2, 1);
    int64_t items = offsets(m, a, rows, wide) % 4096;
    if (take(m) < 0xF0) items += 4; /* else perhaps too few */
    if (column == RMQ_IMP_KEYS) {
        a->children[0] = texts(m, 0, items % 256, &(*type)->children[0]);
        return a;
    }
    items %= 256;
    struct ArrowSchema *entries = schema(m, "+s", 2);
    (*type)->children[0] = entries;
    struct ArrowArray *e = array(m, items, 1, 2);
    for (int i = 0; i < 2; i++) e->children[i] = texts(m, 0, e->offset + items, &entries->children[i]);
    a->children[0] = e;
    return a;
}

static void check_put(const rmq_put *put, int crc) {
    static uint8_t record[1 << 20];
    CHECK(put->status == RMQ_PUT_WAITING || put->status == RMQ_PUT_MESSAGE_ILLEGAL ||
          put->status == RMQ_PUT_PROPERTIES_SIZE_EXCEEDED);
    if (put->status != RMQ_PUT_WAITING) return;
    CHECK(put->msg.append_prop_crc == crc);
    CHECK(rmq_record_encoded_size(&put->msg) == put->msg_size && (size_t)put->msg_size <= sizeof record);
    CHECK(rmq_record_encode(&put->msg, record, sizeof record) == put->msg_size);
    rmq_record parsed;
    CHECK(rmq_record_parse(record, sizeof record, &parsed) == put->msg_size);
    CHECK(rmq_record_check_body_crc(&parsed) == 0);
    CHECK(!crc || rmq_record_check_prop_crc(&parsed) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (rmq_crc32_select("") != RMQ_CRC_OK) abort();
    maker m = {.p = input, .end = input + size, .used = 0};
    const int64_t rows = take(&m) % MOST_ROWS;
    const int wanted = take(&m) | take(&m) << 8 | 3; /* topic and body are always there */
    struct ArrowArray *root = array(&m, rows, 1, RMQ_IMP_COLUMNS);
    struct ArrowSchema *type;
    rmq_import *import = block(&m, sizeof *import);
    import->append_prop_crc = take(&m) & 1;
    const rmq_log_limits limits = {1 << 19, take(&m) & 1 ? 100 : 1 << 17, import->append_prop_crc, 0, 0};
    int64_t children = 0;
    for (int32_t column = 0; column < RMQ_IMP_COLUMNS; column++) {
        import->child[column] = -1;
        if (!(wanted >> column & 1)) continue;
        const int64_t length = root->offset + rows;
        struct ArrowArray *a;
        if (column == RMQ_IMP_KEYS || column == RMQ_IMP_PROPERTIES) a = lists(&m, column, length, &type);
        else if (column <= RMQ_IMP_TAGS && column != RMQ_IMP_QUEUE_ID)
            a = texts(&m, column == RMQ_IMP_BODY, length, &type);
        else if (column == RMQ_IMP_BORN_HOST || column == RMQ_IMP_STORE_HOST) a = texts(&m, 0, length, &type);
        else a = numbers(&m, column, length, &type);
        CHECK(rmq_import_type_of(type, column, &import->types[column]) == 0);
        root->children[children] = a;
        import->child[column] = children++;
    }
    import->children = children;
    if (root->n_children == RMQ_IMP_COLUMNS) root->n_children = children;

    rmq_log *log = rmq_log_new(&limits);
    rmq_put *puts = block(&m, RMQ_IMP_CHUNK * sizeof *puts);
    uint8_t *arena = block(&m, RMQ_IMP_ARENA_SIZE);
    rmq_import_batch batch;
    rmq_import_fault fault;
    CHECK(log != NULL);
    rmq_import_defaults(puts, RMQ_IMP_CHUNK);
    if (rmq_import_bind(import, root, &batch, &fault) == 0) {
        CHECK(batch.rows == root->length);
        const int64_t chunk = 1 + take(&m) % 8;
        for (int64_t at = 0; at < batch.rows;) {
            const int64_t left = batch.rows - at, want = left < chunk ? left : chunk;
            const int64_t made = rmq_import_rows(import, log, &batch, at, want, puts, arena, &fault);
            CHECK(made >= 0 && made <= want);
            if (made == 0) {
                CHECK(fault.code < 0 && fault.code > RMQ_IMP_REFUSALS && fault.row == at);
                break;
            }
            for (int64_t i = 0; i < made; i++) check_put(&puts[i], import->append_prop_crc);
            at += made;
        }
    } else {
        CHECK(fault.code == RMQ_IMP_E_SHAPE || fault.code == RMQ_IMP_E_OFFSETS);
    }
    rmq_log_free(log);
    while (m.used) free(m.blocks[--m.used]);
    return 0;
}
