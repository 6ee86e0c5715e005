/* Pulls from the bytes of a connection: what is taken is a whole frame of such a request, and every text of it lies in its header. */
#include "fuzz.h"
#include "broker/pull.h"

static void check_text(const rmq_request_frame *frame, rmq_slice text) {
    CHECK(text.p >= frame->header && text.p + text.len <= frame->header + frame->header_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    rmq_pull pull;
    rmq_request_frame frame;
    size_t at = 0;
    while (rmq_pull_read(data, at, n, &pull)) {
        CHECK(rmq_request_measure(data, at, n, &frame) == RMQ_FRAME_WHOLE);
        CHECK(pull.end == frame.end && pull.end > at && pull.end <= n);
        check_text(&frame, pull.group);
        check_text(&frame, pull.topic);
        if (pull.subscription.p != NULL) check_text(&frame, pull.subscription);
        if (pull.expression_type.p != NULL) check_text(&frame, pull.expression_type);
        at = pull.end;
    }
    return 0;
}
