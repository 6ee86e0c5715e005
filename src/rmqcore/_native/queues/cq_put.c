/* New entries: the queue and place of each, and their way into the files. */
#include "queues/cq_table_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The most places of missing messages that one step fills: 1.3 MB in the arena. */
enum { FILLERS_AT_ONCE = 1 << 16 };

/* The result for a row. LATER: the staged entries have to be written first. BACK: the caller has to pass the log before
 * it first. */
enum { PUT = 1, PASSED = 0, LATER = -1, BACK = -2 };

static const rmq_cq_entry FILLER = RMQ_CQ_FILLER;

/* Lists the queue among those of the batch; staging begins where its files end. 0, or -1 without memory. */
static int begin(rmq_cq_table *t, rmq_cq *q) {
    void *items = t->touched;
    if (rmq_cq_make_room(&items, &t->touched_room, t->touched_count + 1, sizeof *t->touched)) return -1;
    t->touched = items;
    t->touched[t->touched_count++] = q;
    q->batch = t->batch;
    q->new_first = q->first_file;
    q->new_last = q->last_file;
    q->new_end = q->end;
    q->new_max_phy = q->max_phy;
    q->new_last_phy = -1;
    q->fillers = 0;
    q->entries = 0;
    q->missing = 0;
    q->leap_pos = -1;
    q->begins = 0;
    return 0;
}

static inline int64_t end_of_message(int64_t phy_offset, int32_t msg_size) {
    int64_t end;
    return __builtin_add_overflow(phy_offset, (int64_t)msg_size, &end) ? INT64_MAX : end;
}

/* Makes room for entries from new_end up to `end`, in further files if the last one is full. 1, or 0 if no file can
 * follow. */
static inline int extend(const rmq_cq_table *t, rmq_cq *q, int64_t end) {
    if (end > q->new_last + t->file_size) {
        const int64_t last = end - UNIT - (end - UNIT) % t->file_size;
        if (last > INT64_MAX - 2 * t->file_size) return 0;
        q->new_last = last;
    }
    q->entries += (end - q->new_end) / UNIT;
    q->new_end = end;
    return 1;
}

/* Where the queue's last message begins, -1 if unknown. */
static int64_t last_phy(rmq_cq_table *t, rmq_cq *q) {
    uint8_t bytes[UNIT];
    if (q->new_last_phy >= 0) return q->new_last_phy;
    if (rmq_cq_read(t, q, q->end / UNIT - 1, 1, bytes, 0) != 1) return -1;
    const rmq_cq_entry entry = rmq_cq_load(bytes);
    return rmq_cq_is_filler(entry) ? -1 : entry.phy_offset;
}

static int64_t room_before(rmq_cq_table *t, rmq_cq *q, int64_t phy_offset) {
    return rmq_cq_room(t->topics[q->topic], last_phy(t, q), q->new_max_phy, phy_offset);
}

/* More messages are missing before an entry than the log has room for. A single record like this has a damaged queue
 * offset. But if the queue's next record continues behind it, at most a file of places away, the queue's numbers did
 * leap, as after a broker's recovery that added a queue's entries twice: then both count. This puts off the first of
 * them. */
static int put_off(rmq_cq_table *t, rmq_cq *q, const rmq_cq_entry *entry, int64_t want) {
    q->ahead_pos = want - q->new_end <= t->file_size ? want : -1;
    q->ahead = *entry;
    t->counts.refused++;
    return PASSED;
}

/* The record's entry does not follow the queue's last one: makes new_end the place `want`. PUT, PASSED, LATER or BACK. */
static int reach(rmq_cq_table *t, rmq_cq *q, const rmq_cq_entry *entry, int64_t want) {
    const int64_t size = t->file_size;
    const int is_offset = want >= 0 && want <= t->most_queue_offset * UNIT;
    if (q->new_last >= 0 && want < q->new_end) {
        t->counts.repeats++;
        return PASSED;
    }
    if (!is_offset) {
        t->counts.refused++;
        return PASSED;
    }
    const int begins = q->new_last < 0;
    const int holds_nothing = !begins && q->new_end == q->new_first && q->new_max_phy < 0;
    const int starts_here = begins || (holds_nothing && want < q->new_end + size);
    const int leaps = !starts_here && q->ahead_pos >= q->new_end && want == q->ahead_pos + UNIT;
    if (!starts_here && !leaps && (want - q->new_end) / UNIT > room_before(t, q, entry->phy_offset)) {
        return put_off(t, q, entry, want);
    }
    if (want != 0 && q->new_max_phy < t->covered_from) {
        if (q->new_max_phy < t->back_to) t->back_to = q->new_max_phy;
        return BACK;
    }
    if (starts_here) {
        /* The queue begins here. It has a file without an entry after a crash between the creation of the file and its
         * first entry, which is this one. (Java appends it at the file's start, under a wrong offset.) */
        if (begins) q->new_first = q->new_last = want - want % size;
        q->fillers = want - q->new_first;
        q->new_end = want;
        q->begins = 1;
        return PUT;
    }
    if (leaps) {
        if (q->leap_pos >= 0 && q->leap_pos != q->ahead_pos) return LATER;
        q->leap_pos = q->ahead_pos;
        q->leap = q->ahead;
    }
    /* The log lacks the messages in between. */
    const int64_t missing = (want - q->new_end) / UNIT;
    const int64_t now = missing < t->filler_room ? missing : t->filler_room;
    if (now > 0 && !extend(t, q, q->new_end + now * UNIT)) {
        t->counts.refused++;
        return PASSED;
    }
    t->filler_room -= now;
    q->missing += now;
    return now == missing ? PUT : LATER;
}

/* The rule of a queue: a record's entry lies at its queue offset. PUT if the row gets the entry at new_end - UNIT, or
 * PASSED
 * (counted as a repeat or as refused), LATER or BACK. */
static inline int stage(rmq_cq_table *t, rmq_cq *q, const rmq_cq_entry *entry, int64_t queue_offset) {
    const int64_t end_phy = end_of_message(entry->phy_offset, entry->msg_size);
    if (end_phy <= q->new_max_phy) {
        t->counts.repeats++;
        return PASSED;
    }
    int64_t want;
    if (__builtin_mul_overflow(queue_offset, (int64_t)UNIT, &want)) want = queue_offset < 0 ? -1 : INT64_MAX;
    if (want != q->new_end || q->new_last < 0) {
        const int found = reach(t, q, entry, want);
        if (found != PUT) return found;
    }
    if (!extend(t, q, q->new_end + UNIT)) {
        t->counts.refused++;
        return PASSED;
    }
    q->new_max_phy = end_phy;
    q->new_last_phy = entry->phy_offset;
    return PUT;
}

/* Chooses the queue of each row from `first` on. Returns the row at which staging ends, or -ENOMEM. */
static int64_t route(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t first, int64_t from_phy_offset,
                     const int32_t *topic_of, int32_t topic_count) {
    void *items = t->row_queues;
    if (rmq_cq_make_room(&items, &t->row_room, rows->count, sizeof *t->row_queues)) return -ENOMEM;
    t->row_queues = items;
    t->touched_count = 0;
    t->filler_room = FILLERS_AT_ONCE;
    t->batch++;
    for (int64_t i = first; i < rows->count; i++) {
        t->row_queues[i] = NULL;
        if (rows->phy_offset[i] < from_phy_offset || !rmq_has_queue_entry(rows->sys_flag[i])) continue;
        const int32_t topic_id = rows->topic_id[i];
        const int32_t topic = topic_id >= 0 && topic_id < topic_count ? topic_of[topic_id] : -1;
        if (topic < 0 || rows->queue_id[i] < 0 || rows->phy_offset[i] < 0 || rows->msg_size[i] <= 0) {
            t->counts.refused++;
            continue;
        }
        rmq_cq *q = find_slot(t, key_of(topic, rows->queue_id[i]))->queue;
        if (q == NULL && !t->adds) {
            t->stopped = 1;
            return i;
        }
        if (q == NULL) q = rmq_cq_find_or_add_held(t, topic, rows->queue_id[i]);
        if (q == NULL || (q->batch != t->batch && begin(t, q))) return -ENOMEM;
        const rmq_cq_entry entry = {rows->phy_offset[i], rows->msg_size[i], rows->tags_code[i]};
        const int found = stage(t, q, &entry, rows->queue_offset[i]);
        if (found == PUT) t->row_queues[i] = q;
        else if (found == LATER) return i;
    }
    return rows->count;
}

/* Lays out fillers up to the place `end`, and the entry that was put off. Returns the number of entries. */
static inline int64_t lay_fillers(rmq_cq_table *t, rmq_cq *q, int64_t end) {
    int64_t laid = 0;
    for (; q->pos < end; q->pos += UNIT) {
        const int leap = q->pos == q->leap_pos;
        rmq_cq_store(q->cursor, leap ? q->leap : FILLER);
        q->cursor += UNIT;
        laid += leap;
    }
    t->counts.refused -= laid;
    return laid;
}

/* Lays out the entries of rows [first, stop) in the arena, queue after queue. 0 or -ENOMEM. */
static int pack(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t first, int64_t stop) {
    int64_t bytes = 0;
    void *items = t->arena;
    for (int64_t i = 0; i < t->touched_count; i++) bytes += t->touched[i]->entries * UNIT;
    if (rmq_cq_make_room(&items, &t->arena_room, bytes, 1)) return -ENOMEM;
    t->arena = items;
    uint8_t *at = t->arena;
    for (int64_t i = 0; i < t->touched_count; i++) {
        rmq_cq *q = t->touched[i];
        q->cursor = at;
        q->pos = q->new_end - q->entries * UNIT;
        at += q->entries * UNIT;
    }
    for (int64_t i = first; i < stop; i++) {
        rmq_cq *q = t->row_queues[i];
        if (q == NULL) continue;
        lay_fillers(t, q, rows->queue_offset[i] * UNIT);
        const rmq_cq_entry entry = {rows->phy_offset[i], rows->msg_size[i], rows->tags_code[i]};
        rmq_cq_store(q->cursor, entry);
        q->cursor += UNIT;
        q->pos += UNIT;
    }
    for (int64_t i = 0; i < t->touched_count; i++) lay_fillers(t, t->touched[i], t->touched[i]->new_end);
    return 0;
}

/* Publishes written entries: counts their last message, and the fillers among them. */
static void count_written(rmq_cq_table *t, rmq_cq *q, const uint8_t *bytes, int64_t count) {
    int64_t at = count - UNIT, max_phy = -1;
    for (; at >= 0 && max_phy < 0; at -= UNIT) {
        const rmq_cq_entry entry = rmq_cq_load(bytes + at);
        if (!rmq_cq_is_filler(entry)) max_phy = end_of_message(entry.phy_offset, entry.msg_size);
    }
    if (max_phy >= 0) publish(&q->max_phy, max_phy); /* a filler has no message */
    if (q->missing == 0) return;
    for (at = 0; at < count; at += UNIT) t->counts.gaps += rmq_cq_is_filler(rmq_cq_load(bytes + at));
}

/* Writes the staged entries of one queue and counts them file by file. */
static int write_queue(rmq_cq_table *t, rmq_cq *q) {
    const int64_t size = t->file_size;
    const uint8_t *bytes = q->cursor - q->entries * UNIT;
    int64_t pos = q->new_end - q->entries * UNIT; /* of the next entry in the queue */
    int64_t file = q->last_file < 0 ? q->new_first : q->last_file;
    for (;; file += size) {
        const int create = file > q->last_file;
        const int64_t stop = q->new_end < file + size ? q->new_end : file + size;
        const int64_t count = stop - pos;
        if (count > 0) { /* else the last file is full */
            int32_t place;
            int code = rmq_cq_make_path(t, q, file, t->put_failed);
            if (code < 0) return code;
            const int fd = rmq_cq_open_to_write(t, q, file, create, t->put_failed, &place);
            if (fd < 0) return fd;
            if (q->begins && file == q->new_first) code = rmq_cq_write_fillers(fd, q->fillers);
            if (code == 0) code = rmq_cq_write_all(fd, bytes, count, pos - file);
            rmq_cq_fds_unpin(&t->fds, place, fd);
            if (code < 0 && create) { /* remove the new file: the next attempt finds the queue unchanged */
                rmq_cq_fds_forget(&t->fds, &q->open, file, file + 1);
                unlink(t->put_failed);
            }
            if (code < 0) return code;
            if (q->begins && file == q->new_first) {
                publish(&q->flushed, file);
                if (pos > 0) publish(&q->min, pos);
                publish(&q->first_file, file);
            }
            publish(&q->last_file, file);
            bytes += count;
            pos += count;
            count_written(t, q, bytes - count, count);
            publish(&q->end, pos);
        }
        if (file == q->new_last) return 0;
    }
}

static int write_touched(rmq_cq_table *t) {
    int code = 0;
    for (int64_t i = 0; code == 0 && i < t->touched_count; i++) {
        if (t->touched[i]->entries > 0) code = write_queue(t, t->touched[i]);
    }
    return code;
}

static void expect(rmq_cq_table *t, int64_t covered_from, int adds) {
    t->put_failed[0] = 0;
    t->covered_from = covered_from;
    t->adds = adds;
    t->stopped = 0;
    t->back_to = INT64_MAX;
}

static int put(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t from_phy_offset, const int32_t *topic_of,
               int32_t topic_count, int64_t *place) {
    for (int64_t first = 0; first < rows->count;) {
        const rmq_cq_counts before = t->counts;
        const int64_t stop = route(t, rows, first, from_phy_offset, topic_of, topic_count);
        if (stop < 0) return (int)stop;
        if (t->back_to != INT64_MAX) {
            t->counts = before; /* all these rows are put again */
            *place = t->back_to;
            return RMQ_CQ_GO_BACK;
        }
        int code = pack(t, rows, first, stop);
        if (code == 0) code = write_touched(t);
        if (code < 0) return code;
        if (t->stopped) {
            *place = rows->phy_offset[stop];
            return RMQ_CQ_UNKNOWN_QUEUE;
        }
        first = stop;
    }
    return 0;
}

static int put_locked(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t from_phy_offset, int64_t covered_from,
                      const int32_t *topic_of, int32_t topic_count, int adds, int64_t *place) {
    lock_writer(t);
    expect(t, covered_from, adds);
    const int code = put(t, rows, from_phy_offset, topic_of, topic_count, place);
    unlock_writer(t);
    return code;
}

int rmq_cq_put(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t from_phy_offset, int64_t covered_from,
               const int32_t *topic_of, int32_t topic_count, int64_t *back_to) {
    return put_locked(t, rows, from_phy_offset, covered_from, topic_of, topic_count, 1, back_to);
}

int rmq_cq_put_known(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t from_phy_offset, int64_t covered_from,
                     const int32_t *topic_of, int32_t topic_count, int64_t *stopped) {
    return put_locked(t, rows, from_phy_offset, covered_from, topic_of, topic_count, 0, stopped);
}

/* Stages and lays out the packed entries from `first` on. Returns the entry at which it ended, or -ENOMEM. */
static int64_t stage_run(rmq_cq_table *t, rmq_cq *q, const int64_t *queue_offsets, const uint8_t *entries,
                         int64_t first, int64_t count, int64_t *put) {
    void *items = t->arena;
    t->touched_count = 0;
    t->filler_room = FILLERS_AT_ONCE;
    t->batch++;
    if (count > INT64_MAX / UNIT - FILLERS_AT_ONCE) return -ENOMEM;
    if (rmq_cq_make_room(&items, &t->arena_room, (count - first + FILLERS_AT_ONCE) * UNIT, 1)) return -ENOMEM;
    t->arena = items;
    if (begin(t, q)) return -ENOMEM;
    q->cursor = t->arena;
    q->pos = -1;
    int64_t i = first;
    for (; i < count; i++) {
        const rmq_cq_entry entry = rmq_cq_load(entries + i * UNIT);
        if (entry.phy_offset < 0 || entry.msg_size <= 0) {
            t->counts.refused++;
            continue;
        }
        const int found = stage(t, q, &entry, queue_offsets[i]);
        if (q->pos < 0) q->pos = q->new_end - q->entries * UNIT;
        if (found == LATER) break;
        if (found != PUT) continue;
        *put += lay_fillers(t, q, queue_offsets[i] * UNIT);
        memcpy(q->cursor, entries + i * UNIT, UNIT);
        q->cursor += UNIT;
        q->pos += UNIT;
        ++*put;
    }
    if (q->pos >= 0) *put += lay_fillers(t, q, q->new_end); /* else no entry was staged */
    return i;
}

int64_t rmq_cq_put_run(rmq_cq_table *t, rmq_cq *q, const int64_t *queue_offsets, const uint8_t *entries,
                       int64_t count) {
    int64_t done = 0;
    int code = 0;
    lock_writer(t);
    expect(t, -1, 1);
    for (int64_t first = 0; code == 0 && first < count;) {
        first = stage_run(t, q, queue_offsets, entries, first, count, &done);
        code = first < 0 ? (int)first : write_touched(t);
        if (first < 0) break;
    }
    unlock_writer(t);
    return code < 0 ? code : done;
}
