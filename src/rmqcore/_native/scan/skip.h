/* Continuing behind damage inside a window, without a return to the caller at each damaged place.
 *
 * The result equals that of rmqcore.disk.log_window, which walks from file to file: where the damaged record would end
 * by its own lengths, else the next place that proves itself. If a window's bytes do not decide, it is left to that
 * walk. */
#ifndef RMQ_SKIP_H
#define RMQ_SKIP_H

#include "scan/dledger.h"
#include "scan/proof.h"

enum { RMQ_SKIP_HEAD = RMQ_DLEDGER_HEAD }; /* of a note: not damage, but the head of a DLedger entry */

/* A damaged range, as CommitLog offsets, and the fault at its start, for rmqcore._native.format.codec.describe. */
typedef struct rmq_skipped {
    int64_t start, end;
    int64_t found, expected;
    int32_t code; /* RMQ_E_BODYCRC: one record whose CRC fails; else bytes that are not a record */
} rmq_skipped;

typedef struct rmq_skip {
    rmq_prover *prover; /* of this file, its window the scanned one, which requires place and CRC */
    const rmq_crc32_states *states; /* of the whole file, or NULL */
    rmq_skipped *notes;
    size_t count, room;
    size_t settled; /* no writer changes bytes before this position of the window */
    int leave_out; /* records whose CRC fails are left out */
    int dledger; /* sound heads of DLedger entries are passed; of damage only records whose CRC fails are noted */
    int64_t credit_from; /* bytes hashed in vain at a CommitLog offset may number at most its distance from here */
    int64_t in_vain; /* number of bytes hashed in vain */
} rmq_skip;

/* Steps behind the damage at *pos, for which rmq_window_step returned `code` and *rec, and notes it. 1 with *pos where
 * the scan continues (*trusted is then the place of a record that is accepted although its CRC fails, else unchanged);
 * 0 without any change if the caller has to decide. */
int rmq_skip_damage(rmq_skip *skip, size_t *pos, int32_t code, const rmq_record *rec, int64_t *trusted);

#endif
