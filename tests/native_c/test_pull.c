/* The reader of pulls at the end of readable memory: every cut of a frame, every byte of it as something else, and what it must
 * have. */
#define _GNU_SOURCE
#include "check.h"
#include "broker/pull.h"

enum { ROOM = 1 << 16, FRAME_MOST = 1 << 12 };
static area memory;

static size_t frame_of(const char *json, uint8_t *out) {
    const size_t len = strlen(json);
    rmq_store_i32(out, (int32_t)len + 4);
    rmq_store_i32(out + 4, (int32_t)len);
    memcpy(out + 8, json, len);
    return len + 8;
}

static int reads(const char *json, rmq_pull *pull) {
    uint8_t frame[FRAME_MOST];
    const size_t len = frame_of(json, frame);
    return rmq_pull_read(at_end(memory, frame, len), 0, len, pull);
}

static int is(rmq_slice text, const char *expected) { return rmq_slice_is(text, expected, strlen(expected)); }

#define NEEDED                                                                                                \
    "\"consumerGroup\":\"g\",\"topic\":\"T\",\"queueId\":\"3\",\"queueOffset\":\"-1\",\"maxMsgNums\":\"32\"," \
    "\"sysFlag\":\"6\",\"commitOffset\":\"7\",\"suspendTimeoutMillis\":\"15000\",\"subVersion\":\"1700000000000\""
static const char WHOLE[] = "{\"code\":11,\"extFields\":{" NEEDED
                            ",\"subscription\":\"A || B\",\"expressionType\":\"TAG\","
                            "\"bname\":\"b\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":-7}";

static void fields(void) {
    rmq_pull pull;
    EXPECT(reads(WHOLE, &pull), "the whole frame");
    EXPECT(pull.opaque == -7 && pull.queue_id == 3 && pull.max_msg_nums == 32 && pull.sys_flag == 6, "its ints");
    EXPECT(pull.queue_offset == -1 && pull.commit_offset == 7 && pull.suspend_timeout_ms == 15000, "its longs");
    EXPECT(pull.sub_version == INT64_C(1700000000000) && pull.end == sizeof WHOLE - 1 + 8, "version and end");
    EXPECT(is(pull.group, "g") && is(pull.topic, "T") && is(pull.subscription, "A || B"), "its texts");
    EXPECT(is(pull.expression_type, "TAG"), "its type");
    EXPECT(reads("{\"code\":361,\"opaque\":0,\"extFields\":{" NEEDED "}}", &pull), "what it must have");
    EXPECT(pull.subscription.p == NULL && pull.expression_type.p == NULL, "no subscription");
    EXPECT(reads("{\"code\":11,\"opaque\":0,\"extFields\":{" NEEDED ",\"maxMsgBytes\":\"1\",\"requestSource\":\"2\"}}",
                 &pull),
           "numbers that nobody asks for");
}

static void left(void) {
    rmq_pull pull;
    static const char *const odd[] = {
        "{\"code\":310,\"opaque\":0,\"extFields\":{" NEEDED "}}",
        "{\"code\":11,\"opaque\":0,\"flag\":2,\"extFields\":{" NEEDED "}}",
        "{\"code\":11,\"opaque\":0,\"extFields\":{" NEEDED ",\"topic\":\"T\"}}",
        "{\"code\":11,\"opaque\":0,\"extFields\":{" NEEDED ",\"maxMsgBytes\":\"x\"}}",
        "{\"code\":11,\"opaque\":0,\"extFields\":{" NEEDED ",\"requestSource\":\"2147483648\"}}",
        "{\"code\":11,\"opaque\":0,\"extFields\":{" NEEDED ",\"subscription\":\"\\\"\"}}",
        "{\"code\":11,\"opaque\":0,\"extFields\":{\"topic\":\"T\"}}",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) EXPECT(!reads(odd[i], &pull), "%s", odd[i]);
}

static void cuts(void) {
    uint8_t frame[FRAME_MOST];
    rmq_pull pull;
    const size_t len = frame_of(WHOLE, frame);
    for (size_t n = 0; n < len; n++) EXPECT(!rmq_pull_read(at_end(memory, frame, n), 0, n, &pull), "cut after %zu", n);
    for (size_t at = 0; at < len; at++) {
        for (int byte = 0; byte < 256; byte++) {
            uint8_t *copy = at_end(memory, frame, len);
            copy[at] = (uint8_t)byte;
            if (rmq_pull_read(copy, 0, len, &pull)) EXPECT(pull.end == len, "byte %d at %zu", byte, at);
        }
    }
}

int main(void) {
    memory = guarded(ROOM);
    fields();
    left();
    cuts();
    return finish("pull");
}
