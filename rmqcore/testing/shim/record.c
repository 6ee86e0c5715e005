/* The record of a process under the shim: everything that changes files, in order. Called with the mutex.
 *
 * An event is its kind, inode, place, length and bytes, in host byte order; rmqcore/testing/disks/disk_images.py reads them:
 *
 *   W  bytes of a file: by a call, or seen to differ (place: where)     T  a file's length (place: the length)
 *   C  a name was made (inode: folder, place: the new inode)            U  a name is gone
 *   R  a name changed (inode: folder, place: folder of the new name)
 *   F  a sync of a file begins, D of a folder (bytes: its names), M of a range of a file; E ends well (place: its number)
 *
 * Stores into a mapping are not calls. Before each event all mapped files are compared with their last known contents,
 * and each page that differs becomes an event of its own; when its sync begins, a file is compared as a whole. So the
 * record has all bytes that a sync makes durable, whichever call wrote them.
 */
#define _GNU_SOURCE
#include "record.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
enum { PAGE = 4096, FILES = 1 << 14 };
int record_fd = -1;
static struct file {
    uint64_t ino;
    uint8_t *bytes; /* as they were seen last */
    size_t size;
    int mappings, fd; /* while it is mapped for writing */
} files[FILES];

int plain_fstat(int fd, struct stat *status) {
    REAL(fstat);
    return real(fd, status);
}

int plain_lstat(const char *path, struct stat *status) {
    REAL(lstat);
    return real(path, status);
}

static void put_all(const void *bytes, size_t length) {
    REAL(write);
    const char *at = bytes;
    while (length > 0) {
        const ssize_t done = real(record_fd, at, length);
        if (done <= 0) abort();
        at += done;
        length -= (size_t)done;
    }
}

void record_event(char kind, uint64_t ino, int64_t place, const void *bytes, size_t length) {
    struct {
        int64_t kind, ino, place, length;
    } head = {kind, (int64_t)ino, place, (int64_t)length};
    put_all(&head, sizeof head);
    put_all(bytes, length);
}

static struct file *find_file(uint64_t ino) {
    for (uint64_t i = ino % FILES, tries = 0; tries < FILES; i = (i + 1) % FILES, tries++) {
        if (files[i].ino == 0) {
            files[i].ino = ino;
            files[i].fd = -1;
        }
        if (files[i].ino == ino) return &files[i];
    }
    abort();
}

static void set_size(struct file *file, size_t size) {
    uint8_t *bytes = realloc(file->bytes, size + 1);
    if (bytes == NULL) abort();
    if (size > file->size) memset(bytes + file->size, 0, size - file->size);
    file->bytes = bytes;
    file->size = size;
}

/* Records what of a file differs from what was seen of it, page by page. The descriptor may be read. */
static void see(int fd) {
    REAL(pread);
    struct stat status;
    uint8_t page[PAGE];
    if (plain_fstat(fd, &status) < 0) return;
    struct file *file = find_file(status.st_ino);
    if ((size_t)status.st_size != file->size) {
        record_event('T', file->ino, status.st_size, NULL, 0);
        set_size(file, (size_t)status.st_size);
    }
    for (size_t at = 0; at < file->size; at += PAGE) {
        const size_t want = file->size - at < PAGE ? file->size - at : PAGE;
        const ssize_t got = real(fd, page, want, (off_t)at);
        if (got <= 0 || memcmp(page, file->bytes + at, (size_t)got) == 0) continue;
        memcpy(file->bytes + at, page, (size_t)got);
        record_event('W', file->ino, (int64_t)at, page, (size_t)got);
    }
}

static int again(int fd, int flags) { /* the descriptor itself may be for writing only */
    REAL(open);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return real(link, flags);
}

void record_mapped(int fd) {
    struct stat status;
    if (plain_fstat(fd, &status) < 0) return;
    struct file *file = find_file(status.st_ino);
    if (file->mappings++ == 0) file->fd = again(fd, O_RDONLY | O_CLOEXEC);
}

void record_unmapped(uint64_t ino) {
    struct file *file = find_file(ino);
    if (record_fd >= 0) see(file->fd);
    if (--file->mappings > 0) return;
    close(file->fd);
    file->fd = -1;
}

void record_what_is_mapped(void) {
    for (int i = 0; i < FILES; i++)
        if (files[i].mappings > 0) see(files[i].fd);
}

int64_t record_new_sync(void) {
    static int64_t syncs;
    return ++syncs;
}

void record_sync_of(int fd, int64_t number) {
    REAL(openat);
    struct stat status;
    if (plain_fstat(fd, &status) < 0) return;
    if (S_ISDIR(status.st_mode)) {
        static char listing[1 << 20];
        size_t used = 0;
        const int copy = real(fd, ".", O_RDONLY | O_DIRECTORY);
        DIR *directory = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;
        while (directory != NULL && (entry = readdir(directory)) != NULL) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            used += (size_t)snprintf(listing + used, sizeof listing - used, "%llu %d %s%c",
                                     (unsigned long long)entry->d_ino, entry->d_type == DT_DIR, entry->d_name, 0);
        }
        if (directory != NULL) closedir(directory);
        record_event('D', status.st_ino, number, listing, used);
    } else {
        const int copy = again(fd, O_RDONLY);
        if (copy < 0) abort();
        see(copy);
        close(copy);
        record_event('F', status.st_ino, number, NULL, 0);
    }
}

static uint64_t folder_of(const char *path, const char **name) {
    char folder[8192];
    struct stat status;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    *name = slash == NULL ? path : path + (slash - folder) + 1;
    if (slash == NULL) snprintf(folder, sizeof folder, ".");
    else *slash = 0;
    return plain_lstat(folder, &status) < 0 ? 0 : status.st_ino;
}

void record_name(char kind, const char *path, int is_folder) {
    const char *name;
    const uint64_t folder = folder_of(path, &name);
    struct stat status = {0};
    if (kind == 'C') plain_lstat(path, &status);
    if (kind == 'C' && !is_folder) set_size(find_file(status.st_ino), 0); /* whatever had this inode before */
    char text[4096];
    const int length = snprintf(text, sizeof text, "%d %s", is_folder, name);
    record_event(kind, folder, (int64_t)status.st_ino, text, (size_t)length);
}

/* Bytes that a call has written, and that the file has. */
void record_wrote(int fd, const void *bytes, size_t length, int64_t place) {
    struct stat status;
    if (plain_fstat(fd, &status) < 0) return;
    struct file *file = find_file(status.st_ino);
    if ((size_t)place + length > file->size) set_size(file, (size_t)place + length);
    memcpy(file->bytes + place, bytes, length);
    record_event('W', status.st_ino, place, bytes, length);
}

void record_resized(int fd) {
    struct stat status;
    if (plain_fstat(fd, &status) < 0) return;
    struct file *file = find_file(status.st_ino);
    set_size(file, (size_t)status.st_size);
    record_event('T', status.st_ino, status.st_size, NULL, 0);
}

void record_rename(const char *from, const char *to) {
    const char *old, *new;
    const uint64_t source = folder_of(from, &old), target = folder_of(to, &new);
    char text[8192];
    const int length = snprintf(text, sizeof text, "%s%c%s", old, 0, new);
    record_event('R', source, (int64_t)target, text, (size_t)length);
}
