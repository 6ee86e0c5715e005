/* Where a task that reads part of a CommitLog file begins, found from a window of bytes and not from the file's
 * beginning.
 *
 * The question is which place the walk over the whole file visits first at or after a boundary. The walk goes from a record to
 * the place at its end, and from damage to a later place that proves itself, or to the end of the damaged record by its
 * lengths.
 *
 * The window holds the L bytes before the boundary, L the size of the largest record. A candidate is a place in them with
 * MAGIC and its own PHYSICALOFFSET, whatever else is wrong with it. The rule returns E if every candidate is a sound
 * record (lengths, place, CRC) and ends at another candidate or at E, E is not before the boundary, the window has at
 * least one candidate, and no BLANK that would end the file. Otherwise it is odd, and the boundary does not count: no
 * task begins there.
 *
 * Why E is the walk's own place. Let q be a place of the walk in the window.
 * 1. q is a candidate. So it is sound, the walk continues at its end, which is a candidate again or E: the walk arrives at E.
 * 2. q is not a candidate: damage. A place that the walk finds behind it inside the window is sound, so a candidate (1), or a
 *    BLANK (odd). A record of the walk in the window never leads to this q, since it would be a candidate that does not end at
 *    one. So q comes first in the window, and the walk leaves the window from q only over a length of the damaged record
 *    itself: a search would have stopped at a candidate.
 * 3. The walk has no place in the window. It jumps over it, by a record longer than L, or by a length of a damaged record
 *    as in 2.
 * Only the ends of 2 and 3 escape: a header that is damaged just so, or L too small, and sound forged records in the body
 * behind it. No window can detect those; the task that reads the bytes before the boundary compares its end with E
 * (rmqcore/spark/reading/split_scan.py). The proof uses no probability: a body may hold any bytes.
 *
 * In a DLedger log (scan/dledger.h) the walk visits the head before each record too, and E may be a head. A candidate then ends
 * at a sound head, behind which the next candidate or E lies; other bytes there are odd, so 1 holds. A head in the
 * window that does not lead to a candidate leads to damage, which is 2; the mark of a file's end counts as a BLANK.
 *
 * A reader that lacks some bytes of the window tests a part of it that holds the boundary: if the part is odd
 * (RMQ_SPLIT_ODD), the whole window is, since a candidate's own bytes decide whether it is sound and where it ends. E
 * of a part means nothing. */
#ifndef RMQ_SPLIT_H
#define RMQ_SPLIT_H

#include "scan/window.h"

enum {
    RMQ_SPLIT_MORE = 0, /* a candidate ends behind the window: call again with L more bytes behind the boundary */
    RMQ_SPLIT_ODD = -1, /* undecided, as in any window that holds these bytes */
    RMQ_SPLIT_NOTHING = -2, /* undecided: no candidate, or too much work */
    RMQ_SPLIT_WORK = 4, /* candidates may overlap; their bytes together are at most this many windows */
};

/* Position E in [boundary, w->len] of the window, or one of the above. 0 < boundary <= w->len; w requires place and
 * CRC, w->end_offset is the end of the file. `anchored`: buf[0] is the first byte of the file, where every walk begins;
 * then E is the end of the walk from there, at any distance before the boundary. `dledger`: the file is of a DLedger
 * log. With the largest record's bytes behind the boundary, or all bytes that the file has, the result is never
 * RMQ_SPLIT_MORE. */
int64_t rmq_split_start(const rmq_window *w, size_t boundary, uint32_t max_record_size, int anchored, int dledger);

#endif
