/* The messages of a producer's batch against the description's own arithmetic, then written again; hostile lengths. */
#include "fuzz.h"
#include "format/message_batch.h"

static int64_t number(const uint8_t *p, int width) {
    uint64_t value = p[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < width; i++) value = value << 8 | p[i];
    return (int64_t)value;
}

/* Field by field; 0 where the bytes are no message. */
static int64_t reference(const uint8_t *p, size_t left, int check_size) {
    if (left < 22) return 0;
    const int64_t total = number(p, 4), body = number(p + 16, 4);
    int64_t room = (int64_t)left;
    if (check_size) {
        if (total < 22 || total > room) return 0;
        room = total;
    }
    if (body < 0 || body > room - 22) return 0;
    const int64_t props = number(p + 20 + body, 2);
    if (props < 0 || props > room - 22 - body || (check_size && 22 + body + props != total)) return 0;
    return 22 + body + props;
}

static void check_fault(int64_t code, const rmq_batch_fault *fault, const uint8_t *at, size_t left, int check_size) {
    CHECK(code >= RMQ_B_E_LENGTHS && code <= RMQ_B_E_SHORT);
    if (code == RMQ_B_E_SHORT) {
        CHECK(left < 22 && fault->pos == 0 && fault->found == (int64_t)left && fault->expected == 22);
        return;
    }
    const int width = code == RMQ_B_E_PROPERTIESLENGTH ? 2 : 4;
    CHECK(fault->pos >= 0 && fault->pos + width <= (int64_t)left);
    CHECK(fault->found == number(at + fault->pos, width) && fault->expected >= 0);
    CHECK(check_size || (code != RMQ_B_E_TOTALSIZE && code != RMQ_B_E_LENGTHS));
    CHECK(code == RMQ_B_E_LENGTHS ? fault->found != fault->expected && fault->expected <= (int64_t)left
                                  : fault->found < 22 || fault->found > fault->expected);
}

/* Every message is written as it was read, but for the two fields that nobody reads and a size that was not looked at. */
static void check_message(const rmq_batch_message *message, const uint8_t *at, int64_t size, int check_size) {
    CHECK(rmq_message_batch_size(message) == size);
    CHECK(message->flag == number(at + 12, 4));
    CHECK(message->body == at + 20 && message->props == at + 22 + message->body_len);
    uint8_t *again = malloc((size_t)size);
    CHECK(again != NULL);
    rmq_message_batch_write(message, again);
    CHECK(number(again, 4) == size && number(again + 4, 8) == 0);
    CHECK(memcmp(again + 12, at + 12, (size_t)size - 12) == 0);
    CHECK(!check_size || memcmp(again, at, 4) == 0);
    rmq_batch_message back;
    rmq_batch_fault fault;
    CHECK(rmq_message_batch_next(again, (size_t)size, 1, &back, &fault) == size);
    CHECK(back.flag == message->flag && back.body_len == message->body_len && back.props_len == message->props_len);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t control[1];
    take_control(&data, &size, control, sizeof control);
    const int check_size = control[0] & 1;
    size_t pos = 0;
    while (pos < size) {
        rmq_batch_message message = {0};
        rmq_batch_fault fault = {-1, -1, -1};
        const int64_t found = rmq_message_batch_next(data + pos, size - pos, check_size, &message, &fault);
        const int64_t expected = reference(data + pos, size - pos, check_size);
        CHECK((found > 0) == (expected > 0));
        if (found <= 0) {
            check_fault(found, &fault, data + pos, size - pos, check_size);
            break;
        }
        CHECK(found == expected && found >= RMQ_BATCH_MIN_SIZE && (size_t)found <= size - pos);
        check_message(&message, data + pos, found, check_size);
        pos += (size_t)found;
    }
    return 0;
}
