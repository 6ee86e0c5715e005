/* Pages of mapped files that are gone: another program cut the file, or the disk does not give them. The access that meets one
 * raises SIGBUS, which ends a process. Here it gets a page of zeros instead, for this process alone, and is counted: whoever
 * reads or writes a watched mapping asks afterwards.
 *
 * All signals of other origin go to the handler that was there before, or do what they do without one. The handler is set once,
 * with the first mapping; a program that sets its own later has its own.
 */
#ifndef RMQ_LOST_PAGES_H
#define RMQ_LOST_PAGES_H

#include <stddef.h>
#include <stdint.h>

typedef struct rmq_watched rmq_watched;

/* Watches a mapping until rmq_unwatch, which comes before munmap. NULL with errno: no memory, or no signal handler can be set. */
rmq_watched *rmq_watch(uint8_t *base, size_t size, int writable);
void rmq_unwatch(rmq_watched *watched);

/* Pages of this mapping that are zeros instead of what the file held. */
int64_t rmq_lost_pages(const rmq_watched *watched);

/* Where the number of lost pages of all watched mappings is kept, for a look that costs nothing. Whoever asks still watches what it read. */
const int64_t *rmq_all_lost_pages(void);

#endif
