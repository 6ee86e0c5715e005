/* Writes a store as a broker would have left it after a clean exit, by default about as fast as the disk takes it:
 *
 *     make_store DIR TOTAL_BYTES FILE_BYTES BODY_BYTES MIXED QUEUES_AND_INDEX
 *
 * TOTAL_BYTES of CommitLog in files of FILE_BYTES, 250 topics of 4 queues in random order, each record with KEYS and
 * TAGS. MIXED=1: bodies of 0.5 to 1.5 times BODY_BYTES. QUEUES_AND_INDEX=0: the CommitLog alone. The same arguments
 * give the same bytes. Prints "RECORDS BYTES". */
#define _GNU_SOURCE
#include "make_store.h"

#include <string.h>
#include <unistd.h>

#include "crc32/crc32.h"
#include "format/jhash.h"

enum {
    TOPICS = 250,
    QUEUES = 4,
    TOPIC_LEN = 10,  /* topic-0000 */
    POOL = 1 << 16,  /* bodies are slices of a pool of letters */
    CHUNK = 8 << 20, /* bytes of CommitLog written at a time */
    TAGS = 5,
    MESSAGES_A_MS = 100,
};
static const int64_t FIRST_MS = 1700000000000;

typedef struct store_maker {
    const char *root;
    int64_t file_size;
    int log_fd;
    int64_t file_from_offset;
    uint8_t *chunk; /* bytes [chunk_pos, chunk_pos + chunk_len) of the current file */
    size_t chunk_len;
    int64_t chunk_pos;
} store_maker;

static void log_flush(store_maker *m) {
    write_at(m->log_fd, m->chunk, m->chunk_len, (size_t)m->chunk_pos);
    m->chunk_pos += (int64_t)m->chunk_len;
    m->chunk_len = 0;
}

static void log_open_file(store_maker *m, int64_t file_from_offset) {
    char dir[512], name[24];
    snprintf(dir, sizeof dir, "%s/commitlog", m->root);
    make_dir(dir);
    snprintf(name, sizeof name, "%020lld", (long long)file_from_offset);
    m->log_fd = create_file(dir, name, (size_t)m->file_size);
    m->file_from_offset = file_from_offset;
    m->chunk_pos = 0;
}

/* Ends the file with a BLANK record over its rest: size and magic, nothing else is written. */
static void log_end_file(store_maker *m) {
    uint8_t *at = m->chunk + m->chunk_len;
    rmq_store_i32(at, (int32_t)(m->file_size - m->chunk_pos - (int64_t)m->chunk_len));
    rmq_store_i32(at + 4, RMQ_MAGIC_BLANK);
    m->chunk_len += RMQ_BLANK_MIN_SIZE;
    log_flush(m);
    close(m->log_fd);
}

static void write_checkpoint(const store_maker *m, int64_t last_ms, int64_t index_ms, int64_t last_phy_offset) {
    uint8_t page[RMQ_CKP_FILE_SIZE] = {0};
    rmq_store_i64(page + RMQ_CKP_PHYSICMSGTIMESTAMP, last_ms);
    rmq_store_i64(page + RMQ_CKP_LOGICSMSGTIMESTAMP, last_ms);
    rmq_store_i64(page + RMQ_CKP_INDEXMSGTIMESTAMP, index_ms);
    rmq_store_i64(page + RMQ_CKP_LOGICSPHYSICALOFFSET, last_phy_offset);
    int fd = create_file(m->root, "checkpoint", sizeof page);
    write_at(fd, page, sizeof page, 0);
    close(fd);
    fd = create_file(m->root, "lock", 4);
    write_at(fd, (const uint8_t *)"lock", 4, 0);
    close(fd);
}

static uint64_t next_random(uint64_t *state) { /* xorshift64 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: %s DIR TOTAL_BYTES FILE_BYTES BODY_BYTES MIXED QUEUES_AND_INDEX\n", argv[0]);
        return 64;
    }
    store_maker m = {.root = argv[1], .file_size = atoll(argv[3]), .chunk = malloc(CHUNK + (1 << 20))};
    const int64_t total = atoll(argv[2]);
    const size_t nominal = (size_t)atoll(argv[4]);
    const int mixed = atoi(argv[5]), dispatch = atoi(argv[6]);
    rmq_crc32_select(NULL);

    static uint8_t pool[POOL + (1 << 20)];
    uint64_t random = 88172645463325252ULL;
    for (size_t i = 0; i < sizeof pool; i++) pool[i] = (uint8_t)('a' + next_random(&random) % 26);

    static char topics[TOPICS][TOPIC_LEN + 1];
    static uint32_t topic_hash[TOPICS]; /* of "topic#" */
    static queue_writer queues[TOPICS][QUEUES];
    static index_writer index;
    char path[512];
    snprintf(path, sizeof path, "%s/consumequeue", m.root);
    if (dispatch) make_dir(path);
    if (dispatch) index_open(&index, m.root);
    for (int t = 0; t < TOPICS; t++) {
        snprintf(topics[t], sizeof topics[t], "topic-%04d", t);
        topic_hash[t] = rmq_jhash(rmq_jhash(0, (const uint8_t *)topics[t], TOPIC_LEN), (const uint8_t *)"#", 1);
        for (int q = 0; q < QUEUES && dispatch; q++) queue_open(&queues[t][q], m.root, topics[t], q);
    }

    rmq_message msg = {.topic_len = TOPIC_LEN,
                       .born_host = {127, 0, 0, 1, 0, 0, 0x2A, 0x9F},
                       .store_host = {127, 0, 0, 1, 0, 0, 0x2A, 0x9F}};
    int64_t phy_offset = 0, records = 0, last_ms = 0, last_phy_offset = 0;
    log_open_file(&m, 0);
    for (;; records++) {
        const uint64_t r = next_random(&random);
        const int t = (int)((r >> 8) % TOPICS), q = (int)((r >> 40) % QUEUES), tag = (int)(r % TAGS);
        char props[64];
        const int props_len =
            snprintf(props, sizeof props, "KEYS\1key-%08lld\2TAGS\1Tag%c\2", (long long)records, 'A' + tag);
        msg.topic = (const uint8_t *)topics[t];
        msg.props = (const uint8_t *)props;
        msg.props_len = (size_t)props_len;
        msg.body = pool + (size_t)(records * 7) % POOL;
        msg.body_len = mixed ? nominal / 2 + (size_t)((r >> 16) % (nominal + 1)) : nominal;
        msg.queue_id = q;
        msg.queue_offset = queues[t][q].count;
        msg.born_timestamp = FIRST_MS + records / MESSAGES_A_MS;
        msg.store_timestamp = msg.born_timestamp + 1;
        const int64_t size = rmq_record_encoded_size(&msg);
        const int64_t pos = phy_offset - m.file_from_offset;
        if (pos + size + RMQ_BLANK_MIN_SIZE > m.file_size) {
            log_end_file(&m);
            phy_offset = m.file_from_offset + m.file_size;
            if (phy_offset >= total) break;
            log_open_file(&m, phy_offset);
        }
        if (phy_offset + size > total) {
            log_flush(&m);
            break;
        }
        msg.phy_offset = phy_offset;
        if (rmq_record_encode(&msg, m.chunk + m.chunk_len, (size_t)size) != size) die("encode");
        m.chunk_len += (size_t)size;
        if (m.chunk_len >= CHUNK) log_flush(&m);
        if (dispatch) {
            const char *text = props + 5; /* behind "KEYS\1" */
            const uint32_t tag_hash = rmq_jhash(0, (const uint8_t *)props + props_len - 5, 4);
            queue_put(&queues[t][q], (rmq_cq_entry){phy_offset, (int32_t)size, (int32_t)tag_hash});
            const uint32_t key = rmq_jhash(topic_hash[t], (const uint8_t *)text, (size_t)(strchr(text, 2) - text));
            index_put(&index, rmq_index_key_hash(key), phy_offset, msg.store_timestamp);
            uint32_t by_tag = rmq_jhash(topic_hash[t], (const uint8_t *)"T#", 2);
            by_tag = rmq_jhash(by_tag, (const uint8_t *)props + props_len - 5, 4);
            index_put(&index, rmq_index_key_hash(by_tag), phy_offset, msg.store_timestamp);
        } else {
            queues[t][q].count++;
        }
        last_ms = msg.store_timestamp;
        last_phy_offset = phy_offset;
        phy_offset += size;
    }
    for (int t = 0; t < TOPICS && dispatch; t++) {
        for (int q = 0; q < QUEUES; q++) queue_close(&queues[t][q]);
    }
    index_close(&index);
    if (dispatch) write_checkpoint(&m, last_ms, index.full_until_ms, last_phy_offset);
    printf("%lld %lld\n", (long long)records, (long long)phy_offset);
    return 0;
}
