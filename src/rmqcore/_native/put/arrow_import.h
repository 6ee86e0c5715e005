/* Messages out of Arrow columns: the import half of the Arrow C data interface.
 *
 * 1. rmq_import_type_of reads a column's schema once; a type that the column may not have is a fault.
 * 2. rmq_import_bind checks the shape of one record batch against the types and notes where its buffers are.
 * 3. rmq_import_rows turns rows into rmq_put, some hundred at a time, with the properties string of each in an arena.
 *
 * All that the interface describes is checked before use: counts of buffers and children, pointers, lengths and offsets
 * of arrays,
 * every offset of a string or list against its neighbour and the end that the last one implies, every view against its
 * buffer's length, every dictionary index. What it does not describe (the size of a buffer of numbers) is trusted.
 *
 * A batch that breaks these rules is a fault: its producer is broken. A row whose values are not a valid message is a
 * refusal: that row has a status, and the import continues with the others. Nothing here allocates or releases memory.
 */
#ifndef RMQ_ARROW_IMPORT_H
#define RMQ_ARROW_IMPORT_H

#include "put/append.h"
#include "format/arrow_abi.h"

/* The columns of a message. */
enum {
    RMQ_IMP_TOPIC,
    RMQ_IMP_BODY,
    RMQ_IMP_QUEUE_ID,
    RMQ_IMP_TAGS,
    RMQ_IMP_KEYS,
    RMQ_IMP_PROPERTIES,
    RMQ_IMP_FLAG,
    RMQ_IMP_SYS_FLAG,
    RMQ_IMP_BORN_TIMESTAMP_MS,
    RMQ_IMP_BORN_HOST,
    RMQ_IMP_STORE_HOST,
    RMQ_IMP_RECONSUME_TIMES,
    RMQ_IMP_PREPARED_TRANSACTION_OFFSET,
    RMQ_IMP_COLUMNS,
};

/* Faults, which end the import, and refusals, which end one row. The codes are stable: the extension names them. */
enum {
    RMQ_IMP_E_TYPE = -1,    /* a type that the column may not have */
    RMQ_IMP_E_SHAPE = -2,   /* the array contradicts its schema; `what` names the part */
    RMQ_IMP_E_OFFSETS = -3, /* an offset (or view) that is negative, decreases, or leaves the data */
    RMQ_IMP_E_INDEX = -4,   /* a dictionary index outside the dictionary */
    RMQ_IMP_REFUSALS = -5,  /* this code and those below refuse one row */
    RMQ_IMP_R_NULL = RMQ_IMP_REFUSALS, /* no topic or body, a null key, a null property name */
    RMQ_IMP_R_RANGE = -6,     /* a number with no room in the field */
    RMQ_IMP_R_UTF8 = -7,      /* a string that is not UTF-8 */
    RMQ_IMP_R_SEPARATOR = -8, /* 0x02 in a text, or 0x01 in a name */
    RMQ_IMP_R_KEY = -9,       /* a key that is empty or has a space in it */
    RMQ_IMP_R_TWICE = -10,    /* a property given twice */
    RMQ_IMP_R_HOST = -11,     /* a text that is not "ip:port" or "[v6]:port" */
    RMQ_IMP_R_LIMIT = -12,    /* the message is over one of the store's limits, see its status */
};

enum { RMQ_IMP_SAMPLE = 64 };

typedef struct rmq_import_fault {
    int32_t code, column; /* column -1: the batch itself */
    int64_t row;          /* in the batch; -1: the whole column */
    int64_t found, expected;
    const char *what;
    uint32_t sample_len;
    uint8_t sample[RMQ_IMP_SAMPLE]; /* first bytes of the string at fault */
} rmq_import_fault;

/* One column, as its schema describes it. */
typedef struct rmq_import_type {
    uint8_t kind;       /* of the values, private to arrow_import.c */
    uint8_t index_kind; /* of the indices; 0: not dictionary-encoded */
    uint8_t item[2];    /* a list's items, a map's names and values: kind */
    uint8_t item_index[2];
    int64_t units; /* of a timestamp; above 0: units in a millisecond; below 0: milliseconds in a unit; else 0 */
} rmq_import_type;

/* 0, or RMQ_IMP_E_TYPE. */
int32_t rmq_import_type_of(const struct ArrowSchema *schema, int32_t column, rmq_import_type *out);

/* One array, checked. Row i of the batch is element `offset + i`, 0 <= i < length. */
typedef struct rmq_import_array {
    const uint8_t *validity; /* NULL: no nulls */
    const uint8_t *values;   /* numbers, offsets or views */
    const uint8_t *data;     /* of strings */
    uint64_t data_len;       /* the end that the last offset implies; of lists: elements of the child */
    const uint8_t *const *blocks;
    const uint8_t *block_lens; /* of views: int64 each */
    int64_t block_count;
    int64_t offset, length;
    uint8_t kind;
} rmq_import_array;

/* Strings, perhaps by dictionary: then `array` has the indices. */
typedef struct rmq_import_texts {
    rmq_import_array array, dictionary;
    int encoded;
} rmq_import_texts;

typedef struct rmq_import_column {
    rmq_import_texts texts;    /* the column's own array; texts only for string columns */
    rmq_import_texts items[2]; /* of a list or map */
    int present;
} rmq_import_column;

/* A host and the text it was read from. */
typedef struct rmq_import_host {
    const uint8_t *text; /* in the batch; NULL: none yet */
    uint64_t len;
    int v6;
    uint8_t packed[RMQ_HOST_V6_SIZE];
} rmq_import_host;

enum { RMQ_IMP_SEEN = 32768 };

typedef struct rmq_import_batch {
    const uint8_t *validity; /* of the rows themselves: a null row has null everywhere */
    int64_t offset;
    int64_t rows;
    rmq_import_column columns[RMQ_IMP_COLUMNS];
} rmq_import_batch;

/* State that all batches of one import share. */
typedef struct rmq_import {
    rmq_import_type types[RMQ_IMP_COLUMNS];
    int64_t child[RMQ_IMP_COLUMNS]; /* the column's place in a batch; -1: missing */
    int64_t children;               /* columns of a batch */
    int append_prop_crc;            /* a property __CRC32# is left out: the append writes its own */
    rmq_import_fault refusal;       /* the first refusal since code was 0 */
    rmq_import_host last[2];        /* born and store host of the row before */
    uint16_t seen[RMQ_IMP_SEEN];    /* property names of one row, open addressing: number of the entry + 1 */
} rmq_import;

/* No columns, no refusal. (`seen` may hold anything.) */
void rmq_import_init(rmq_import *import);

/* Checks one batch. 0, or RMQ_IMP_E_SHAPE or RMQ_IMP_E_OFFSETS with *fault. */
int32_t rmq_import_bind(rmq_import *import, const struct ArrowArray *array, rmq_import_batch *out,
                        rmq_import_fault *fault);

enum {
    RMQ_IMP_CHUNK = 512,
    /* A properties string has at most 32,767 bytes: longer ones are counted, not written. */
    RMQ_IMP_ARENA_SIZE = 256 * 1024,
};

/* Fills the fields without a column: hosts 127.0.0.1:0, numbers 0. One call for each item of an import is enough. */
void rmq_import_defaults(rmq_put *puts, int64_t count);

/* Turns rows [from, from + count) into items for rmq_log_append, count <= RMQ_IMP_CHUNK; the items point into the arena
 * of RMQ_IMP_ARENA_SIZE bytes. `log` is used only for its limits; NULL: the rows become records outside of a log.
 * Returns the number of items: fewer if the arena is full or the next row is a fault; 0 only with a fault, or if count
 * is 0. */
int64_t rmq_import_rows(rmq_import *import, const rmq_log *log, const rmq_import_batch *batch, int64_t from,
                        int64_t count, rmq_put *puts, uint8_t *arena, rmq_import_fault *fault);

#endif
