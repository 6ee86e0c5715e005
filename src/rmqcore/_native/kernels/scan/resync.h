/* Finding the next record after damage. A place proves itself by MAGIC, lengths that add up, PHYSICALOFFSET equal to
 * where it lies and BODYCRC, or as a BLANK whose size is exactly what is left of the file. */
#ifndef RMQ_RESYNC_H
#define RMQ_RESYNC_H

#include "scan/window.h"

/* Where the record at pos would end by its own lengths: by TOTALSIZE, and by the other lengths (for a damaged TOTALSIZE).
 * Writes up to two positions in the window, answers how many. They are guesses; rmq_window_step decides. Trying them first
 * skips a damaged record's body without looking into it, so nothing forged in there is believed. */
int rmq_resync_guesses(const rmq_window *w, size_t pos, size_t guesses[2]);

/* First position >= pos that proves itself, with its step code in *code (size or RMQ_R_BLANK); or a position where more
 * bytes of the file are needed to tell, with RMQ_E_SHORT; or w->len - 7 (never less than pos) with RMQ_E_MAGIC when there is
 * none: the next window must start there, a header may straddle the end. w must ask for place and CRC. */
size_t rmq_resync_find(const rmq_window *w, size_t pos, int32_t *code, rmq_record *rec);

/* First position in [pos, limit) whose MAGIC field starts with the bytes a, b, or limit. Reads [pos + 4, limit + 8). */
size_t rmq_next_magic(const uint8_t *buf, size_t pos, size_t limit, uint8_t a, uint8_t b);

/* Bytes up to and including the last one of buf that is not 0. */
size_t rmq_used_bytes(const uint8_t *buf, size_t len);

#endif
