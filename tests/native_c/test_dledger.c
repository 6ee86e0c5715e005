/* Heads of a DLedger log at the end of memory that may be read, cut at every byte, with each field lying. */
#define _GNU_SOURCE
#include "check.h"
#include "scan/dledger.h"

enum { AT = 1 << 20, BODY = 200, SIZE = RMQ_DLEDGER_HEAD + BODY };

static area memory;

static void fill(uint8_t *head, int32_t magic, int32_t size, int64_t pos, int32_t body_len, int32_t total) {
    memset(head, 0, RMQ_DLEDGER_NEED);
    rmq_store_i32(head, magic);
    rmq_store_i32(head + RMQ_DLEDGER_SIZE, size);
    rmq_store_i64(head + RMQ_DLEDGER_POS, pos);
    rmq_store_i32(head + RMQ_DLEDGER_BODYLEN, body_len);
    rmq_store_i32(head + RMQ_DLEDGER_HEAD, total);
}

/* The answer with all bytes that tell of it, and with fewer: RMQ_E_SHORT, or what the bytes that are there tell already. */
static int32_t answer(const uint8_t *head, int64_t left_in_file, rmq_record *rec) {
    const int32_t whole =
        rmq_dledger_step(at_end(memory, head, RMQ_DLEDGER_NEED), RMQ_DLEDGER_NEED, AT, left_in_file, rec);
    for (size_t left = 0; left < RMQ_DLEDGER_NEED; left++) {
        rmq_record part;
        const int32_t code = rmq_dledger_step(at_end(memory, head, left), left, AT, left_in_file, &part);
        EXPECT(code == whole || code == RMQ_E_SHORT, "%zu bytes: %d, not %d", left, code, whole);
        EXPECT(code != RMQ_E_SHORT || part.expected > (int64_t)left, "%zu bytes are not enough", left);
    }
    return whole;
}

static void test_fields(void) {
    static const struct {
        int32_t magic, size;
        int64_t pos;
        int32_t body_len, total;
        int64_t left_in_file;
        int32_t code;
    } cases[] = {
        {1, SIZE, AT, BODY, BODY, SIZE, RMQ_DLEDGER_HEAD},
        {1, SIZE, AT, BODY, BODY, INT64_MAX, RMQ_DLEDGER_HEAD},
        {1, SIZE, AT, BODY, BODY, SIZE - 1, RMQ_E_DLEDGER_PAST},
        {1, SIZE, AT, BODY, BODY, RMQ_DLEDGER_HEAD - 1, RMQ_E_DLEDGER_PAST},
        {1, SIZE, AT, BODY, BODY, 7, RMQ_E_SHORT_FILE},
        {1, SIZE, AT + 1, BODY, BODY, SIZE, RMQ_E_DLEDGER_POS},
        {1, SIZE, -1, BODY, BODY, SIZE, RMQ_E_DLEDGER_POS},
        {1, SIZE, AT, BODY - 1, BODY, SIZE, RMQ_E_DLEDGER_SIZE},
        {1, SIZE + 1, AT, BODY, BODY, SIZE, RMQ_E_DLEDGER_SIZE},
        {1, INT32_MAX, AT, INT32_MAX - RMQ_DLEDGER_HEAD, BODY, SIZE, RMQ_E_DLEDGER_PAST},
        {1, INT32_MIN + 47, AT, INT32_MAX, BODY, INT64_MAX, RMQ_E_DLEDGER_SIZE},
        {1, 0, AT, -RMQ_DLEDGER_HEAD, BODY, SIZE, RMQ_E_DLEDGER_SIZE},
        {1, RMQ_DLEDGER_HEAD, AT, 0, 0, SIZE, RMQ_E_DLEDGER_SIZE},
        {1, INT32_MIN, AT, INT32_MIN, BODY, SIZE, RMQ_E_DLEDGER_SIZE},
        {1, SIZE, AT, BODY, BODY + 1, SIZE, RMQ_E_DLEDGER_BODY},
        {1, RMQ_DLEDGER_HEAD + 2, AT, 2, 2, RMQ_DLEDGER_HEAD + 2, RMQ_DLEDGER_HEAD},
        {2, RMQ_DLEDGER_HEAD, AT, 0, 7, RMQ_DLEDGER_HEAD, RMQ_DLEDGER_HEAD},
        {2, SIZE, AT, BODY, BODY, SIZE, RMQ_E_DLEDGER_SIZE},
        {2, RMQ_DLEDGER_HEAD, AT - 48, 0, 7, SIZE, RMQ_E_DLEDGER_POS},
        {-1, 8, 0, 0, 0, 8, RMQ_R_BLANK},
        {-1, SIZE, 0, 0, 0, SIZE, RMQ_R_BLANK},
        {-1, SIZE, 0, 0, 0, SIZE + 1, RMQ_E_DLEDGER_END},
        {-1, -1, 0, 0, 0, SIZE, RMQ_E_DLEDGER_END},
        {0, SIZE, AT, BODY, BODY, SIZE, RMQ_E_DLEDGER_MAGIC},
        {3, SIZE, AT, BODY, BODY, SIZE, RMQ_E_DLEDGER_MAGIC},
    };
    uint8_t head[RMQ_DLEDGER_NEED];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rmq_record rec;
        fill(head, cases[i].magic, cases[i].size, cases[i].pos, cases[i].body_len, cases[i].total);
        const int32_t code = answer(head, cases[i].left_in_file, &rec);
        EXPECT(code == cases[i].code, "case %zu: %d, expected %d", i, code, cases[i].code);
        if (code == RMQ_DLEDGER_HEAD) {
            EXPECT(rec.msg_size == (cases[i].magic == 1 ? (uint32_t)cases[i].body_len : 0), "case %zu", i);
        }
    }
}

static void test_random(void) {
    uint64_t state = 1;
    uint8_t head[RMQ_DLEDGER_NEED];
    for (int round = 0; round < 200000; round++) {
        for (size_t i = 0; i < sizeof head; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
            head[i] = (uint8_t)(state >> 56);
        }
        head[0] = head[1] = head[2] = 0;
        head[3] = (uint8_t)(1 + round % 2);
        rmq_record rec;
        const int64_t left = round % 3 ? INT64_MAX : round % 100;
        const int32_t code = rmq_dledger_step(at_end(memory, head, sizeof head), sizeof head, AT, left, &rec);
        EXPECT(code != RMQ_R_BLANK, "round %d", round);
    }
}

int main(void) {
    memory = guarded(RMQ_DLEDGER_NEED);
    test_fields();
    test_random();
    return finish("dledger");
}
