/* The append to the CommitLog: roll rules, PHYSICALOFFSET, QUEUEOFFSET and STORETIMESTAMP, under one lock.
 *
 * Nothing here creates a file or allocates blocks: without room an append returns what it needs, and the caller makes
 * room and calls again. So a full disk is an error code, and no byte is stored to a page without a block behind it.
 */
#ifndef RMQ_APPEND_H
#define RMQ_APPEND_H

#include "format/record.h"

/* The result of a put. RMQ_PUT_WAITING: the message is not appended yet; every other status is final. */
enum {
    RMQ_PUT_OK = 0,
    RMQ_PUT_WAITING = 1,
    RMQ_PUT_MESSAGE_ILLEGAL = 2,
    RMQ_PUT_PROPERTIES_SIZE_EXCEEDED = 3,
    RMQ_PUT_UNKNOWN_ERROR = 4, /* no memory for the queue's counter */
    RMQ_PUT_CREATE_MAPPED_FILE_FAILED = 5,
    RMQ_PUT_SERVICE_NOT_AVAILABLE = 6, /* the log was stopped before this message was appended */
    RMQ_PUT_BATCH_TOPIC = 7, /* MESSAGE_ILLEGAL: the topic has batch queues, which are not written */
};

/* Why an append returned. */
enum {
    RMQ_A_DONE = 0,
    RMQ_A_NEED_FILE = 1,  /* the file is full and the next one is missing (rmq_log_set_next) */
    RMQ_A_NEED_SPACE = 2, /* room is missing (rmq_log_set_allocated) */
    RMQ_A_STOPPED = 3,    /* rmq_log_stop was called: no message is appended any more */
    RMQ_A_ELSEWHERE = 4,  /* the log does not end where the bytes begin (rmq_log_append_raw) */
};

typedef struct rmq_put {
    rmq_message msg; /* queue_offset, phy_offset and store_timestamp are set by the append */
    int born_now;    /* BORNTIMESTAMP is the store timestamp */
    int32_t status;  /* RMQ_PUT_WAITING before, final after */
    int32_t msg_size;
    int64_t given_queue_id; /* for rmq_put_limit: msg.queue_id has only 32 bits, and is -1 for a larger number */
} rmq_put;

enum { RMQ_NO_CLOCK = -1 /* the append reads the clock itself */ };

typedef struct rmq_log rmq_log;

typedef struct rmq_log_limits {
    int64_t file_size;
    int64_t max_message_size; /* of a body; a record may have 64 KiB more */
    int append_prop_crc;
    int64_t most_topic_bytes; /* the longest topic that the target version of RocketMQ reads; 0: no limit */
    int ipv4_hosts_only;      /* that version cannot read IPv6 hosts */
} rmq_log_limits;

rmq_log *rmq_log_new(const rmq_log_limits *limits); /* NULL without memory */
void rmq_log_free(rmq_log *log);

/* The lock. The caller holds it for the functions below, except as noted. A waiter must not hold the GIL. */
int rmq_log_try_lock(rmq_log *log);
void rmq_log_lock(rmq_log *log);
void rmq_log_unlock(rmq_log *log);

/* The file that is appended to: its memory and offset, the end of its records, and the end of its room: blocks on disk
 * to which nothing else is stored at the same time. */
void rmq_log_set_file(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t wrote, int64_t allocated);
/* The file after it. Offsets count from the log's start, here and everywhere. */
void rmq_log_set_next(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t allocated);
/* The room of the current or the next file reaches up to `allocated`. */
void rmq_log_set_allocated(rmq_log *log, int64_t allocated);
/* End of the room of the file that begins at an offset; INT64_MAX if it is neither the current nor the next one, or the
 * log
 * was stopped. */
int64_t rmq_log_room_end(const rmq_log *log, int64_t file_from_offset);

void rmq_log_stop(rmq_log *log);

/* No lock needed. */
int64_t rmq_log_wrote(const rmq_log *log);
int64_t rmq_log_file_from_offset(const rmq_log *log);
int64_t rmq_log_allocated(const rmq_log *log);
int rmq_log_has_next(const rmq_log *log);
int64_t rmq_log_max_message_size(const rmq_log *log);

/* The end of the log and the store timestamp of its last message, as of one moment. Lock held. */
void rmq_log_state(const rmq_log *log, int64_t *wrote, int64_t *store_timestamp);

/* The queue's counter or NULL without memory. Lock held while it is used. */
int64_t *rmq_log_queue_offset(rmq_log *log, const uint8_t *topic, size_t topic_len, int32_t queue_id);
/* Refuses the messages of a topic from now on (RMQ_PUT_BATCH_TOPIC). Lock held. Returns 0, -1 without memory. */
int rmq_log_close_topic(rmq_log *log, const uint8_t *topic, size_t topic_len);

/* Numbers of 0x01 (upper half) and 0x02 (lower half) in encoded properties. */
int64_t rmq_props_separators(const uint8_t *props, int64_t len);

/* Copies a text to out, which has room for it. Returns whether it has a byte below 4, as every separator is: only then
 * the caller has to look for separators. */
static inline int rmq_copy_text(uint8_t *out, const uint8_t *text, size_t len) {
    const uint64_t each = UINT64_C(0x0101010101010101), upper = each * 0xFC, top = each << 7;
    uint64_t v, found = 0;
    if (len >= 4 && len < 8) { /* two halves that may overlap */
        uint32_t first, last;
        memcpy(&first, text, sizeof first);
        memcpy(&last, text + len - 4, sizeof last);
        memcpy(out, &first, sizeof first);
        memcpy(out + len - 4, &last, sizeof last);
        v = ((uint64_t)first << 32 | last) & upper;
        return ((v - each) & ~v & top) != 0;
    }
    if (len < 4) {
        for (size_t i = 0; i < len; i++) {
            out[i] = text[i];
            found |= text[i] < 4;
        }
        return found != 0;
    }
    for (size_t i = 0;; i = i + 16 > len ? len - 8 : i + 8) {
        memcpy(&v, text + i, sizeof v);
        memcpy(out + i, &v, sizeof v);
        v &= upper;
        found |= (v - each) & ~v & top;
        if (i + 8 == len) return found != 0;
    }
}

/* Whether a topic can be stored: 1 to 255 bytes (Java's limit for any topic) that are valid as the name of a directory.
 * */
int rmq_topic_is_legal(const uint8_t *topic, size_t length);

/* Checks a message against all limits and sets put->msg_size and put->status. Needs no lock. */
void rmq_put_check(const rmq_log *log, rmq_put *put);

/* The same for a record outside of a log: refused only if a length has no room in its field. */
void rmq_put_check_record(rmq_put *put, int append_prop_crc);

/* The limit by which rmq_put_check refused a message. */
enum {
    RMQ_LIMIT_NONE,
    RMQ_LIMIT_TOPIC_LENGTH,
    RMQ_LIMIT_TOPIC_NAME,  /* not valid as the name of a directory */
    RMQ_LIMIT_QUEUE_ID,    /* negative, or over 32 bits */
    RMQ_LIMIT_INNER_BATCH, /* only for topics of batch queues, which are not written */
    RMQ_LIMIT_PROPERTIES,
    RMQ_LIMIT_BODY,   /* maxMessageSize */
    RMQ_LIMIT_RECORD, /* maxMessageSize and 64 KiB */
    RMQ_LIMIT_FILE,   /* mappedFileSizeCommitLog */
    RMQ_LIMIT_V2,     /* most_topic_bytes */
    RMQ_LIMIT_IPV6,   /* ipv4_hosts_only */
};

/* The limit, the number found and the greatest allowed. RMQ_LIMIT_NONE: the message breaks no limit. */
int rmq_put_limit(const rmq_log *log, const rmq_put *put, int64_t *found, int64_t *most);

/* Appends puts[*done], ... that are RMQ_PUT_WAITING, in order, and moves *done behind the last one settled. */
int rmq_log_append(rmq_log *log, rmq_put *puts, size_t count, int64_t now_ms, size_t *done);

/* Appends one batch: all or nothing, in one file, of one topic and queue, with contiguous offsets. All are RMQ_PUT_WAITING. */
int rmq_log_append_batch(rmq_log *log, rmq_put *puts, size_t count, int64_t now_ms);

/* Appends bytes of another log, which begin at the log offset `at`, unchanged: whole records, the last one with this
 * store timestamp, with room for a BLANK behind them in their file; or the rest of a file, which begins with a BLANK.
 * The counters of queues do not change. The caller has checked the bytes. */
int rmq_log_append_raw(rmq_log *log, const uint8_t *bytes, int64_t size, int64_t at, int64_t store_timestamp);

/* rmq_log_append_batch if `whole` is set (the items are one batch), else rmq_log_append. */
static inline int rmq_log_append_any(rmq_log *log, rmq_put *puts, size_t count, int whole, int64_t now_ms,
                                     size_t *done) {
    if (!whole) return rmq_log_append(log, puts, count, now_ms, done);
    const int code = rmq_log_append_batch(log, puts, count, now_ms);
    if (code == RMQ_A_DONE) *done = count;
    return code;
}

int64_t rmq_now_ms(void);

#endif
