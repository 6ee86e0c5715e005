/* Where a task that reads part of a CommitLog file begins, told from a window of bytes and not from the file's beginning.
 *
 * The question is which place the walk over the whole file visits first at or after a boundary. The walk goes from a record to
 * the place at its end, and from damage to a later place that proves itself, or to where the damaged record says that it ends.
 *
 * The window holds the L bytes before the boundary, L the size of the largest record. A candidate is a place in them with
 * MAGIC and the PHYSICALOFFSET of where it lies, whatever else is wrong with it. The rule answers E when every candidate is a
 * sound record (lengths, place, CRC), ends at another candidate or at E, E not before the boundary, there is at least one
 * candidate, and no BLANK that would end the file. It is odd otherwise, and the boundary is none: nobody begins there.
 *
 * Why E is the walk's own answer. Let q be a place of the walk in the window.
 * 1. q is a candidate. So it is sound, the walk goes on at its end, which is a candidate again or E: the walk arrives at E.
 * 2. q is no candidate: damage. What the walk finds behind it inside the window is sound, so a candidate (1), or a BLANK (odd).
 *    A record of the walk in the window never leads to such a q, since it would be a candidate that ends at none. So q
 *    comes first in the window, and the walk leaves the window from it only over a length of the damaged record itself: a
 *    search would have stopped at a candidate.
 * 3. There is no q. The walk jumps the window: over a record longer than L, or over a length of a damaged record as in 2.
 * Only the ends of 2 and 3 escape: a header that is damaged just so, or L too small, and sound forged records in the body
 * behind it. No window can tell those; the task that reads the bytes before the boundary compares its end with E
 * (rmqcore/spark/reading/split_scan.py). No probability is in any of this: a body may be anything a producer can think of.
 *
 * In a DLedger log (scan/dledger.h) the walk visits the head before each record too, and E may be a head. A candidate then ends
 * at a sound head, behind which the next candidate or E lies; what is no sound head there is odd, so 1 holds. A head in the window
 * that leads to no candidate leads to damage, which is 2; the mark of a file's end is what a BLANK is.
 *
 * Who cannot read all of the window asks a part of it that holds the boundary: what is odd there (RMQ_SPLIT_ODD) is odd in
 * the whole window, since whether a candidate is sound and where it ends is told by its own bytes. E of a part means nothing. */
#ifndef RMQ_SPLIT_H
#define RMQ_SPLIT_H

#include "scan/window.h"

enum {
    RMQ_SPLIT_MORE = 0, /* a candidate goes past the window: ask again with L more bytes behind the boundary */
    RMQ_SPLIT_ODD = -1, /* the window does not tell, and no other does that holds these bytes too */
    RMQ_SPLIT_NOTHING = -2, /* the window does not tell: no candidate, or too much work */
    RMQ_SPLIT_WORK = 4, /* candidates may overlap; their bytes together are at most this many windows */
};

/* Position E in [boundary, w->len] of the window, or one of the above. 0 < boundary <= w->len; w asks for place
 * and CRC, w->end_offset is the end of the file. `anchored`: buf[0] is the first byte of the file, where every walk begins; then
 * E is the end of the walk from there, and how far it lies before the boundary does not matter. `dledger`: of a DLedger log. With the largest record's
 * bytes behind the boundary, or all that the file has, the answer is never RMQ_SPLIT_MORE. */
int64_t rmq_split_start(const rmq_window *w, size_t boundary, uint32_t max_record_size, int anchored, int dledger);

#endif
