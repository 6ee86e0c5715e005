/* The system calls behind a mapped file. All return 0 or a negated errno, and none touches a page that is not mapped. */
#ifndef RMQ_MAPPING_H
#define RMQ_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* Opens an existing file of exactly `size` bytes and maps it shared. With `writable` *fd stays open, else it is -1.
 * -EINVAL with *found != size: the file has another size. */
int rmq_map_file(const char *path, size_t size, int writable, uint8_t **base, int *fd, int64_t *found);

void rmq_unmap(uint8_t *base, size_t size);
void rmq_close(int fd);

/* Allocates blocks on disk for [begin, end): afterwards a store to its pages cannot fail for lack of room. */
int rmq_allocate(int fd, int64_t begin, int64_t end);

/* Makes the pages of [begin, end) writable now, so that the first store to each costs no fault. Their content is kept.
 * */
int rmq_populate(uint8_t *base, size_t begin, size_t end);

/* Removes the whole pages of [begin, end) from the page table at once; their content stays in the system's cache, where
 * the next access finds it. A write-back removes each page that is mapped for writing by itself, and interrupts all
 * processors on which the process runs: that was 3.2 of 3.5 CPU seconds of the flushes of 3 GiB, and the writer was
 * interrupted for every page. */
void rmq_forget_pages(uint8_t *base, size_t begin, size_t end);

/* Waits until the pages that hold [begin, end) are on disk. */
int rmq_flush(uint8_t *base, size_t begin, size_t end);

/* Asks the kernel to read [begin, end) soon. A hint, which cannot fail. */
void rmq_read_ahead(uint8_t *base, size_t begin, size_t end);

/* Start of the first page in [begin, end) that is not in memory, so that a read waits for a disk; `end` if all are, or
 * the system does not report it. It takes a microsecond, and another one for 16 pages that are not mapped. */
size_t rmq_first_cold(uint8_t *base, size_t begin, size_t end);

/* Waits until the pages of [begin, end) are in memory. Read errors are left to the reader, which meets them again. */
void rmq_read_in(uint8_t *base, size_t begin, size_t end);

/* Advises random access: the disk reads of a page do not include the pages around it. A hint. */
void rmq_read_at_random(uint8_t *base, size_t size);

/* Writes zeros to the file, past the mapping: the mapping shows them too. */
int rmq_write_zeros(int fd, int64_t begin, int64_t end);

/* Whether the file lies only in memory (tmpfs, ramfs). */
int rmq_is_memory(int fd);

int rmq_sync(int fd);

/* Bytes of an open file, or -errno. */
int64_t rmq_size_of(int fd);

#endif
