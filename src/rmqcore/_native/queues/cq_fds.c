#include "queues/cq_fds.h"

#include <stdlib.h>
#include <unistd.h>

int rmq_cq_fds_init(rmq_cq_fds *fds, int32_t room) {
    fds->items = calloc((size_t)room, sizeof *fds->items);
    if (fds->items == NULL) return -1;
    fds->room = room;
    fds->hand = fds->open_count = 0;
    fds->first_free = room > 0 ? 0 : -1;
    for (int32_t i = 0; i < room; i++) {
        fds->items[i].fd = -1;
        fds->items[i].next_free = i + 1 < room ? i + 1 : -1;
    }
    if (pthread_mutex_init(&fds->lock, NULL) == 0) return 0;
    free(fds->items);
    fds->items = NULL;
    return -1;
}

void rmq_cq_fds_free(rmq_cq_fds *fds) {
    if (fds->items == NULL) return;
    for (int32_t i = 0; i < fds->room; i++) {
        if (fds->items[i].fd >= 0) close(fds->items[i].fd);
    }
    free(fds->items);
    fds->items = NULL;
    pthread_mutex_destroy(&fds->lock);
}

/* ---- under the lock ---- */

static void detach(rmq_cq_fds *fds, int32_t place) {
    rmq_cq_open *owner = fds->items[place].owner;
    if (owner == NULL) return;
    for (int k = 0; k < RMQ_CQ_OPEN_FILES; k++) {
        if (owner->places[k] == place) owner->places[k] = -1;
    }
    fds->items[place].owner = NULL;
}

/* Frees the place and returns the descriptor, which the caller closes after it releases the lock. */
static int vacate(rmq_cq_fds *fds, int32_t place) {
    rmq_cq_fd *item = &fds->items[place];
    const int fd = item->fd;
    detach(fds, place);
    item->fd = -1;
    item->next_free = fds->first_free;
    fds->first_free = place;
    fds->open_count--;
    return fd;
}

/* A file that was not used since the hand last passed; -1 if all are pinned. */
static int32_t pick(rmq_cq_fds *fds) {
    for (int64_t step = 0; step < 2 * (int64_t)fds->room; step++) {
        const int32_t place = fds->hand;
        rmq_cq_fd *item = &fds->items[place];
        fds->hand = place + 1 < fds->room ? place + 1 : 0;
        if (item->fd < 0 || item->pins > 0) continue;
        if (!item->used) return place;
        item->used = 0;
    }
    return -1;
}

static int pin(rmq_cq_fds *fds, const rmq_cq_open *owner, int64_t file, int32_t *place) {
    for (int k = 0; k < RMQ_CQ_OPEN_FILES; k++) {
        const int32_t at = owner->places[k];
        if (at < 0 || fds->items[at].file != file) continue;
        fds->items[at].pins++;
        fds->items[at].used = 1;
        *place = at;
        return fds->items[at].fd;
    }
    return -1;
}

/* ---- the functions ---- */

int rmq_cq_fds_find(rmq_cq_fds *fds, rmq_cq_open *owner, int64_t file, int32_t *place) {
    pthread_mutex_lock(&fds->lock);
    const int fd = pin(fds, owner, file, place);
    pthread_mutex_unlock(&fds->lock);
    return fd;
}

int rmq_cq_fds_add(rmq_cq_fds *fds, rmq_cq_open *owner, int64_t file, int fd, int32_t *place) {
    int unused[2] = {-1, -1}; /* closed below, without the lock */
    pthread_mutex_lock(&fds->lock);
    const int found = pin(fds, owner, file, place);
    if (found >= 0) {
        pthread_mutex_unlock(&fds->lock);
        close(fd);
        return found;
    }
    int k = 0;
    while (k < RMQ_CQ_OPEN_FILES && owner->places[k] >= 0) k++;
    if (k ==
        RMQ_CQ_OPEN_FILES) { /* the queue's own older file makes room: a queue has one last file and one reader's place */
        for (k = 0; k < RMQ_CQ_OPEN_FILES && fds->items[owner->places[k]].pins > 0; k++) {
        }
        if (k + 1 < RMQ_CQ_OPEN_FILES && fds->items[owner->places[k + 1]].pins == 0 &&
            fds->items[owner->places[k + 1]].file < fds->items[owner->places[k]].file) {
            k++;
        }
        if (k < RMQ_CQ_OPEN_FILES) unused[0] = vacate(fds, owner->places[k]);
    }
    *place = -1;
    if (k < RMQ_CQ_OPEN_FILES) {
        if (fds->first_free < 0) {
            const int32_t victim = pick(fds);
            if (victim >= 0) unused[1] = vacate(fds, victim);
        }
        const int32_t at = fds->first_free;
        if (at >= 0) {
            rmq_cq_fd *item = &fds->items[at];
            fds->first_free = item->next_free;
            fds->open_count++;
            item->owner = owner;
            item->file = file;
            item->fd = fd;
            item->pins = 1;
            item->used = 1;
            owner->places[k] = at;
            *place = at;
        }
    }
    pthread_mutex_unlock(&fds->lock);
    for (int i = 0; i < 2; i++) {
        if (unused[i] >= 0) close(unused[i]);
    }
    return fd;
}

void rmq_cq_fds_unpin(rmq_cq_fds *fds, int32_t place, int fd) {
    int unused = place < 0 ? fd : -1;
    if (place >= 0) {
        pthread_mutex_lock(&fds->lock);
        rmq_cq_fd *item = &fds->items[place];
        if (--item->pins == 0 && item->owner == NULL) unused = vacate(fds, place);
        pthread_mutex_unlock(&fds->lock);
    }
    if (unused >= 0) close(unused);
}

void rmq_cq_fds_forget(rmq_cq_fds *fds, rmq_cq_open *owner, int64_t first, int64_t end) {
    int unused[RMQ_CQ_OPEN_FILES];
    pthread_mutex_lock(&fds->lock);
    for (int k = 0; k < RMQ_CQ_OPEN_FILES; k++) {
        const int32_t place = owner->places[k];
        unused[k] = -1;
        if (place < 0 || fds->items[place].file < first || fds->items[place].file >= end) continue;
        if (fds->items[place].pins > 0) detach(fds, place); /* its user closes it */
        else unused[k] = vacate(fds, place);
    }
    pthread_mutex_unlock(&fds->lock);
    for (int k = 0; k < RMQ_CQ_OPEN_FILES; k++) {
        if (unused[k] >= 0) close(unused[k]);
    }
}
