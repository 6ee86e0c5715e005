"""Damage that a scan steps over by itself: where it goes on inside a window, and what it noted on the way."""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t

from rmqcore._native.kernels cimport *
from rmqcore._native.scan.places cimport Gaps
from rmqcore._native.scan.proof cimport Prover

cdef enum:
    ROOM = 4096

MOST_NOTES = ROOM
BODYCRC = RMQ_E_BODYCRC


@cython.final
cdef class Skips:
    """Lets the scans of one file go on behind damage, and notes each damaged range.

    The answers are those of `rmqcore.disk.log_window.LogWindow.next_proven`. A scan that has notes for 4096 ranges, or that meets
    a place of which a window does not tell enough, stops there as it does without this.

    Parameters
    ----------
    prover : Prover
        Of the file.
    leave_out : bool
        Records whose CRC fails are not taken; they are noted either way.
    credit_from : int
        At each CommitLog offset so many bytes may have been hashed in vain as it lies behind this one.
    dledger : bool
        The file is of a DLedger log: sound heads are passed, and no damage; of damage only records that fail their CRC are told.

    Attributes
    ----------
    settled : int
        What a scan notes lies before this position of the window. Where somebody may be writing to the file, the caller has seen
        twice what lies there, and then had the prover forget its pages: a record with a sound one behind it was whole by then.
    bytes_in_vain : int
        Bytes hashed for places that did not prove themselves, by everybody: the caller adds its own.

    Notes
    -----
    Thread safety: as the prover's, one thread at a time.
    """

    def __cinit__(self, Prover prover not None, *, bint leave_out, int64_t credit_from, bint dledger=False):
        self.prover = prover
        self.skip.prover = &prover.prover
        self.skip.leave_out = leave_out
        self.skip.dledger = dledger
        self.skip.credit_from = credit_from
        self.skip.room = ROOM
        self.skip.notes = <rmq_skipped *> PyMem_Calloc(ROOM, sizeof(rmq_skipped))
        if self.skip.notes == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.skip.notes)

    @property
    def settled(self):
        return self.skip.settled

    @settled.setter
    def settled(self, size_t pos):
        self.skip.settled = pos

    @property
    def bytes_in_vain(self):
        return self.skip.in_vain

    @bytes_in_vain.setter
    def bytes_in_vain(self, int64_t count):
        self.skip.in_vain = count

    def __len__(self):
        """Ranges noted since the last `take`."""
        return self.skip.count

    def take(self, Py_ssize_t most, wants=None):
        """The ranges noted so far, forgotten here.

        Parameters
        ----------
        most : int
            So many are given one by one, and behind them those of each code for which `wants` says so, asked once for each.

        Returns
        -------
        tuple
            Ranges as ``(start, end, code, found, expected)``, CommitLog offsets; then of the others how many there are of each
            code, the bytes in them, where the first begins and where the last ends.
        """
        cdef size_t i, count, first
        cdef int64_t damaged = 0
        cdef int64_t start = 0
        cdef int64_t end = 0
        cdef rmq_skipped *note
        self.drop_heads()
        count = self.skip.count
        first = min(max(most, 0), <Py_ssize_t> count)
        notes = []
        counts = {}
        for i in range(first):
            note = &self.skip.notes[i]
            notes.append((note.start, note.end, note.code, note.found, note.expected))
        for i in range(first, count):
            note = &self.skip.notes[i]
            code = note.code
            if code not in counts:
                counts[code] = None if wants is not None and wants(code) else 0
            if counts[code] is None:
                notes.append((note.start, note.end, code, note.found, note.expected))
                continue
            if end == 0:
                start = note.start
            end = note.end
            damaged += end - note.start
            counts[code] += 1
        self.skip.count = 0
        return notes, {code: number for code, number in counts.items() if number}, damaged, start, end

    cdef void drop_heads(self) noexcept:
        """Forget the heads that were passed."""
        cdef size_t i, kept = 0
        if not self.skip.dledger:
            return
        for i in range(self.skip.count):
            if self.skip.notes[i].code != RMQ_SKIP_HEAD:
                self.skip.notes[kept] = self.skip.notes[i]
                kept += 1
        self.skip.count = kept

    def gaps(self, Py_ssize_t begin, Py_ssize_t end, int64_t phy_offset):
        """Return the recorded ranges skipped between two positions of a window that starts at `phy_offset`."""
        cdef Gaps found = Gaps.__new__(Gaps)
        cdef rmq_skipped *note
        cdef Py_ssize_t i
        cdef Py_ssize_t count = 0
        cdef bint taken
        found.make_room(self.skip.count)
        for i in range(<Py_ssize_t> self.skip.count):
            note = &self.skip.notes[i]
            taken = note.code == RMQ_E_BODYCRC and not self.skip.leave_out
            if not taken and note.start >= phy_offset + begin and note.start < phy_offset + end:
                found.bounds[2 * count] = note.start - phy_offset
                found.bounds[2 * count + 1] = note.end - phy_offset
                count += 1
        found.count = count
        return found

    def raise_error(self):
        """Raise what reading a page of the file has raised; the scan stopped at the place that asked for it."""
        self.prover.raise_error()

    cdef int begin(self, Py_buffer *exported, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                   int64_t end_offset) except -1:
        """Have the window of a scan looked at, until `end`."""
        self.prover.look(exported, length, pos, phy_offset, end_offset)
        self.skip.states = &self.prover.states if self.prover.has_states else NULL
        self.prover.busy = True
        return 0

    cdef int end(self) except -1:
        self.prover.busy = False
        return 0
