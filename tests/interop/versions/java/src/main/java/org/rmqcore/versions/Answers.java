package org.rmqcore.versions;

import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/** What a store of RocketMQ says of itself: records, queues, gets, queries, lookups. */
final class Answers {
    private static final int BLANK_MAGIC = -875286124;
    private static final int GETS_OF_QUEUES = 60;

    private Answers() {
    }

    static Map<String, Object> all(DefaultMessageStore store, int fileSize) throws Exception {
        List<Object> records = records(store, fileSize);
        Map<String, Object> answers = Json.object("minPhyOffset", store.getMinPhyOffset(), "maxPhyOffset", store.getMaxPhyOffset());
        answers.put("records", records);
        queues(store, answers);
        queries(store, records, answers);
        return answers;
    }

    private static List<Object> records(DefaultMessageStore store, int fileSize) throws Exception {
        List<Object> found = new ArrayList<>();
        long at = store.getMinPhyOffset();
        long end = store.getMaxPhyOffset();
        while (at < end) {
            SelectMappedBufferResult head = store.selectOneMessageByOffset(at, 8);
            int size = head.getByteBuffer().getInt(0);
            int magic = head.getByteBuffer().getInt(4);
            head.release();
            if (magic == BLANK_MAGIC) {
                at += fileSize - at % fileSize;
                continue;
            }
            SelectMappedBufferResult whole = store.selectOneMessageByOffset(at, size);
            MessageExt message = MessageDecoder.decode(whole.getByteBuffer().slice(), true, false);
            whole.release();
            if (message == null) {
                throw new IllegalStateException("no message at " + at);
            }
            found.add(record(message, at, size));
            at += size;
        }
        return found;
    }

    private static Map<String, Object> record(MessageExt message, long at, int size) throws Exception {
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        StringBuilder digest = new StringBuilder();
        for (byte one : MessageDigest.getInstance("SHA-256").digest(body)) {
            digest.append(String.format("%02x", one));
        }
        Map<String, String> properties = message.getProperties();
        return Json.object("phyOffset", at, "size", size, "topic", message.getTopic(), "queueId", message.getQueueId(),
            "queueOffset", message.getQueueOffset(), "flag", message.getFlag(), "sysFlag", message.getSysFlag(),
            "bornTimestamp", message.getBornTimestamp(), "bornHost", host(message.getBornHost()),
            "storeTimestamp", message.getStoreTimestamp(), "storeHost", host(message.getStoreHost()),
            "reconsumeTimes", message.getReconsumeTimes(), "preparedOffset", message.getPreparedTransactionOffset(),
            "bodyCrc", message.getBodyCRC(), "body", digest.toString(),
            "properties", properties == null ? new TreeMap<>() : new TreeMap<>(properties));
    }

    private static List<Object> host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        List<Object> parts = new ArrayList<>();
        parts.add(host.getAddress() instanceof Inet6Address ? 6 : 4);
        parts.add(host.getAddress().getHostAddress());
        parts.add(host.getPort());
        return parts;
    }

    @SuppressWarnings("unchecked")
    private static void queues(DefaultMessageStore store, Map<String, Object> answers) throws Exception {
        List<Object> queues = new ArrayList<>();
        List<Object> gets = new ArrayList<>();
        Map<String, Map<Integer, ?>> table = (Map<String, Map<Integer, ?>>) Release.call(store, "getConsumeQueueTable");
        for (String topic : new TreeSet<>(table.keySet())) {
            for (Integer queueId : new TreeSet<>(table.get(topic).keySet())) {
                long min = store.getMinOffsetInQueue(topic, queueId);
                long max = store.getMaxOffsetInQueue(topic, queueId);
                List<Object> entries = new ArrayList<>();
                for (long at = min; at < max;) {
                    Map<String, Object> got = get(store, topic, queueId, at, 32, null);
                    entries.addAll((List<?>) got.get("phyOffsets"));
                    long next = (Long) got.get("next");
                    if (next <= at) {
                        break;
                    }
                    at = next;
                }
                queues.add(Json.object("topic", topic, "queueId", queueId, "min", min, "max", max, "phyOffsets", entries));
                if (queues.size() <= GETS_OF_QUEUES) {
                    for (long at : new long[] {min, max - 1, max, max + 5, (min + max) / 2}) {
                        if (at >= 0) {
                            gets.add(get(store, topic, queueId, at, 32, null));
                        }
                    }
                    gets.add(get(store, topic, queueId, min, 32, "TagA"));
                    gets.add(get(store, topic, queueId, min, 16, "TagB || TagC"));
                }
            }
        }
        answers.put("queues", queues);
        answers.put("gets", gets);
    }

    private static Map<String, Object> get(DefaultMessageStore store, String topic, int queueId, long at, int most, String tags)
        throws Exception {
        GetMessageResult result = store.getMessage("versions", topic, queueId, at, most, tags == null ? null : filter(topic, tags));
        List<Object> found = new ArrayList<>();
        for (SelectMappedBufferResult message : result.getMessageMapedList()) {
            found.add(message.getStartOffset());
        }
        Map<String, Object> answer = Json.object("topic", topic, "queueId", queueId, "at", at, "most", most, "tags", tags,
            "status", result.getStatus().name(), "next", result.getNextBeginOffset(), "min", result.getMinOffset(),
            "max", result.getMaxOffset(), "phyOffsets", found);
        result.release();
        return answer;
    }

    private static MessageFilter filter(String topic, String tags) throws Exception {
        String moved = "org.apache.rocketmq.remoting.protocol.filter.FilterAPI";
        Class<?> api = Class.forName(Release.isThere(moved) ? moved : "org.apache.rocketmq.common.filter.FilterAPI");
        Object subscription;
        try {
            subscription = Release.call(api, "buildSubscriptionData", topic, tags);
        } catch (NoSuchMethodException e) {
            subscription = Release.call(api, "buildSubscriptionData", "versions", topic, tags);
        }
        Class<?> type = Class.forName("org.apache.rocketmq.store.DefaultMessageFilter");
        return (MessageFilter) type.getConstructors()[0].newInstance(subscription);
    }

    @SuppressWarnings("unchecked")
    private static void queries(DefaultMessageStore store, List<Object> records, Map<String, Object> answers) throws Exception {
        Random random = new Random(5);
        List<Object> queries = new ArrayList<>();
        List<Object> lookups = new ArrayList<>();
        for (int i = 0; i < 150; i++) {
            Map<String, Object> record = (Map<String, Object>) records.get(random.nextInt(records.size()));
            Map<String, String> properties = (Map<String, String>) record.get("properties");
            String topic = (String) record.get("topic");
            long time = (Long) record.get("storeTimestamp");
            if (properties.get("UNIQ_KEY") != null) {
                queries.add(query(store, topic, properties.get("UNIQ_KEY"), 0, Long.MAX_VALUE));
            }
            for (String key : properties.getOrDefault("KEYS", "no-such").split(" ")) {
                queries.add(query(store, topic, key, 0, Long.MAX_VALUE));
                if (i % 4 == 0) {
                    queries.add(query(store, topic, key, time - 1000, time + 1000));
                }
            }
            if (i % 4 == 0) {
                MessageExt found = store.lookMessageByOffset((Long) record.get("phyOffset"));
                lookups.add(Json.object("phyOffset", record.get("phyOffset"), "id", found == null ? null : found.getMsgId()));
            }
        }
        answers.put("queries", queries);
        answers.put("lookups", lookups);
    }

    private static Map<String, Object> query(DefaultMessageStore store, String topic, String key, long begin, long end) {
        QueryMessageResult result = store.queryMessage(topic, key, 64, begin, end);
        TreeSet<Object> found = new TreeSet<>();
        for (ByteBuffer message : result.getMessageBufferList()) {
            found.add(message.getLong(28));
        }
        if (result.getBufferTotalSize() > 0) {
            result.release();
        }
        return Json.object("topic", topic, "key", key, "begin", begin, "end", end, "phyOffsets", found);
    }
}
