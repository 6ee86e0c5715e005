/* Finding the next record after damage. A place proves itself by MAGIC, lengths that add up, PHYSICALOFFSET equal to
 * its own and BODYCRC, or as a BLANK whose size is exactly the rest of the file. */
#ifndef RMQ_RESYNC_H
#define RMQ_RESYNC_H

#include "scan/window.h"

enum { RMQ_RESYNC_COSTLY = -20 }; /* the credit does not pay for this candidate's CRC */

/* First position >= pos that proves itself, with its step code in *code (size or RMQ_R_BLANK); or a position where more
 * bytes of the file are needed to decide, with RMQ_E_SHORT; or one whose CRC costs more than *credit, with
 * RMQ_RESYNC_COSTLY; or w->len - 7 (never less than pos) with RMQ_E_MAGIC if no place does: the next window must start
 * there, a header may straddle the end. Subtracts the bytes of bodies that were hashed in vain from *credit. w must
 * require place and CRC. */
size_t rmq_resync_find(const rmq_window *w, size_t pos, uint64_t *credit, int32_t *code, rmq_record *rec);

/* The possible positions of MAGIC fields, in order; each byte is read once. Begins as {0, 0, 0}. */
typedef struct rmq_candidates {
    size_t message; /* the next one of a message record */
    size_t blank; /* the next one of a BLANK before that, or the same */
    int begun;
} rmq_candidates;

/* The first of them in [pos, limit), or limit; pos never goes back. Reads [pos + 4, limit + 8). */
size_t rmq_next_candidate(const uint8_t *buf, size_t pos, size_t limit, rmq_candidates *candidates);

/* First position in [pos, limit) whose MAGIC field starts with the bytes a, b, or limit. Reads [pos + 4, limit + 8). */
size_t rmq_next_magic(const uint8_t *buf, size_t pos, size_t limit, uint8_t a, uint8_t b);

/* Number of bytes of buf up to and including the last one that is not 0. */
size_t rmq_used_bytes(const uint8_t *buf, size_t len);

#endif
