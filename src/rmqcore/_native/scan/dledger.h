/* The heads of a DLedger log: 48 bytes before each record.
 *
 * An entry is magic int (1; 2 is a no-op, a head alone) | size int (48 + bodyLen) | index long | term long | pos long (where the
 * entry lies) | channel int | chainCrc int | bodyCrc int | bodyLen int | the record. A file ends with -1 int | bytes
 * left int.
 * Source: DLedger 0.3.1.2 DLedgerEntryCoder, MmapFileList. */
#ifndef RMQ_DLEDGER_H
#define RMQ_DLEDGER_H

#include "format/record.h"

enum {
    RMQ_DLEDGER_SIZE = 4,
    RMQ_DLEDGER_POS = 24,
    RMQ_DLEDGER_BODYLEN = 44,
    RMQ_DLEDGER_HEAD = 48,
    RMQ_DLEDGER_ENTRY = 1,
    RMQ_DLEDGER_NOOP = 2,
    RMQ_DLEDGER_END = -1,
    /* The bytes that decide on a head. */
    RMQ_DLEDGER_NEED = RMQ_DLEDGER_HEAD + 4,
};

/* Checks CommitLog offset `at`, where an entry may begin: RMQ_DLEDGER_HEAD for a sound head, behind which a record or,
 * after a no-op, the next entry begins; RMQ_R_BLANK for the mark of the file's end; or RMQ_E_SHORT (rec->expected bytes
 * are needed) or
 * RMQ_E_DLEDGER_*. rec->msg_size is the size of the body. `left` bytes of buf may be read, and the file has `left_in_file` from `at` on. */
int32_t rmq_dledger_step(const uint8_t *buf, size_t left, int64_t at, int64_t left_in_file, rmq_record *rec);

#endif
