/* Going on behind damage inside a window, without asking the caller at each damaged place.
 *
 * The answer is that of rmqcore.disk.log_window, which walks from file to file: where the damaged record would end by its own
 * lengths, else the next place that proves itself. What a window's bytes alone do not decide is left to it. */
#ifndef RMQ_SKIP_H
#define RMQ_SKIP_H

#include "scan/dledger.h"
#include "scan/proof.h"

enum { RMQ_SKIP_HEAD = RMQ_DLEDGER_HEAD }; /* of a note: no damage, the head of a DLedger entry */

/* A damaged range, as CommitLog offsets, and what was wrong at its start, for rmqcore._native.format.codec.describe. */
typedef struct rmq_skipped {
    int64_t start, end;
    int64_t found, expected;
    int32_t code; /* RMQ_E_BODYCRC: one record whose CRC fails; else bytes that are no record */
} rmq_skipped;

typedef struct rmq_skip {
    rmq_prover *prover; /* of this file, its window the scanned one, asking for place and CRC */
    const rmq_crc32_states *states; /* of the whole file, or NULL */
    rmq_skipped *notes;
    size_t count, room;
    size_t settled; /* nobody is writing before this position of the window */
    int leave_out; /* records whose CRC fails are not taken */
    int dledger; /* sound heads of DLedger entries are passed; of damage only records whose CRC fails are told */
    int64_t credit_from; /* at each CommitLog offset behind this one so many bytes may have been hashed in vain */
    int64_t in_vain; /* how many were */
} rmq_skip;

/* Steps behind the damage at *pos, for which rmq_window_step answered `code` and *rec, and notes it. 1 with *pos where the
 * scan goes on (*trusted is then the place of a record that is taken although its CRC fails, else as it was); 0 with nothing
 * changed where the caller has to look. */
int rmq_skip_damage(rmq_skip *skip, size_t *pos, int32_t code, const rmq_record *rec, int64_t *trusted);

#endif
