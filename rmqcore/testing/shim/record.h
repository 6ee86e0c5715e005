/* The record of a process under the shim; the functions are called with its mutex. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

extern int record_fd; /* -1: nothing is recorded */

/* fstat and lstat as the system has them: calls.c puts its own in front of them. */
int plain_fstat(int fd, struct stat *status);
int plain_lstat(const char *path, struct stat *status);

void record_event(char kind, uint64_t ino, int64_t place, const void *bytes, size_t length);
void record_mapped(int fd);
void record_unmapped(uint64_t ino);
void record_what_is_mapped(void);
int64_t record_new_sync(void);
void record_sync_of(int fd, int64_t number);
void record_wrote(int fd, const void *bytes, size_t length, int64_t place);
void record_resized(int fd);
void record_name(char kind, const char *path, int is_folder);
void record_rename(const char *from, const char *to);
