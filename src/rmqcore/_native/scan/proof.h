/* Whether a place of a file proves itself, decided by a few small reads, for any length that a record there claims.
 *
 * The lengths come from the two ends of the record; a body's CRC comes from states (crc32/crc32_states.h). So each
 * place takes constant time, and a forged length allocates no memory. Positions count from the file's first byte.
 */
#ifndef RMQ_PROOF_H
#define RMQ_PROOF_H

#include "crc32/crc32_states.h"
#include "scan/resync.h"

enum {
    RMQ_PROOF_FETCH = -100, /* fetch failed */
    RMQ_PROOF_BLOCK = 4096, /* the largest block of states */
};

typedef struct rmq_prover {
    rmq_window window; /* the bytes in memory */
    int64_t file_from_offset; /* CommitLog offset of the file */
    /* Copies bytes [pos, pos + len) of the file, which lie in it, to out; len is at most RMQ_PROOF_BLOCK. 0, or not 0 to give up. */
    int (*fetch)(void *context, int64_t pos, size_t len, uint8_t *out);
    void *context;
} rmq_prover;

/* The result of rmq_window_step at pos over all bytes of the file, but without the CRC, with the same values in *rec
 * (whose `at` is NULL), and the BODYCRC field of a record in *body_crc. Or RMQ_PROOF_FETCH. 0 <= pos <= the file's end.
 * */
int32_t rmq_proof_shape(const rmq_prover *p, int64_t pos, rmq_record *rec, int32_t *body_crc);

/* The same with the CRC. The states are those of the whole file. */
int32_t rmq_proof_step(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, rmq_record *rec);

/* As rmq_resync_find over the window, from a position of the file on, but each candidate is decided: never RMQ_E_SHORT. Also
 * RMQ_PROOF_FETCH. */
int64_t rmq_proof_find(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, int32_t *code,
                       rmq_record *rec);

/* Where the record at pos would end by its own lengths: by TOTALSIZE, and by the other lengths (for a damaged TOTALSIZE).
 * Writes up to two positions behind pos and up to the file's end. Returns their number, or RMQ_PROOF_FETCH. They are
 * guesses; rmq_window_step or rmq_proof_step decides. Testing them first skips a damaged record's body without a search
 * in it, so records forged there are not found. */
int rmq_proof_guesses(const rmq_prover *p, int64_t pos, int64_t guesses[2]);

#endif
