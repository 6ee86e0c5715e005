/* Load for a broker: one thread, some connections, a window of unanswered requests on each. Every answer is checked.
 *
 *     broker_load PORT send|batch|pull TOPIC QUEUES CONNECTIONS WINDOW SECONDS COUNT MAX_OFFSET
 *
 * COUNT messages are in a batch, or in the answer to a pull; a pull begins below MAX_OFFSET - COUNT of its queue. One line of
 * JSON says what was done. An answer that is wrong, twice there or missing ends the program with exit code 1. */
#define _GNU_SOURCE
#include "load_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "call_times.h"

enum { WINDOW_MOST = 4096, CONNECTIONS_MOST = 4096, EVENTS = 64, SILENCE_MS = 20000, FIRST_ROOM = 1 << 16 };

typedef struct bytes {
    uint8_t *data;
    size_t begin, end, room;
} bytes;

typedef struct connection {
    int fd, blocked;
    uint32_t id, generation;
    asked *window;
    bytes in, out;
} connection;

static load all;
static uint32_t window;
static int poll_fd;
static uint64_t requests, messages, unanswered;
static call_times times;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

static void make_room(bytes *buffer, size_t more) {
    if (buffer->room - buffer->end >= more) return;
    memmove(buffer->data, buffer->data + buffer->begin, buffer->end - buffer->begin);
    buffer->end -= buffer->begin;
    buffer->begin = 0;
    if (buffer->room - buffer->end >= more) return;
    buffer->room = (buffer->end + more) * 2;
    buffer->data = realloc(buffer->data, buffer->room);
    if (buffer->data == NULL) fail("no memory");
}

static void ask(connection *peer, uint32_t slot) {
    asked *what = &peer->window[slot];
    const uint32_t number = peer->generation++;
    /* The next of the same slot differs, and an answer tells its slot. */
    what->opaque += what->opaque == 0 ? slot + window : window;
    what->queue_id = (number + peer->id) % all.queues;
    if (all.code == PULL)
        /* A get ends with its queue file, which has 300,000 entries: no multiple of 32 crosses that. */
        what->queue_offset =
            (int64_t)((number + (uint64_t)peer->id * 977) % (uint64_t)(all.max_queue_offset / all.count) * all.count);
    make_room(&peer->out, HEADER_MOST + all.body_size + FRAME_HEAD);
    peer->out.end += write_request(&all, what, peer->id, peer->out.data + peer->out.end);
    what->sent_ns = now_ns();
    unanswered++;
}

static void watch(connection *peer, int blocked) {
    if (peer->blocked == blocked) return;
    peer->blocked = blocked;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = peer};
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, peer->fd, &event) != 0) fail("epoll: %s", strerror(errno));
}

static void write_out(connection *peer) {
    bytes *out = &peer->out;
    while (out->begin < out->end) {
        const ssize_t sent = send(peer->fd, out->data + out->begin, out->end - out->begin, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) fail("send: %s", strerror(errno));
        out->begin += (size_t)sent;
    }
    watch(peer, out->begin < out->end);
    if (out->begin == out->end) out->begin = out->end = 0;
}

/* Take one answer; give its slot, which is free then. */
static uint32_t take(connection *peer, const uint8_t *frame, size_t size, uint64_t now) {
    const size_t length = get32(frame) & 0xFFFFFF;
    if (frame[0] != 0 || length > size - 4) fail("a header of %zu bytes in a frame of %zu", length, size);
    const uint8_t *header = frame + 4, *body = header + length;
    const int64_t opaque = number_of(header, length, "\"opaque\":");
    asked *what = &peer->window[opaque < 0 ? 0 : (uint64_t)opaque % window];
    if (opaque != what->opaque || what->sent_ns == 0)
        fail("an answer that nobody waits for: %.*s", (int)length, header);
    if (!is_right(&all, what, header, length, body, size - 4 - length))
        fail("wrong answer, with %zu bytes of body: %.*s", size - 4 - length, (int)length, header);
    note_call(&times, now - what->sent_ns);
    what->sent_ns = 0;
    requests++;
    messages += all.count;
    unanswered--;
    return (uint32_t)(what - peer->window);
}

static void read_in(connection *peer, uint64_t stop_ns) {
    bytes *in = &peer->in;
    make_room(in, FIRST_ROOM);
    const ssize_t got = recv(peer->fd, in->data + in->end, in->room - in->end, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) fail("the broker has closed a connection: %s", got < 0 ? strerror(errno) : "end");
    in->end += (size_t)got;
    const uint64_t now = now_ns();
    while (in->end - in->begin >= 8) {
        const size_t size = get32(in->data + in->begin);
        if (size < 4 || size > 16 << 20) fail("a frame of %zu bytes", size);
        if (in->end - in->begin < 4 + size) {
            make_room(in, 4 + size - (in->end - in->begin));
            break;
        }
        const uint32_t slot = take(peer, in->data + in->begin + 4, size, now);
        in->begin += 4 + size;
        if (now < stop_ns) ask(peer, slot);
    }
    if (in->begin == in->end) in->begin = in->end = 0;
    write_out(peer);
}

static void open_connection(connection *peer, uint32_t id, uint16_t port) {
    const int yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer->id = id;
    peer->window = calloc(window, sizeof *peer->window);
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->window == NULL || peer->fd < 0 || connect(peer->fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect: %s", strerror(errno));
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(peer->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, peer->fd, &event) != 0) fail("epoll: %s", strerror(errno));
}

static long whole(const char *text, long least, long most) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || value < least || value > most)
        fail("%s is no number of %ld to %ld", text, least, most);
    return value;
}

static int code_of(const char *mode) {
    if (strcmp(mode, "send") == 0) return SEND;
    if (strcmp(mode, "batch") == 0) return SEND_BATCH;
    if (strcmp(mode, "pull") == 0) return PULL;
    fail("%s is none of send, batch and pull", mode);
}

static double micro(double share) { return (double)call_percentile(&times, share) / 1e3; }

int main(int count, char **words) {
    if (count != 10) fail("PORT send|batch|pull TOPIC QUEUES CONNECTIONS WINDOW SECONDS COUNT MAX_OFFSET");
    const uint16_t port = (uint16_t)whole(words[1], 1, 65535);
    all.code = code_of(words[2]);
    all.topic = words[3];
    if (strlen(all.topic) > TOPIC_MOST) fail("the topic has more than %d characters", TOPIC_MOST);
    all.queues = (uint32_t)whole(words[4], 1, 1024);
    const uint32_t connections = (uint32_t)whole(words[5], 1, CONNECTIONS_MOST);
    window = (uint32_t)whole(words[6], 1, WINDOW_MOST);
    const double wanted_s = strtod(words[7], NULL);
    all.count = (uint32_t)whole(words[8], 1, 1024);
    if (all.code == SEND && all.count != 1) fail("a send has one message");
    all.max_queue_offset = whole(words[9], all.code == PULL ? (long)all.count : 0, LONG_MAX);
    make_body(&all);

    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection *peers = calloc(connections, sizeof *peers);
    if (peers == NULL) fail("no memory");
    for (uint32_t i = 0; i < connections; i++) open_connection(&peers[i], i, port);
    const uint64_t begin_ns = now_ns(), stop_ns = begin_ns + (uint64_t)(wanted_s * 1e9);
    for (uint32_t i = 0; i < connections; i++) {
        for (uint32_t slot = 0; slot < window; slot++) ask(&peers[i], slot);
        write_out(&peers[i]);
    }
    struct epoll_event events[EVENTS];
    while (unanswered > 0) {
        const int ready = epoll_wait(poll_fd, events, EVENTS, SILENCE_MS);
        if (ready == 0) fail("no answer to %llu requests for %d ms", (unsigned long long)unanswered, SILENCE_MS);
        if (ready < 0 && errno != EINTR) fail("epoll: %s", strerror(errno));
        for (int i = 0; i < ready; i++) {
            connection *peer = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) write_out(peer);
            if (events[i].events & ~(uint32_t)EPOLLOUT) read_in(peer, stop_ns);
        }
    }
    const double seconds = (double)(now_ns() - begin_ns) / 1e9;
    printf(
        "{\"requests\": %llu, \"messages\": %llu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": "
        "%.1f, "
        "\"worst_us\": %.1f}\n",
        (unsigned long long)requests, (unsigned long long)messages, seconds, micro(0.5), micro(0.99), micro(0.999),
        (double)times.worst / 1e3);
    return 0;
}
