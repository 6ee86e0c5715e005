/* Sends from the bytes of a connection: frames that are taken are whole, what is stored are sound records of known topics, and the
 * answers are frames, one for each send that wants one. What is not taken is what a reader of frames alone would say. */
#include "fuzz.h"
#include "broker/send.h"
#include "crc32/crc32.h"

enum { FILE_SIZE = 1 << 14, MAX_MESSAGE_SIZE = 600 };

static const rmq_slice pieces[] = {
    {(const uint8_t *)"{\"msgId\":\"", 10}, {(const uint8_t *)"\",\"queueId\":", 12}, {(const uint8_t *)",\"at\":", 6},
    {(const uint8_t *)",\"id\":\"", 7},     {(const uint8_t *)"\",\"opaque\":", 11},  {(const uint8_t *)"}", 1},
};

static void set_answers(rmq_send *s) {
    for (int kind = 0; kind < RMQ_ANSWER_KINDS; kind++) {
        static const int holes[] = {RMQ_HOLE_MSG_ID,         RMQ_HOLE_QUEUE_ID, RMQ_HOLE_QUEUE_OFFSET,
                                    RMQ_HOLE_TRANSACTION_ID, RMQ_HOLE_OPAQUE,   RMQ_HOLE_NONE};
        rmq_send_answer *answer = &s->answers[kind];
        for (int i = 0; i < 6; i++) {
            if (kind == RMQ_ANSWER_BATCH && holes[i] == RMQ_HOLE_TRANSACTION_ID) continue;
            answer->parts[answer->count++] = (rmq_send_part){pieces[i], holes[i]};
        }
    }
}

static int begins(const uint8_t *bytes, size_t len, const char *text) {
    return len >= strlen(text) && memcmp(bytes, text, strlen(text)) == 0;
}

/* Whole records up to the end of the log, each of a topic of the table. Answers how many. */
static int64_t check_log(const uint8_t *file, int64_t end, int append_crc) {
    int64_t at = 0, count = 0;
    while (at < end) {
        rmq_record r;
        const int32_t size = rmq_record_parse(file + at, (size_t)(end - at), &r);
        CHECK(size > 0 && rmq_rec_phy_offset(&r) == at && rmq_record_check_body_crc(&r) == 0);
        CHECK(!append_crc || rmq_record_check_prop_crc(&r) == 0);
        CHECK(begins(r.at + r.topic_pos, r.topic_len, "T") && rmq_rec_queue_id(&r) >= 0 && rmq_rec_queue_id(&r) < 4);
        CHECK((r.sys_flag & ~0x731) == 0 && r.body_len <= MAX_MESSAGE_SIZE);
        CHECK(r.props_len == 0 || r.at[r.props_pos + r.props_len - 1] == RMQ_PROPERTY_SEPARATOR);
        at += size;
        count++;
    }
    CHECK(at == end);
    return count;
}

static void check_answers(const rmq_send *s) {
    size_t at = 0, count = 0;
    while (at < s->out_len) {
        CHECK(s->out_len - at >= 8);
        const int32_t length = rmq_load_i32(s->out + at), header = rmq_load_i32(s->out + at + 4);
        CHECK(length == header + 4 && header > 0 && (size_t)header <= s->out_len - at - 8);
        CHECK(begins(s->out + at + 8, (size_t)header, "{\"msgId\":\"") && s->out[at + 7 + (size_t)header] == '}');
        at += 4 + (size_t)length;
        count++;
    }
    CHECK(count == s->answer_count && s->out_len <= s->out_room);
}

/* How long the frame is that begins here; 0: there is no whole one. */
static size_t frame_at(const uint8_t *bytes, size_t left) {
    if (left < 8) return 0;
    const int64_t length = rmq_load_i32(bytes);
    return length < 4 || length > (int64_t)left - 4 ? 0 : 4 + (size_t)length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t control[1];
    if (rmq_crc32_select("") != RMQ_CRC_OK) abort();
    take_control(&data, &size, control, sizeof control);
    const int append_crc = control[0] & 1;
    const rmq_log_limits limits = {FILE_SIZE, MAX_MESSAGE_SIZE, append_crc, 0, 0};
    rmq_log *log = rmq_log_new(&limits);
    uint8_t *file = calloc(1, FILE_SIZE);
    rmq_send s;
    CHECK(log != NULL && file != NULL && rmq_send_init(&s) == 0);
    rmq_log_set_file(log, file, 0, 0, FILE_SIZE);
    set_answers(&s);
    s.waits = control[0] >> 1 & 1;
    s.born_host_v6 = control[0] >> 2 & 1;
    s.store_host_v6 = control[0] >> 3 & 1;
    if (control[0] & 16) s.added = (rmq_slice){(const uint8_t *)"CLUSTER\1c\2", 10};
    rmq_send_topic *topic = rmq_send_topics_add(&s.topics, (const uint8_t *)"T", 1);
    rmq_send_topic *other = rmq_send_topics_add(&s.topics, (const uint8_t *)"Topic", 5);
    CHECK(topic != NULL && other != NULL);
    topic->queue_nums = other->queue_nums = 4;

    size_t at = 0;
    int stop = RMQ_SEND_AGAIN;
    while (stop == RMQ_SEND_AGAIN) {
        stop = rmq_send_take(&s, log, data, at, size);
        CHECK(stop >= 0 && (s.count > 0 || stop != RMQ_SEND_AGAIN));
        if (s.count == 0) break;
        size_t done = 0;
        const int code = rmq_log_append_any(log, s.puts, s.count, s.whole, 1700000000000, &done);
        const size_t begin = at;
        at = rmq_send_settle(&s, at, done);
        CHECK(at >= begin && at <= size);
        CHECK((code == RMQ_A_DONE && s.puts[0].status == RMQ_PUT_OK) == (at > begin) || done > 0);
        if (code != RMQ_A_DONE || s.puts[s.count - 1].status != RMQ_PUT_OK) break; /* the file is full */
    }
    if (stop == RMQ_SEND_MORE && s.count == 0) CHECK(frame_at(data + at, size - at) == 0);
    if (stop == RMQ_SEND_PYTHON) CHECK(frame_at(data + at, size - at) > 0);
    /* All that was taken are whole frames. */
    size_t pos = 0;
    int64_t sends = 0;
    while (pos < at) {
        const size_t length = frame_at(data + pos, size - pos);
        CHECK(length > 0);
        pos += length;
        sends++;
    }
    CHECK(pos == at && sends == topic->counts.sends + other->counts.sends);
    const int64_t messages = check_log(file, rmq_log_wrote(log), append_crc);
    CHECK(messages == topic->counts.messages + other->counts.messages);
    CHECK(topic->counts.bytes + other->counts.bytes == rmq_log_wrote(log) && s.end_phy_offset == rmq_log_wrote(log));
    CHECK(s.answer_count <= (size_t)sends);
    check_answers(&s);
    rmq_send_destroy(&s);
    rmq_log_free(log);
    free(file);
    return 0;
}
