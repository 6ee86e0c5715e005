/* Comparing records with their queue entries, and writing entries at their places. */
#include "queues/cq_place.h"
#include "queues/cq_table_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SPAN = 4096, /* entries that are read at once */
    NO_ROW = -1,
};

typedef struct queue_rows {
    rmq_cq_seen seen;
    int64_t head, tail; /* its rows of the batch */
    uint64_t batch;
} queue_rows;

typedef struct place_slot {
    uint64_t key;
    int32_t number; /* + 1; 0: free */
} place_slot;

struct rmq_cq_compare {
    rmq_cq_table *table;
    int with_ext, none_held;
    queue_rows *queues;
    int64_t count, room;
    place_slot *slots;
    uint32_t mask;
    uint64_t batch;
    int32_t *touched;
    int64_t touched_count, touched_room;
    int64_t *next; /* row of the same queue in the batch */
    int64_t next_room;
    uint8_t *span;
};

rmq_cq_compare *rmq_cq_compare_new(rmq_cq_table *table, int with_ext, int none_held) {
    rmq_cq_compare *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->table = table;
    c->with_ext = with_ext;
    c->none_held = none_held;
    c->mask = 255;
    c->slots = calloc(c->mask + 1, sizeof *c->slots);
    c->span = malloc((size_t)SPAN * UNIT);
    if (c->slots && c->span) return c;
    rmq_cq_compare_free(c);
    return NULL;
}

void rmq_cq_compare_free(rmq_cq_compare *c) {
    if (c == NULL) return;
    free(c->queues);
    free(c->slots);
    free(c->touched);
    free(c->next);
    free(c->span);
    free(c);
}

void rmq_cq_compare_restart(rmq_cq_compare *c) {
    for (int64_t i = 0; i < c->count; i++) {
        const int32_t topic = c->queues[i].seen.topic, queue_id = c->queues[i].seen.queue_id;
        memset(&c->queues[i], 0, sizeof c->queues[i]);
        c->queues[i].seen.topic = topic;
        c->queues[i].seen.queue_id = queue_id;
    }
}

int32_t rmq_cq_compare_count(const rmq_cq_compare *c) { return (int32_t)c->count; }
rmq_cq_seen rmq_cq_compare_seen(const rmq_cq_compare *c, int32_t number) { return c->queues[number].seen; }

/* ---- queues by their keys ---- */

static place_slot *find_place(place_slot *slots, uint32_t mask, uint64_t key) {
    uint32_t at = (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
    while (slots[at].number && slots[at].key != key) at = (at + 1) & mask;
    return &slots[at];
}

static int grow(rmq_cq_compare *c) {
    if (c->mask >= 1U << 30) return -1;
    const uint32_t mask = c->mask * 2 + 1;
    place_slot *slots = calloc((size_t)mask + 1, sizeof *slots);
    if (slots == NULL) return -1;
    for (uint32_t i = 0; i <= c->mask; i++) {
        if (c->slots[i].number) *find_place(slots, mask, c->slots[i].key) = c->slots[i];
    }
    free(c->slots);
    c->slots = slots;
    c->mask = mask;
    return 0;
}

/* The number of a queue, -1 without memory. */
static int32_t number_of(rmq_cq_compare *c, int32_t topic, int32_t queue_id) {
    const uint64_t key = key_of(topic, queue_id);
    place_slot *found = find_place(c->slots, c->mask, key);
    if (found->number) return found->number - 1;
    if (c->count >= INT32_MAX - 1) return -1;
    if ((uint64_t)c->count >= c->mask / 2) {
        if (grow(c)) return -1;
        found = find_place(c->slots, c->mask, key);
    }
    void *items = c->queues;
    if (rmq_cq_make_room(&items, &c->room, c->count + 1, sizeof *c->queues)) return -1;
    c->queues = items;
    memset(&c->queues[c->count], 0, sizeof *c->queues);
    c->queues[c->count].seen.topic = topic;
    c->queues[c->count].seen.queue_id = queue_id;
    found->key = key;
    found->number = (int32_t)++c->count;
    return found->number - 1;
}

/* ---- the rows of a queue ---- */

static void count(rmq_cq_seen *s, int64_t queue_offset, int64_t phy_offset, int64_t end_phy) {
    if (s->rows == 0 || queue_offset < s->low) {
        s->low = queue_offset;
        s->low_phy = phy_offset;
    }
    s->rows++;
    s->last = queue_offset;
    s->last_phy = phy_offset;
    s->last_end = end_phy;
}

/* A row whose queue offset does not continue those of the rows before it. */
static uint8_t begin_anew(rmq_cq_seen *s, int64_t queue_offset, int64_t phy_offset, int64_t end_phy) {
    if (s->backs == 0 || s->since > 1) {
        s->prev_first = s->first;
        s->prev_last = s->last;
        s->prev_first_phy = s->first_phy;
        s->prev_last_phy = s->last_phy;
        s->prev_last_end = s->last_end;
        s->prev_low = s->low;
        s->prev_low_phy = s->low_phy;
    }
    s->backs++;
    s->first = queue_offset;
    s->first_phy = phy_offset;
    s->since = 1;
    count(s, queue_offset, phy_offset, end_phy);
    return RMQ_CQ_BACK;
}

/* Whether the log has room for `missing` messages between a row and an earlier one, [before, before_end). */
static int has_room(const rmq_cq_compare *c, const rmq_cq_seen *s, int64_t missing, int64_t before, int64_t before_end,
                    int64_t phy_offset) {
    return missing <= 0 || missing <= rmq_cq_room(c->table->topics[s->topic], before, before_end, phy_offset);
}

/* Processes the next row of a queue and returns its flags. */
static uint8_t follow(const rmq_cq_compare *c, rmq_cq_seen *s, int64_t queue_offset, int64_t phy_offset,
                      int64_t end_phy) {
    const int64_t most = c->table->file_size / UNIT; /* how far numbers leap, if they do */
    const int lone = s->backs > 0 && s->since == 1 && queue_offset > s->prev_last &&
                     has_room(c, s, queue_offset - s->prev_last - 1, s->prev_last_phy, s->prev_last_end, phy_offset);
    if (s->rows == 0) {
        s->first = queue_offset;
        s->first_phy = phy_offset;
    } else if (
        lone) { /* only one row was elsewhere, and this row continues the rows before that one: the single row is odd */
        s->first = s->prev_first;
        s->first_phy = s->prev_first_phy;
        s->low = s->prev_low;
        s->low_phy = s->prev_low_phy;
        s->backs--;
    } else if (queue_offset <= s->last) {
        return begin_anew(s, queue_offset, phy_offset, end_phy);
    } else if (!has_room(c, s, queue_offset - s->last - 1, s->last_phy, s->last_end, phy_offset)) {
        /* Its QUEUEOFFSET is damaged, or the queue's numbers did leap: the next row decides. They leap by `most` at
         * most; for a longer leap the only row before it may be the damaged one. */
        const int far = queue_offset - s->last > most;
        if (far && s->rows > 1) return RMQ_CQ_REFUSED;
        const uint8_t flag = begin_anew(s, queue_offset, phy_offset, end_phy);
        if (far) {
            s->low = queue_offset;
            s->low_phy = phy_offset;
        }
        return flag;
    }
    s->since++;
    count(s, queue_offset, phy_offset, end_phy);
    return 0;
}

/* ---- the entries in the files ---- */

/* Reads entries [index, index + count), which are in one file; missing bytes read as zeros. 0 or -errno. */
static int read_places(rmq_cq_compare *c, rmq_cq *q, int64_t index, int64_t count) {
    rmq_cq_table *t = c->table;
    const int64_t pos = index * UNIT, file = pos - pos % t->file_size;
    int64_t done = 0;
    int32_t place;
    const int fd = q == NULL ? -ENOENT : rmq_cq_open_to_read(t, q, file, 0, &place);
    if (fd < 0 && fd != -ENOENT) {
        (void)rmq_cq_make_path(t, q, file, t->put_failed);
        return fd;
    }
    int code = 0;
    while (fd >= 0 && done < count * UNIT) {
        const ssize_t got = pread(fd, c->span + done, (size_t)(count * UNIT - done), pos - file + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) code = -errno;
        if (got <= 0) break;
        done += got;
    }
    if (fd >= 0) rmq_cq_fds_unpin(&t->fds, place, fd);
    if (code < 0) (void)rmq_cq_make_path(t, q, file, t->put_failed);
    memset(c->span + done, 0, (size_t)(count * UNIT - done));
    return code;
}

static uint8_t judge(const rmq_cq_compare *c, const rmq_cq_rows *rows, int64_t row, const uint8_t *held) {
    const rmq_cq_entry want = {rows->phy_offset[row], rows->msg_size[row], rows->tags_code[row]};
    const rmq_cq_entry got = rmq_cq_load(held);
    if (got.phy_offset == want.phy_offset && got.msg_size == want.msg_size) {
        const int same = got.tags_code == want.tags_code || (c->with_ext && got.tags_code <= RMQ_CQ_EXT_ADDRESS_MAX);
        return same ? 0 : RMQ_CQ_DIFFERS | RMQ_CQ_TAGS;
    }
    return rmq_cq_is_valid(got) && !rmq_cq_is_filler(got) ? RMQ_CQ_DIFFERS | RMQ_CQ_HELD : RMQ_CQ_DIFFERS;
}

/* Compares a queue's rows of the batch, with one read for neighbouring places. 0 or -errno. */
static int compare_queue(rmq_cq_compare *c, const rmq_cq_rows *rows, int32_t number, uint8_t *flags) {
    rmq_cq *q = rmq_cq_find(c->table, c->queues[number].seen.topic, c->queues[number].seen.queue_id);
    const int64_t a_file = c->table->file_size / UNIT;
    for (int64_t row = c->queues[number].head; row != NO_ROW;) {
        const int64_t first = rows->queue_offset[row];
        const int64_t file_end = first - first % a_file + a_file;
        const int64_t limit = file_end - first < SPAN ? file_end : first + SPAN;
        int64_t last = first, stop = c->next[row];
        for (; stop != NO_ROW && rows->queue_offset[stop] > last && rows->queue_offset[stop] < limit;
             stop = c->next[stop]) {
            if (rows->queue_offset[stop] - last > 64) break;
            last = rows->queue_offset[stop];
        }
        const int code = read_places(c, q, first, last - first + 1);
        if (code < 0) return code;
        for (; row != stop; row = c->next[row]) {
            flags[row] |= judge(c, rows, row, c->span + (rows->queue_offset[row] - first) * UNIT);
        }
    }
    return 0;
}

/* ---- a batch ---- */

/* Finds the queue of each row and lists the queues with their rows. 0 or -ENOMEM. */
static int sort_rows(rmq_cq_compare *c, const rmq_cq_rows *rows, const int32_t *topic_of, int32_t topic_count,
                     uint8_t *flags, int32_t *seen) {
    void *items = c->next;
    if (rmq_cq_make_room(&items, &c->next_room, rows->count, sizeof *c->next)) return -ENOMEM;
    c->next = items;
    c->touched_count = 0;
    c->batch++;
    for (int64_t i = 0; i < rows->count; i++) {
        const int32_t topic_id = rows->topic_id[i];
        const int32_t topic = topic_id >= 0 && topic_id < topic_count ? topic_of[topic_id] : -1;
        int64_t end;
        flags[i] = 0;
        seen[i] = -1;
        if (topic < 0 || !rmq_has_queue_entry(rows->sys_flag[i])) continue;
        if (rows->queue_id[i] < 0 || rows->queue_offset[i] < 0 || rows->queue_offset[i] > c->table->most_queue_offset ||
            rows->msg_size[i] <= 0 || rows->phy_offset[i] < 0 ||
            __builtin_add_overflow(rows->phy_offset[i], (int64_t)rows->msg_size[i], &end)) {
            flags[i] = RMQ_CQ_REFUSED;
            continue;
        }
        const int32_t number = number_of(c, topic, rows->queue_id[i]);
        if (number < 0) return -ENOMEM;
        queue_rows *q = &c->queues[number];
        flags[i] = follow(c, &q->seen, rows->queue_offset[i], rows->phy_offset[i], end);
        if (flags[i] & RMQ_CQ_REFUSED) continue;
        seen[i] = number;
        if (q->batch != c->batch) {
            items = c->touched;
            if (rmq_cq_make_room(&items, &c->touched_room, c->touched_count + 1, sizeof *c->touched)) return -ENOMEM;
            c->touched = items;
            c->touched[c->touched_count++] = number;
            q->batch = c->batch;
            q->head = i;
        } else {
            c->next[q->tail] = i;
        }
        q->tail = i;
        c->next[i] = NO_ROW;
    }
    return 0;
}

int64_t rmq_cq_compare_rows(rmq_cq_compare *c, const rmq_cq_rows *rows, const int32_t *topic_of, int32_t topic_count,
                            uint8_t *flags, int32_t *seen) {
    c->table->put_failed[0] = 0;
    int code = sort_rows(c, rows, topic_of, topic_count, flags, seen);
    for (int64_t i = 0; code == 0 && !c->none_held && i < c->touched_count; i++) {
        code = compare_queue(c, rows, c->touched[i], flags);
    }
    if (code < 0) return code;
    for (int64_t i = 0; c->none_held && i < rows->count; i++) {
        if (seen[i] >= 0) flags[i] |= RMQ_CQ_DIFFERS;
    }
    int64_t found = 0;
    for (int64_t i = 0; i < rows->count; i++) found += flags[i] != 0;
    return found;
}

/* ---- writing ---- */

static int write_at(rmq_cq_table *t, rmq_cq *q, int64_t index, const uint8_t *entries, int64_t count) {
    t->put_failed[0] = 0;
    if (index < 0 || count < 0 || index > t->most_queue_offset || count > t->most_queue_offset - index) return -EFBIG;
    int64_t pos = index * UNIT;
    const int64_t end = pos + count * UNIT;
    while (pos < end) {
        const int64_t file = pos - pos % t->file_size;
        const int64_t step = (end < file + t->file_size ? end : file + t->file_size) - pos;
        int32_t place;
        int code = rmq_cq_make_path(t, q, file, t->put_failed);
        if (code < 0) return code;
        int fd = rmq_cq_open_to_write(t, q, file, 0, t->put_failed, &place);
        if (fd == -ENOENT) fd = rmq_cq_open_to_write(t, q, file, 1, t->put_failed, &place);
        if (fd < 0) return fd;
        code = rmq_cq_write_all(fd, entries, step, pos - file);
        rmq_cq_fds_unpin(&t->fds, place, fd);
        if (code < 0) return code;
        entries += step;
        pos += step;
    }
    return 0;
}

int rmq_cq_write_at(rmq_cq_table *t, rmq_cq *q, int64_t index, const uint8_t *entries, int64_t count) {
    lock_writer(t);
    const int code = write_at(t, q, index, entries, count);
    unlock_writer(t);
    return code;
}
