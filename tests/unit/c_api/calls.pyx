"""Calls of every function of the table, each as a consumer would make it: test_c_api.py knows the answers."""

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t

from rmqcore.c_api cimport *

import_rmqcore()


cdef rmq_record parsed(const uint8_t[::1] record) except *:
    cdef rmq_record rec
    assert rmq_record_parse_any(&record[0], record.shape[0], &rec) == record.shape[0]
    return rec


cdef rmq_message message(bytes topic, bytes body, bytes props, phy_offset, queue_offset, store_timestamp) except *:
    cdef rmq_message msg
    msg.topic, msg.topic_len = topic, len(topic)
    msg.body, msg.body_len = body, len(body)
    msg.props, msg.props_len = props, len(props)
    msg.queue_id = msg.flag = msg.sys_flag = msg.reconsume_times = 0
    msg.phy_offset, msg.queue_offset, msg.prepared_transaction_offset = phy_offset, queue_offset, 0
    msg.born_timestamp = msg.store_timestamp = store_timestamp
    for i in range(RMQ_HOST_V6_SIZE):
        msg.born_host[i] = msg.store_host[i] = 0
    msg.born_host_v6 = msg.store_host_v6 = 0
    msg.append_prop_crc = 1
    return msg


def crc32(bytes text):
    return rmq_crc32(text, len(text)), rmq_crc32_name().decode()


def record(bytes topic, bytes body, bytes props, phy_offset, queue_offset, store_timestamp):
    """The record twice: written, and encoded."""
    cdef rmq_message msg = message(topic, body, props, phy_offset, queue_offset, store_timestamp)
    cdef int64_t size = rmq_record_encoded_size(&msg)
    written, encoded = bytearray(size), bytearray(size)
    cdef uint8_t[::1] first = written, second = encoded
    rmq_record_write(&msg, size, &first[0])
    assert rmq_record_encode(&msg, &second[0], size) == size
    return bytes(written), bytes(encoded)


def checks(const uint8_t[::1] record):
    cdef rmq_record rec = parsed(record)
    return rmq_record_check_body_crc(&rec), rmq_record_has_prop_crc(&rec), rmq_record_check_prop_crc(&rec)


def fields(const uint8_t[::1] record):
    cdef rmq_record rec = parsed(record)
    return (
        rmq_rec_body_crc(&rec), rmq_rec_queue_id(&rec), rmq_rec_flag(&rec), rmq_rec_queue_offset(&rec),
        rmq_rec_phy_offset(&rec), rmq_rec_born_timestamp(&rec), rmq_rec_store_timestamp(&rec),
        rmq_rec_reconsume_times(&rec), rmq_rec_prepared_transaction_offset(&rec),
    )


def properties(bytes props):
    """All pairs, and the words of KEYS."""
    cdef rmq_props_iter it
    cdef rmq_prop prop
    cdef rmq_known_props known
    cdef rmq_slice word
    cdef size_t pos = 0
    pairs, words = [], []
    rmq_props_begin(&it, props, len(props), 0)
    while rmq_props_next(&it, &prop):
        pairs.append((prop.name.p[:prop.name.len], prop.value.p[:prop.value.len]))
    rmq_props_known(props, len(props), 0, &known)
    while rmq_keys_next(known.keys, &pos, &word):
        words.append(word.p[:word.len])
    return pairs, words


def queue(int64_t phy_offset, int32_t msg_size, int64_t tags_code):
    """The entry packed, then read; and the prefixes of a queue that holds it twice."""
    cdef rmq_cq_columns columns = [&phy_offset, &msg_size, &tags_code]
    cdef uint8_t packed[40]
    cdef int64_t last_end = 0
    assert rmq_cq_pack(&columns, 1, packed, 1) == RMQ_CQ_E_ROOM
    assert rmq_cq_pack(&columns, 1, packed, 40) == RMQ_CQ_STORE_UNIT_SIZE
    cdef rmq_cq_entry entry = rmq_cq_load(packed)
    rmq_cq_store(packed + RMQ_CQ_STORE_UNIT_SIZE, entry)
    prefixes = (
        rmq_cq_valid_prefix(packed, 40), rmq_cq_prefix_below(packed, 40, phy_offset),
        rmq_cq_rising_prefix(packed, 40, phy_offset + msg_size, &last_end),
    )
    assert last_end == phy_offset + msg_size and rmq_cq_is_filler(RMQ_CQ_FILLER) and not rmq_cq_is_filler(entry)
    return packed[:20], (entry.phy_offset, entry.msg_size, entry.tags_code), prefixes


def index_header(bytes given):
    """Decoded, encoded again; and the fields."""
    cdef rmq_index_header header
    cdef uint8_t out[40]
    assert rmq_index_header_decode(given, 39, &header) == RMQ_IDX_E_SHORT
    assert rmq_index_header_decode(given, len(given), &header) == 0
    assert rmq_index_header_encode(&header, out, 40) == 0
    return out[:40], (
        header.begin_timestamp, header.end_timestamp, header.begin_phy_offset, header.end_phy_offset,
        header.hash_slot_count, header.index_count,
    )


def index_chain(bytes entries, int32_t key_hash, int32_t start):
    """Offsets of a chain in `entries`, which begin with entry 0."""
    cdef rmq_index_walk walk
    cdef int64_t offsets[8]
    cdef size_t hits = 0
    walk.begin_timestamp, walk.begin_ms, walk.end_ms = 0, 0, 1 << 60
    walk.key_hash, walk.next_index, walk.index_count, walk.steps = key_hash, start, len(entries) // 20, 100
    assert rmq_index_chain_walk(&walk, entries, len(entries), 0, offsets, 8, &hits) == RMQ_WALK_END
    return [offsets[i] for i in range(hits)]


def index_check(bytes entries, bytes slots):
    """Findings of a file's entries from 1 on, and of its slots."""
    cdef int32_t heads[4]
    cdef rmq_index_check check = [heads, 4, 1, INT64_MIN, 0]
    cdef rmq_index_finding found[4]
    heads[0] = heads[1] = heads[2] = heads[3] = 0
    count = rmq_index_check_entries(&check, entries, len(entries), found, 4)
    findings = [(found[i].index, found[i].field, found[i].expected, found[i].found) for i in range(count)]
    count = rmq_index_check_slots(&check, slots, len(slots), 0, found, 4)
    return findings + [(found[i].index, found[i].field, found[i].expected, found[i].found) for i in range(count)]


def hashes(bytes topic, bytes key):
    return (
        rmq_index_hash(topic, len(topic), key, len(key)), rmq_jhash(0, key, len(key)), rmq_jhash_any(0, key, len(key)),
        rmq_index_key_hash(rmq_jhash_any(0, key, len(key))),
    )


def utf8(bytes text):
    """Valid, the first code point with its length, and the text as Java reads it."""
    cdef uint32_t cp = 0
    out = bytearray(3 * len(text))
    cdef uint8_t[::1] room = out
    used = rmq_utf8_next(text, len(text), &cp)
    return rmq_is_ascii(text, len(text)), rmq_utf8_valid(text, len(text)), (used, cp), \
        bytes(out[:rmq_utf8_sanitize(text, len(text), &room[0])])


def texts(bytes host, int64_t number):
    """The host parsed, in hex and as text again; and the number."""
    cdef uint8_t packed[20]
    cdef char text[64]
    cdef char digits[40]
    size = rmq_host_parse(host, len(host), packed)
    again = text[:rmq_host_text(packed, size == RMQ_HOST_V6_SIZE, text)]
    rmq_hex_upper(packed, size, digits)
    spelled = digits[:2 * size]
    return spelled, again, digits[:rmq_decimal(digits, number) - digits]


def of_record(const uint8_t[::1] record):
    """Message id and tags code."""
    cdef rmq_record rec = parsed(record)
    cdef rmq_known_props known
    cdef int64_t delay = 1000
    cdef rmq_delay_levels levels = [&delay, 1]
    cdef char text[56]
    rmq_props_known(rec.at + rec.props_pos, rec.props_len, rec.props_pos, &known)
    return text[:rmq_msg_id(&rec, text)], rmq_tags_code(&rec, &known, &levels)


def again(bytes msg_id):
    """A message id that was parsed as text, and its offset."""
    cdef uint8_t host[20]
    cdef char text[56]
    cdef int v6
    cdef int64_t phy_offset
    assert rmq_msg_id_parse(msg_id, len(msg_id), host, &v6, &phy_offset)
    return text[:rmq_msg_id_text(host, v6, phy_offset, text)], phy_offset
