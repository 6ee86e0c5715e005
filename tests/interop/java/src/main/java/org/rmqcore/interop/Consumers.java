package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Consumers of each kind, as applications have them, and the messages that they are to get. */
final class Consumers {
    private static final int POLL_MS = 200;
    private static final int HELD_MS = 60_000;
    private static final int HEARTBEAT_MS = 1_000;

    private int started;
    private DefaultMQProducer producer;

    /** Sends messages with the keys first, first + 1, ...: tag T0, T1 or T2 and property a by the key, one queue for each residue of 4. */
    Object produce(JSONObject request) throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("interopConsumersProducer");
            producer.setNamesrvAddr(request.getString("nameServer"));
            producer.setInstanceName("producer");
            producer.setSendMsgTimeout(HELD_MS); // one that waited too long sends again
            producer.start();
        }
        int first = request.getIntValue("first");
        for (int key = first; key < first + request.getIntValue("count"); key++) {
            Message message = new Message(request.getString("topic"), "T" + key % 3, String.valueOf(key),
                String.valueOf(key).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("a", String.valueOf(key));
            producer.send(message, (queues, sent, chosen) -> queues.get((Integer) chosen % queues.size()), key);
        }
        return null;
    }

    /** Ends the producer. */
    Object endProducer() {
        if (producer != null) {
            producer.shutdown();
            producer = null;
        }
        return null;
    }

    /**
     * Starts the push consumers of a group, waits until each group has what is wanted, and ends them; answers by member the
     * keys in the order in which they came, each with its queue.
     */
    JSONArray push(JSONObject request) throws Exception {
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        List<Collection<JSONObject>> got = new ArrayList<>();
        boolean broadcasting = request.getBooleanValue("broadcasting");
        try {
            for (int i = 0; i < request.getIntValue("members"); i++) {
                Collection<JSONObject> mine = new ConcurrentLinkedQueue<>();
                members.add(member(request, mine));
                got.add(mine);
                members.get(i).start();
            }
            long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
            while (!enough(got, request.getIntValue("wanted"), broadcasting)
                && System.currentTimeMillis() < deadline) {
                Thread.sleep(POLL_MS);
            }
            Thread.sleep(2 * POLL_MS); // what should not come gets the time to come
        } finally {
            members.forEach(DefaultMQPushConsumer::shutdown);
        }
        JSONArray answer = new JSONArray();
        got.forEach(mine -> answer.add(new JSONArray(mine)));
        return answer;
    }

    /**
     * Gives a message that a consumer does not want to it through the broker, as a dashboard does; answers what the consumer said of
     * it, the keys that it got, and how many queues its status has.
     */
    JSONObject direct(JSONObject request) throws Exception {
        Collection<JSONObject> got = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = member(request, got);
        DefaultMQAdminExt admin = new DefaultMQAdminExt(HELD_MS);
        admin.setNamesrvAddr(request.getString("nameServer"));
        admin.setInstanceName("direct" + ++started);
        try {
            consumer.start();
            admin.start();
            String topic = request.getString("topic");
            String group = request.getString("group");
            String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
            String id = producer.send(new Message(topic, "unwanted", "7", new byte[1])).getOffsetMsgId();
            long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
            int queues = 0;
            while (queues == 0 && System.currentTimeMillis() < deadline) { // until it has shared out the queues
                Map<MessageQueue, Long> status = admin.getConsumeStatus(topic, group, client).get(client);
                queues = status == null ? 0 : status.size();
                Thread.sleep(POLL_MS);
            }
            String result = String.valueOf(admin.consumeMessageDirectly(group, client, topic, id).getConsumeResult());
            return Json.object("result", result, "got", new JSONArray(got), "queues", queues);
        } finally {
            consumer.shutdown();
            admin.shutdown();
        }
    }

    private DefaultMQPushConsumer member(JSONObject request, Collection<JSONObject> got) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(request.getString("group"));
        consumer.setNamesrvAddr(request.getString("nameServer"));
        started++;
        // One that broadcasts keeps its offsets in a file that is named after it: with a name of its own it goes on there.
        consumer.setInstanceName(request.containsKey("instance") ? request.getString("instance") : "member" + started);
        // A member that shares out queues anew gives its subscription a new version. A broker that knows an older one refuses
        // its pulls until its next heartbeat, by default half a minute later.
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (request.getBooleanValue("brokerRebalance")) {
            consumer.setClientRebalance(false);
        }
        if (request.getBooleanValue("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (request.containsKey("sql")) {
            consumer.subscribe(request.getString("topic"), MessageSelector.bySql(request.getString("sql")));
        } else {
            consumer.subscribe(request.getString("topic"), request.getString("tags"));
        }
        if (request.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> got.add(noted(message)));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> got.add(noted(message)));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        return consumer;
    }

    private static boolean enough(List<Collection<JSONObject>> got, int wanted, boolean each) {
        Set<Object> all = new HashSet<>();
        boolean eachHas = true;
        for (Collection<JSONObject> mine : got) {
            Set<Object> own = new HashSet<>();
            mine.forEach(message -> own.add(message.get("key")));
            eachHas &= own.size() >= wanted;
            all.addAll(own);
        }
        return each ? eachHas : all.size() >= wanted;
    }

    private static JSONObject noted(MessageExt message) {
        return Json.object("key", Integer.parseInt(message.getKeys()), "queue_id", message.getQueueId(),
            "queue_offset", message.getQueueOffset());
    }

    /** A lite pull consumer that subscribes: the keys that it polls until it has what is wanted; its offsets are committed. */
    JSONArray lite(JSONObject request) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(request.getString("group"));
        consumer.setNamesrvAddr(request.getString("nameServer"));
        consumer.setInstanceName("lite" + ++started);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.subscribe(request.getString("topic"), request.getString("tags"));
        consumer.start();
        JSONArray got = new JSONArray();
        try {
            long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
            while (got.size() < request.getIntValue("wanted") && System.currentTimeMillis() < deadline) {
                consumer.poll(POLL_MS).forEach(message -> got.add(noted(message)));
                consumer.commitSync();
            }
        } finally {
            consumer.shutdown();
        }
        return got;
    }

    /** The old pull consumer: all that each queue has, by pulls that wait for nothing, then one pull that waits for a message that is sent meanwhile. */
    JSONObject pull(JSONObject request) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(request.getString("group"));
        consumer.setNamesrvAddr(request.getString("nameServer"));
        consumer.setInstanceName("pull" + ++started);
        consumer.setConsumerPullTimeoutMillis(2 * HELD_MS);
        consumer.setBrokerSuspendMaxTimeMillis(HELD_MS);
        consumer.setConsumerTimeoutMillisWhenSuspend(2 * HELD_MS);
        consumer.start();
        try {
            JSONArray got = new JSONArray();
            MessageQueue last = null;
            long end = 0;
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(request.getString("topic"))) {
                long at = 0;
                PullResult result = consumer.pull(queue, request.getString("tags"), at, 32);
                while (result.getPullStatus() == PullStatus.FOUND || result.getPullStatus() == PullStatus.NO_MATCHED_MSG) {
                    if (result.getMsgFoundList() != null) {
                        result.getMsgFoundList().forEach(message -> got.add(noted(message)));
                    }
                    at = result.getNextBeginOffset();
                    result = consumer.pull(queue, request.getString("tags"), at, 32);
                }
                consumer.updateConsumeOffset(queue, at);
                if (queue.getQueueId() == 0) {
                    last = queue;
                    end = at;
                }
            }
            Thread sender = new Thread(() -> {
                try {
                    Thread.sleep(5 * POLL_MS); // long enough for the broker to hold the pull: no event says that it does
                    produce(request);
                } catch (Exception failed) {
                    throw new IllegalStateException(failed);
                }
            });
            sender.start();
            long before = System.currentTimeMillis();
            PullResult waited = consumer.pullBlockIfNotFound(last, request.getString("tags"), end, 32);
            long tookMs = System.currentTimeMillis() - before;
            sender.join();
            JSONArray late = new JSONArray();
            if (waited.getMsgFoundList() != null) {
                waited.getMsgFoundList().forEach(message -> late.add(noted(message)));
            }
            return Json.object("got", got, "late", late, "tookMs", tookMs);
        } finally {
            consumer.shutdown();
        }
    }
}
