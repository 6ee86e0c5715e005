/* What reading a CommitLog file costs, from least to most: a plain sum of its bytes, a memcpy, the walk over headers,
 * walk + CRC. Args: FILE ROUNDS. Prints "JOB SECONDS RECORDS", the jobs taking turns in every round. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32.h"
#include "record.h"
#include "timing.h"

#if defined(__x86_64__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

enum { MAX_ROUNDS = 99 };
static volatile uint64_t sink;

typedef struct log_file {
    const uint8_t *at;
    size_t size;
    uint8_t *copy;
} log_file;

/* 8 bytes at a time; the compiler makes of it what the machine does fastest. */
WIDEST static int64_t plain_sum(const log_file *log) {
    uint64_t sum[32] = {0};
    for (size_t i = 0; i + 256 <= log->size; i += 256) {
        uint64_t v[32];
        memcpy(v, log->at + i, sizeof v);
        for (int k = 0; k < 32; k++) sum[k] += v[k];
    }
    uint64_t all = 0;
    for (int k = 0; k < 32; k++) all += sum[k];
    sink = all;
    return 0;
}

static int64_t copy_all(const log_file *log) {
    memcpy(log->copy, log->at, log->size);
    return 0;
}

static int64_t walk(const log_file *log) {
    rmq_record rec;
    int64_t records = 0;
    for (size_t pos = 0; pos < log->size; pos += rec.msg_size, records++) {
        if (rmq_record_parse(log->at + pos, log->size - pos, &rec) <= 0) break;
    }
    return records;
}

static int64_t walk_and_crc(const log_file *log) {
    rmq_record rec;
    int64_t records = 0;
    for (size_t pos = 0; pos < log->size; pos += rec.msg_size, records++) {
        if (rmq_record_parse(log->at + pos, log->size - pos, &rec) <= 0) break;
        if (rmq_record_check_body_crc(&rec) != 0) return -1;
    }
    return records;
}

typedef struct job {
    const char *name;
    int64_t (*run)(const log_file *log);
    int64_t records;
    double seconds[MAX_ROUNDS];
} job;

int main(int argc, char **argv) {
    static job jobs[] = {{.name = "sum", .run = plain_sum},
                         {.name = "memcpy", .run = copy_all},
                         {.name = "walk", .run = walk},
                         {.name = "walk+crc", .run = walk_and_crc}};
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
            const double start = seconds_now();
            jobs[i].records = jobs[i].run(&log);
            jobs[i].seconds[round] = seconds_now() - start;
            if (jobs[i].records < 0) return fprintf(stderr, "%s: damaged record\n", jobs[i].name), 1;
        }
    }
    for (int i = 0; i < JOBS; i++) {
        printf("%s %.6f %lld\n", jobs[i].name, median(jobs[i].seconds, rounds), (long long)jobs[i].records);
    }
    return 0;
}
