#include "put/fill.h"
#include "files/mapping.h"
#include <time.h>

int rmq_fill_init(rmq_fill *fill) {
    fill->urgent = fill->stopped = 0;
    return pthread_mutex_init(&fill->mutex, NULL) == 0 ? 0 : -1;
}

void rmq_fill_destroy(rmq_fill *fill) { pthread_mutex_destroy(&fill->mutex); }

void rmq_fill_stop(rmq_fill *fill) {
    pthread_mutex_lock(&fill->mutex);
    fill->stopped = 1;
    pthread_mutex_unlock(&fill->mutex);
}

static void enter(rmq_fill *fill, int urgent) {
    if (urgent) __atomic_fetch_add(&fill->urgent, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&fill->mutex);
    if (urgent) __atomic_fetch_sub(&fill->urgent, 1, __ATOMIC_RELAXED);
}

/* The first thread that asks gets a mutex, usually the thread that just released it; so that thread waits for a moment.
 * */
static void let_urgent_first(const rmq_fill *fill) {
    enum { LOOKS = 20 };
    const struct timespec moment = {0, 50000};
    for (int i = 0; i < LOOKS && __atomic_load_n(&fill->urgent, __ATOMIC_RELAXED) > 0; i++) nanosleep(&moment, NULL);
}

static int64_t room_end(rmq_log *log, int64_t file_from_offset) {
    rmq_log_lock(log);
    const int64_t end = rmq_log_room_end(log, file_from_offset);
    rmq_log_unlock(log);
    return end;
}

static int fill_piece(rmq_log *log, const rmq_fill_file *file, int zeros, int64_t begin, int64_t end) {
    const int64_t from = begin - file->file_from_offset, to = end - file->file_from_offset;
    int code = zeros ? rmq_write_zeros(file->fd, from, to) : 0;
    if (code == 0) code = rmq_populate(file->base, (size_t)from, (size_t)to);
    if (code != 0) return code;
    rmq_log_lock(log);
    rmq_log_set_allocated(log, end);
    rmq_log_unlock(log);
    return 0;
}

/* Returns 1 if a part is left to fill. */
static int fill_once(const rmq_fill *fill, rmq_log *log, const rmq_fill_file *file, int zeros, int64_t end) {
    const int64_t begin = room_end(log, file->file_from_offset);
    if (fill->stopped || begin >= end) return 0;
    int64_t stop = begin + RMQ_FILL_PIECE - (begin - file->file_from_offset) % RMQ_FILL_PIECE;
    if (stop > end) stop = end;
    const int code = fill_piece(log, file, zeros, begin, stop);
    return code != 0 ? code : stop < end;
}

int rmq_fill_up_to(rmq_fill *fill, rmq_log *log, const rmq_fill_file *file, int64_t end, int urgent) {
    const int zeros = !rmq_is_memory(file->fd);
    for (;;) {
        enter(fill, urgent);
        const int more = fill_once(fill, log, file, zeros, end);
        pthread_mutex_unlock(&fill->mutex);
        if (more <= 0) return more;
        if (!urgent) let_urgent_first(fill);
    }
}
