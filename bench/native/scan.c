/* What reading a CommitLog file costs, from least to most: a plain sum of its bytes, a memcpy, the walk over headers,
 * walk + CRC, columns of numbers, all columns. Args: FILE ROUNDS. Prints "JOB SECONDS RECORDS RATIO": the jobs take
 * turns in every round, RATIO is the median over rounds of the plain sum's time over the job's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scan/columns.h"
#include "crc32/crc32.h"
#include "plain_sum.h"
#include "timing.h"

enum { MAX_ROUNDS = 99 };
static volatile uint64_t sink;

typedef struct log_file {
    const uint8_t *at;
    size_t size;
    uint8_t *copy;
} log_file;

static int64_t sum_all(const log_file *log) {
    sink = plain_sum(log->at, log->size);
    return 0;
}

static int64_t copy_all(const log_file *log) {
    memcpy(log->copy, log->at, log->size);
    return 0;
}

static rmq_window window_of(const log_file *log, int check_crc) {
    return (rmq_window){.buf = log->at,
                        .len = log->size,
                        .end_offset = (int64_t)log->size,
                        .check_place = 1,
                        .check_crc = check_crc,
                        .trusted = -1};
}

/* Steps over all records as every reader does, checking structure, PHYSICALOFFSET and, as the product always does, BODYCRC. */
static int64_t steps(const log_file *log, int check_crc) {
    const rmq_window window = window_of(log, check_crc);
    int64_t records = 0;
    for (size_t pos = 0; pos < window.len; records++) {
        rmq_record rec;
        const int32_t size = rmq_window_step(&window, pos, &rec);
        if (size <= 0) return size == RMQ_R_BLANK ? records : size;
        pos += (size_t)size;
    }
    return records;
}

static int64_t walk(const log_file *log) { return steps(log, 0); }

static int64_t walk_and_crc(const log_file *log) { return steps(log, 1); }

/* Fills columns in recycled batches, which is all that the Arrow stream does in C. */
static int64_t decode(const log_file *log, uint32_t wanted, int check_crc) {
    enum { BATCH_ROWS = 8192 };
    static rmq_scan scan;
    scan = (rmq_scan){.wanted = wanted, .batch_rows = BATCH_ROWS, .batch_bytes = SIZE_MAX, .stop_offset = INT64_MAX};
    const rmq_window window = window_of(log, check_crc);
    rmq_pool *pool = rmq_pool_new(wanted, BATCH_ROWS);
    rmq_record rec;
    size_t pos = 0;
    int64_t records = 0;
    int32_t code = RMQ_S_FULL;
    while (pool != NULL && code == RMQ_S_FULL) {
        rmq_batch *batch = rmq_batch_take(pool);
        if (batch == NULL) break;
        code = rmq_scan_columns(&scan, batch, &window, &pos, &rec);
        records += batch->rows;
        rmq_batch_release(batch);
    }
    if (pool != NULL) rmq_pool_close(pool);
    return code == RMQ_R_BLANK || code == RMQ_S_END ? records : -1;
}

/* Every field of fixed width and the hash of the tag: what the research prototype's "18 columns" held. */
static uint32_t number_columns(void) {
    uint32_t wanted = 0;
    for (int id = 0; id < RMQ_COL_PUBLIC; id++) {
        const uint8_t kind = rmq_column_types[id].kind;
        if (kind == RMQ_KIND_I32 || kind == RMQ_KIND_I64) wanted |= UINT32_C(1) << id;
    }
    return wanted;
}

static int64_t numbers(const log_file *log) { return decode(log, number_columns(), 1); }

/* Without BODYCRC: Java's MessageDecoder checks it only when asked. */
static int64_t numbers_without_crc(const log_file *log) { return decode(log, number_columns(), 0); }

/* All columns: also hosts, topic, properties, keys and message id as text, and the body. */
static int64_t all_columns(const log_file *log) { return decode(log, (UINT32_C(1) << RMQ_COL_PUBLIC) - 1, 1); }

typedef struct job {
    const char *name;
    int64_t (*run)(const log_file *log);
    int64_t records;
    double seconds[MAX_ROUNDS];
} job;

int main(int argc, char **argv) {
    static job jobs[] = {{.name = "sum", .run = sum_all},
                         {.name = "memcpy", .run = copy_all},
                         {.name = "walk", .run = walk},
                         {.name = "walk+crc", .run = walk_and_crc},
                         {.name = "numbers+crc", .run = numbers},
                         {.name = "numbers", .run = numbers_without_crc},
                         {.name = "columns+crc", .run = all_columns}};
    enum { JOBS = sizeof jobs / sizeof jobs[0] };
    if (argc != 3 || atoi(argv[2]) < 1 || atoi(argv[2]) > MAX_ROUNDS) return 64;
    const int rounds = atoi(argv[2]);
    struct stat st;
    const int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0) return perror(argv[1]), 1;
    log_file log = {.size = (size_t)st.st_size};
    log.at = mmap(NULL, log.size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    log.copy = mmap(NULL, log.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (log.at == MAP_FAILED || log.copy == MAP_FAILED) return perror("mmap"), 1;
    rmq_crc32_select(NULL);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < JOBS; i++) {
            const double start = cpu_seconds();
            jobs[i].records = jobs[i].run(&log);
            jobs[i].seconds[round] = cpu_seconds() - start;
            if (jobs[i].records < 0) return fprintf(stderr, "%s: damaged record\n", jobs[i].name), 1;
        }
    }
    for (int i = JOBS - 1; i >= 0; i--) { /* the sum comes last: median() sorts the seconds */
        double ratios[MAX_ROUNDS];
        for (int round = 0; round < rounds; round++) ratios[round] = jobs[0].seconds[round] / jobs[i].seconds[round];
        printf("%s %.6f %lld %.4f\n", jobs[i].name, median(jobs[i].seconds, rounds), (long long)jobs[i].records,
               median(ratios, rounds));
    }
    return 0;
}
