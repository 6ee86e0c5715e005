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

/* Blocks on disk for [begin, end): afterwards a store to its pages cannot fail for want of room. */
int rmq_allocate(int fd, int64_t begin, int64_t end);

/* Makes the pages of [begin, end) writable now, so that the first store to each costs no fault. What is in them stays. */
int rmq_populate(uint8_t *base, size_t begin, size_t end);

/* Takes the whole pages of [begin, end) out of the page table at once; what they hold stays in the system's cache, and the next
 * access finds it there. A write-back of a page that is mapped for writing takes it out alone, and interrupts all processors on
 * which the process runs to tell them: that was 3.2 of 3.5 CPU seconds of the flushes of 3 GiB, and the writer was interrupted for
 * every page. */
void rmq_forget_pages(uint8_t *base, size_t begin, size_t end);

/* Waits until the pages that hold [begin, end) are on disk. */
int rmq_flush(uint8_t *base, size_t begin, size_t end);

/* Asks the kernel to read [begin, end) soon. A hint: nothing to fail. */
void rmq_read_ahead(uint8_t *base, size_t begin, size_t end);

/* Where in [begin, end) the first page is that memory does not hold, so that who reads it waits for a disk; `end` where there is no such
 * page, or the system does not tell. It takes a microsecond, and another one for 16 pages that nobody has mapped. */
size_t rmq_first_cold(uint8_t *base, size_t begin, size_t end);

/* Waits until memory holds the pages of [begin, end). What cannot be read is left to the reader, who meets it again. */
void rmq_read_in(uint8_t *base, size_t begin, size_t end);

/* Says that single pages are wanted: nothing around them is read from disk with them. A hint. */
void rmq_read_at_random(uint8_t *base, size_t size);

/* Zeros on disk, past the mapping: the mapping shows them too. */
int rmq_write_zeros(int fd, int64_t begin, int64_t end);

/* Whether the file lies in memory alone (tmpfs, ramfs). */
int rmq_is_memory(int fd);

int rmq_sync(int fd);

/* Bytes of an open file, or -errno. */
int64_t rmq_size_of(int fd);

#endif
