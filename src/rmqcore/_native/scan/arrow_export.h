/* Batches as Arrow arrays without a copy. */
#ifndef RMQ_ARROW_EXPORT_H
#define RMQ_ARROW_EXPORT_H

#include "format/arrow_abi.h"
#include "scan/batch.h"

/* A batch that several holders share; the last holder returns it to its pool. */
typedef struct rmq_shared_batch rmq_shared_batch;

/* Owns the batch from now on, with one hold. NULL without memory (the batch is then released). */
rmq_shared_batch *rmq_shared_new(rmq_batch *batch);
void rmq_shared_hold(rmq_shared_batch *shared);
void rmq_shared_drop(rmq_shared_batch *shared); /* any thread, no GIL needed */
const rmq_batch *rmq_shared_batch_of(const rmq_shared_batch *shared);

/* A struct type with the given columns as fields. 0, or -1 without memory (*out is then untouched). */
int rmq_arrow_schema(const int32_t *columns, int64_t count, struct ArrowSchema *out);

/* A struct array over the batch's columns. Each array, also a child moved out by a consumer, keeps the batch alive. 0,
 * or -1. */
int rmq_arrow_array(rmq_shared_batch *shared, const int32_t *columns, int64_t count, struct ArrowArray *out);

#endif
