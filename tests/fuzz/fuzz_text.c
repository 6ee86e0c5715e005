/* Texts as JSON and CSV spell them, read back; records as lines, which are the same in however little room they begin; message ids. */
#include "fuzz.h"
#include "text/text_rows.h"
#include "format/utf8.h"

static void begin(rmq_out *out, uint8_t *few, size_t room) {
    rmq_out_begin(out, few, room);
    CHECK(rmq_out_room(out, 1));
}

/* Undoes JSON's escapes between its quotes; answers the length. */
static size_t unescaped(const uint8_t *p, size_t len, uint8_t *out) {
    size_t n = 0;
    CHECK(len >= 2 && p[0] == '"' && p[len - 1] == '"');
    for (size_t i = 1; i < len - 1; i++) {
        CHECK(p[i] >= 0x20 && p[i] != '"');
        if (p[i] != '\\') {
            out[n++] = p[i];
            continue;
        }
        CHECK(++i < len - 1);
        static const char letters[] = "\"\\btnfr", meant[] = "\"\\\b\t\n\f\r";
        const char *letter = memchr(letters, p[i], sizeof letters - 1);
        unsigned code = 0;
        if (letter) {
            code = (uint8_t)meant[letter - letters];
        } else {
            char digits[5] = {0};
            CHECK(p[i] == 'u' && len - 1 - i > 4);
            memcpy(digits, p + i + 1, 4);
            CHECK(sscanf(digits, "%4x", &code) == 1 && code < 0x20);
            i += 4;
        }
        out[n++] = (uint8_t)code;
    }
    return n;
}

/* The next cell of a row without its quotes, and behind it; the cell must end within. */
static size_t cell(const uint8_t **p, const uint8_t *end, uint8_t *out) {
    size_t n = 0;
    const uint8_t *at = *p;
    if (at < end && *at == '"') {
        for (at++;; at++) {
            CHECK(at < end);
            if (*at == '"' && (++at == end || *at != '"')) break;
            out[n++] = *at;
        }
        CHECK(at == end || *at == ',' || *at == '\n');
    } else {
        for (; at < end && *at != ',' && *at != '\n'; at++) {
            CHECK(*at != '"' && *at != '\r');
            out[n++] = *at;
        }
    }
    *p = at;
    return n;
}

static void check_text(const uint8_t *data, size_t size, size_t room, int safe) {
    uint8_t *few = malloc(room + 1), *clean = malloc(3 * size + 1), *back = malloc(14 * size + 8);
    CHECK(few != NULL && clean != NULL && back != NULL);
    const size_t n = rmq_utf8_sanitize(data, size, clean);
    rmq_out json, in_csv, field;
    begin(&json, few, room);
    rmq_out_json(&json, data, size);
    CHECK(!json.failed && rmq_utf8_valid(json.at, json.len));
    CHECK(unescaped(json.at, json.len, back) == n && memcmp(back, clean, n) == 0);

    begin(&in_csv, NULL, 0);
    in_csv.at[in_csv.len++] = '"';
    rmq_out_json_in_csv(&in_csv, data, size);
    CHECK(rmq_out_room(&in_csv, 1));
    in_csv.at[in_csv.len++] = '"';
    const uint8_t *at = in_csv.at;
    CHECK(cell(&at, in_csv.at + in_csv.len, back) == json.len && memcmp(back, json.at, json.len) == 0);
    CHECK(at == in_csv.at + in_csv.len);
    rmq_out_end(&json);
    rmq_out_end(&in_csv);

    begin(&field, few, room);
    rmq_out_text(&field, data, size);
    rmq_out_csv_field(&field, 0, safe);
    at = field.at;
    const size_t len = cell(&at, field.at + field.len, back);
    const size_t more = safe && len > n; /* an apostrophe */
    CHECK(!field.failed && at == field.at + field.len && len == n + more && (!more || back[0] == '\''));
    CHECK(memcmp(back + more, clean, n) == 0);
    CHECK(!safe || more || n == 0 || strchr("=+-@\t\r\n", clean[0]) == NULL || clean[0] == 0);
    rmq_out_end(&field);
    free(few);
    free(clean);
    free(back);
}

static void check_row(const rmq_record *rec, size_t room, rmq_row_kind kind, rmq_row_text body) {
    static const rmq_delay_levels none;
    static const rmq_row_text object = {(const uint8_t *)"{\"a\": \"b,\"}", 11};
    uint8_t *few = malloc(room + 1);
    CHECK(few != NULL);
    rmq_out small, large;
    rmq_out_begin(&small, few, room);
    rmq_out_begin(&large, NULL, 0);
    rmq_row_text given = {NULL, 0};
    int code = rmq_row_write(rec, &none, kind, body, given, &small);
    if (code == RMQ_ROW_NAMES) {
        given = object;
        small.len = 0;
        code = rmq_row_write(rec, &none, kind, body, given, &small);
    }
    CHECK(code == RMQ_ROW_DONE && rmq_row_write(rec, &none, kind, body, given, &large) == RMQ_ROW_DONE);
    CHECK(small.len == large.len && memcmp(small.at, large.at, small.len) == 0);
    CHECK(small.len > 2 && small.at[small.len - 1] == '\n' && rmq_utf8_valid(small.at, small.len));
    if (kind == RMQ_ROW_JSON) {
        CHECK(small.at[0] == '{' && small.at[small.len - 2] == '}' && memchr(small.at, '\n', small.len - 1) == NULL);
    } else {
        uint8_t *back = malloc(small.len);
        CHECK(back != NULL);
        const uint8_t *at = small.at, *end = small.at + small.len;
        int cells = 0;
        for (;; at++) {
            cell(&at, end, back);
            cells++;
            if (*at == '\n') break;
        }
        CHECK(cells == 22 && at + 1 == end);
        free(back);
    }
    rmq_out_end(&small);
    rmq_out_end(&large);
    free(few);
}

/* What is read as an id is what its parts are written as. Any host and offset make an id that is read back. */
static void check_msg_id(const uint8_t *data, size_t size) {
    uint8_t host[RMQ_HOST_V6_SIZE], again[RMQ_HOST_V6_SIZE];
    char text[RMQ_MSG_ID_V6_LEN];
    int v6 = -1;
    int64_t phy_offset = 0, phy_offset_again;
    if (rmq_msg_id_parse((const char *)data, size, host, &v6, &phy_offset)) {
        CHECK(v6 == 0 || v6 == 1);
        CHECK(size == (v6 ? RMQ_MSG_ID_V6_LEN : RMQ_MSG_ID_V4_LEN));
        CHECK(rmq_msg_id_text(host, v6, phy_offset, text) == size);
        for (size_t i = 0; i < size; i++)
            CHECK(text[i] == (data[i] >= 'a' ? data[i] - 'a' + 'A' : data[i]) && strchr("0123456789ABCDEF", text[i]));
    }
    for (v6 = 0; v6 < 2; v6++) {
        const size_t host_len = v6 ? RMQ_HOST_V6_SIZE : RMQ_HOST_V4_SIZE, len = 2 * (host_len + 8);
        if (size < host_len + 8) break;
        memcpy(&phy_offset, data + host_len, 8);
        CHECK(rmq_msg_id_text(data, v6, phy_offset, text) == len);
        int v6_again = -1;
        CHECK(rmq_msg_id_parse(text, len, again, &v6_again, &phy_offset_again));
        CHECK(v6_again == v6 && phy_offset_again == phy_offset && memcmp(again, data, host_len) == 0);
        CHECK(!rmq_msg_id_parse(text, len - 1, again, &v6_again, &phy_offset_again));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t control[3];
    take_control(&data, &size, control, sizeof control);
    const size_t room = control[0] * (size_t)control[0];
    const rmq_row_kind kind = (rmq_row_kind)(control[1] % 3);
    check_text(data, size, room, control[1] & 4);
    check_msg_id(data, size);
    rmq_record rec;
    if (rmq_record_parse(data, size, &rec) > 0) {
        const rmq_row_text bodies[] = {
            {NULL, 0}, {data, 0}, {data, control[2] < size ? control[2] : size}, {data, size}};
        check_row(&rec, room, kind, bodies[control[1] >> 6]);
    }
    return 0;
}
