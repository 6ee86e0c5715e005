/* Preloaded into a JVM: every disk is as full as a file says, whose path is in RMQ_DISK_USE: a number of percent. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { BLOCKS_A_PERCENT = 10000 };

static int percent(void) {
    const char *path = getenv("RMQ_DISK_USE");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    int value = 0;
    if (file == NULL || fscanf(file, "%d", &value) != 1) abort();
    fclose(file);
    return value;
}

int statvfs64(const char *path, struct statvfs64 *out) {
    if (access(path, F_OK) != 0) {
        errno = ENOENT;
        return -1;
    }
    memset(out, 0, sizeof *out);
    out->f_bsize = out->f_frsize = 4096;
    out->f_blocks = 100 * BLOCKS_A_PERCENT;
    out->f_bfree = out->f_bavail = (100 - percent()) * BLOCKS_A_PERCENT;
    return 0;
}
