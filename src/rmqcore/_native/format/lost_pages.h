/* Lost pages of mapped files: another program cut the file, or the disk cannot read them. An access to a lost page raises
 * SIGBUS, which ends a process. Here the page becomes zeros instead, for this process alone, and is counted: a reader or
 * writer of a watched mapping looks at the count afterwards.
 *
 * All signals of other origin are passed to the earlier handler, or have their default effect. The handler is set once, with
 * the first mapping; a program that later sets its own replaces it.
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

/* Address of the number of lost pages of all watched mappings, for a cheap look. The caller still watches what it read. */
const int64_t *rmq_all_lost_pages(void);

#endif
