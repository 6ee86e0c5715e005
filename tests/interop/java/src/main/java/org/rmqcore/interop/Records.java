package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.logfile.MappedFile;

/** Every record of the log, decoded and checked by RocketMQ; and whether queues and log agree. */
final class Records {
    private static final int SHOWN = 10;

    private final ClockedStore store;

    Records(ClockedStore store) {
        this.store = store;
    }

    /** All fields of all records up to the log's end, in order; a file's walk stops at its BLANK or at a bad size. */
    JSONArray all() {
        JSONArray records = new JSONArray();
        CommitLog log = store.getCommitLog();
        long end = log.getMaxOffset();
        for (MappedFile file : log.getMappedFileQueue().getMappedFiles()) {
            ByteBuffer bytes = file.sliceByteBuffer();
            int pos = 0;
            while (pos + 8 <= file.getFileSize() && file.getFileFromOffset() + pos < end) {
                long at = file.getFileFromOffset() + pos;
                int size = bytes.getInt(pos);
                if (bytes.getInt(pos + 4) == CommitLog.BLANK_MAGIC_CODE) {
                    records.add(Json.object("kind", "BLANK", "phy_offset", at, "msg_size", size));
                    break;
                }
                if (size <= 0 || pos + size > file.getFileSize()) {
                    records.add(Json.object("kind", "BAD", "phy_offset", at, "msg_size", size));
                    break;
                }
                records.add(record(bytes.slice(pos, size), at));
                pos += size;
            }
        }
        return records;
    }

    private JSONObject record(ByteBuffer bytes, long at) {
        DispatchRequest request = store.getCommitLog().checkMessageAndReturnSize(bytes.duplicate(), true, false);
        MessageExt message = MessageDecoder.decode(bytes.duplicate(), true, false);
        if (!request.isSuccess() || message == null || message.getCommitLogOffset() != at) {
            return Json.object("kind", "BAD", "phy_offset", at, "msg_size", bytes.remaining());
        }
        boolean compressed = (message.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG) != 0;
        MessageExt plain = compressed ? MessageDecoder.decode(bytes.duplicate(), true, true) : message;
        return Json.object(
            "kind", "MESSAGE",
            "phy_offset", at,
            "msg_size", bytes.remaining(),
            "magic", bytes.getInt(4),
            "body_crc", message.getBodyCRC(),
            "queue_id", message.getQueueId(),
            "flag", message.getFlag(),
            "queue_offset", message.getQueueOffset(),
            "sys_flag", message.getSysFlag(),
            "born_timestamp_ms", message.getBornTimestamp(),
            "born_host", Json.hostText(message.getBornHost()),
            "store_timestamp_ms", message.getStoreTimestamp(),
            "store_host", Json.hostText(message.getStoreHost()),
            "reconsume_times", message.getReconsumeTimes(),
            "prepared_transaction_offset", message.getPreparedTransactionOffset(),
            "topic", message.getTopic(),
            "properties", message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties()),
            "msg_id", message.getMsgId(),
            "tags_code", request.getTagsCode(),
            "body", bodyCrc(message),
            "plain_body", plain == null ? null : bodyCrc(plain));
    }

    private static long bodyCrc(MessageExt message) {
        return message.getBody() == null ? 0 : Json.crc32(ByteBuffer.wrap(message.getBody()));
    }

    /** Counts, and what is wrong: bad records, queue entries without their record, records without their entry. */
    JSONObject verify() throws Exception {
        JSONArray bad = new JSONArray();
        Map<Long, JSONObject> unindexed = new HashMap<>();
        Map<Long, JSONObject> byOffset = new HashMap<>();
        int messages = 0;
        int blanks = 0;
        for (Object each : all()) {
            JSONObject record = (JSONObject) each;
            switch (record.getString("kind")) {
                case "BLANK" -> blanks++;
                case "BAD" -> bad.add("record " + record);
                default -> {
                    messages++;
                    byOffset.put(record.getLong("phy_offset"), record);
                    if (hasEntry(record.getIntValue("sys_flag"))) {
                        unindexed.put(record.getLong("phy_offset"), record);
                    }
                }
            }
        }
        long entries = 0;
        for (String topic : store.getConsumeQueueTable().keySet()) {
            for (int queueId : store.getConsumeQueueTable().get(topic).keySet()) {
                long max = store.getMaxOffsetInQueue(topic, queueId);
                for (long i = store.getMinOffsetInQueue(topic, queueId); i < max; i++) {
                    entries++;
                    long phyOffset = store.getCommitLogOffsetInQueue(topic, queueId, i);
                    if (topic.startsWith("%LMQ%")) { // an entry of a light queue points at a record of another topic
                        if (!byOffset.containsKey(phyOffset)) {
                            bad.add("entry " + topic + " " + i + ": no record at " + phyOffset);
                        }
                        continue;
                    }
                    JSONObject record = unindexed.remove(phyOffset);
                    if (record == null || !topic.equals(record.getString("topic"))
                        || record.getIntValue("queue_id") != queueId || record.getLongValue("queue_offset") != i) {
                        bad.add("entry " + topic + " " + queueId + " " + i + ": " + phyOffset + " is " + record);
                    }
                }
            }
        }
        for (JSONObject record : unindexed.values()) {
            bad.add("no queue entry for " + record);
        }
        return Json.object("messages", messages, "blanks", blanks, "entries", entries, "bad_count", bad.size(),
            "bad", new JSONArray(bad.subList(0, Math.min(SHOWN, bad.size()))));
    }

    private static boolean hasEntry(int sysFlag) {
        int type = MessageSysFlag.getTransactionValue(sysFlag);
        return type == MessageSysFlag.TRANSACTION_NOT_TYPE || type == MessageSysFlag.TRANSACTION_COMMIT_TYPE;
    }
}
