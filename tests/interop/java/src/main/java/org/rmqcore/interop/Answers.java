package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** What the store answers, one method a question; fields have the names that rmqcore gives them. */
final class Answers {
    private static final String GROUP = "interop";

    private final ClockedStore store;

    Answers(ClockedStore store) {
        this.store = store;
    }

    JSONObject get(JSONObject request) throws Exception {
        String topic = request.getString("topic");
        String tags = request.getString("tags");
        MessageFilter filter = tags == null
            ? null : new DefaultMessageFilter(FilterAPI.buildSubscriptionData(topic, tags));
        GetMessageResult result = store.getMessage(GROUP, topic, request.getIntValue("queueId"),
            request.getLongValue("queueOffset"), request.getIntValue("maxMessages"), request.getIntValue("maxBytes"),
            filter);
        try {
            return Json.object(
                "status", result.getStatus().name(),
                "next_begin_offset", result.getNextBeginOffset(),
                "min_offset", result.getMinOffset(),
                "max_offset", result.getMaxOffset(),
                "buffer_total_size", result.getBufferTotalSize(),
                "queue_offsets", new JSONArray(result.getMessageQueueOffset()),
                "messages", found(result.getMessageMapedList()));
        } finally {
            result.release();
        }
    }

    JSONObject query(JSONObject request) {
        String topic = request.getString("topic");
        String key = request.getString("key");
        String type = request.getString("indexType");
        int maxMessages = request.getIntValue("maxMessages");
        long begin = request.getLongValue("beginMs");
        long end = request.getLongValue("endMs");
        QueryMessageResult result = type == null
            ? store.queryMessage(topic, key, maxMessages, begin, end)
            : store.queryMessage(topic, key, maxMessages, begin, end, type, null);
        try {
            return Json.object(
                "index_last_update_timestamp_ms", result.getIndexLastUpdateTimestamp(),
                "index_last_update_phy_offset", result.getIndexLastUpdatePhyoffset(),
                "messages", found(result.getMessageMapedList()));
        } finally {
            result.release();
        }
    }

    /** Offset and CRC-32 of the whole record, for each. */
    private static JSONArray found(List<SelectMappedBufferResult> buffers) {
        JSONArray messages = new JSONArray();
        for (SelectMappedBufferResult buffer : buffers) {
            ByteBuffer bytes = buffer.getByteBuffer();
            messages.add(JSONArray.of(buffer.getStartOffset(), buffer.getSize(), Json.crc32(bytes)));
        }
        return messages;
    }

    JSONObject offsetByTime(JSONObject request) {
        String topic = request.getString("topic");
        int queueId = request.getIntValue("queueId");
        long time = request.getLongValue("timestampMs");
        return Json.object(
            "default", store.getOffsetInQueueByTime(topic, queueId, time),
            "LOWER", store.getOffsetInQueueByTime(topic, queueId, time, BoundaryType.LOWER),
            "UPPER", store.getOffsetInQueueByTime(topic, queueId, time, BoundaryType.UPPER));
    }

    /** null: not found; also where Java throws, which it does at some offsets inside a record. */
    JSONObject lookup(JSONObject request) {
        MessageExt message;
        try {
            message = store.lookMessageByOffset(request.getLongValue("phyOffset"));
        } catch (IllegalArgumentException | IndexOutOfBoundsException | NegativeArraySizeException thrown) {
            return null;
        }
        return message == null ? null : Json.object(
            "phy_offset", message.getCommitLogOffset(),
            "msg_id", message.getMsgId(),
            "topic", message.getTopic(),
            "queue_offset", message.getQueueOffset());
    }

    JSONObject phyOffset(JSONObject request) throws Exception {
        String topic = request.getString("topic");
        int queueId = request.getIntValue("queueId");
        long queueOffset = request.getLongValue("queueOffset");
        return Json.object(
            "phy_offset", store.getCommitLogOffsetInQueue(topic, queueId, queueOffset),
            "store_timestamp_ms", store.getMessageStoreTimeStamp(topic, queueId, queueOffset));
    }

    /** The ends of the log and of every queue. */
    JSONObject offsets() throws Exception {
        JSONArray queues = new JSONArray();
        Map<String, ConcurrentMap<Integer, ConsumeQueueInterface>> byTopic =
            new TreeMap<>(store.getConsumeQueueTable());
        for (String topic : byTopic.keySet()) {
            for (int queueId : new TreeSet<>(byTopic.get(topic).keySet())) {
                ConsumeQueueInterface queue = byTopic.get(topic).get(queueId);
                queues.add(Json.object("topic", topic, "queue_id", queueId,
                    "min_offset", queue.getMinOffsetInQueue(), "max_offset", queue.getMaxOffsetInQueue()));
            }
        }
        return Json.object(
            "min_phy_offset", store.getMinPhyOffset(),
            "max_phy_offset", store.getMaxPhyOffset(),
            "flushed_phy_offset", store.getCommitLog().getMappedFileQueue().getFlushedWhere(),
            "confirm_offset", store.getConfirmOffset(),
            "queues", queues);
    }
}
