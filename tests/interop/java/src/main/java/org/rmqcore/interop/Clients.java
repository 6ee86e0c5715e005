package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.exception.RemotingException;

/** A producer and a consumer as applications have them. */
final class Clients {
    private static final int SEND_TIMEOUT_MS = 60_000; // a producer that waited too long sends again
    private static final int POLL_MS = 300;
    private static final int COMPRESS_OVER = 512;
    private static final int QUEUES = 4;

    private int groups;

    /**
     * Makes a topic, and again until the name server knows of it: the broker tells it of a new topic once, and tries no
     * second time where that fails.
     */
    Object createTopic(JSONObject request) throws Exception {
        TopicConfig topic = new TopicConfig(request.getString("topic"), QUEUES, QUEUES);
        DefaultMQProducer producer = new DefaultMQProducer("interopProducer" + ++groups);
        start(producer, request.getString("nameServer"));
        try {
            MQClientAPIImpl api = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
            long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
            while (true) {
                try {
                    api.createTopic(request.getString("broker"), TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC, topic,
                        SEND_TIMEOUT_MS);
                    return api.getTopicRouteInfoFromNameServer(topic.getTopicName(), SEND_TIMEOUT_MS).getQueueDatas()
                        .size();
                } catch (MQClientException | RemotingException notYet) {
                    if (System.currentTimeMillis() > deadline) {
                        throw notYet;
                    }
                    Thread.sleep(POLL_MS);
                }
            }
        } finally {
            producer.shutdown();
        }
    }

    /** Sends plain, batch, delayed, compressed (each type) and transactional messages; answers the ids and kinds. */
    JSONArray send(JSONObject request) throws Exception {
        String nameServer = request.getString("nameServer");
        String topic = request.getString("topic");
        JSONArray sent = new JSONArray();
        sendPlain(nameServer, topic, request.getIntValue("count"), sent);
        for (CompressionType type : CompressionType.values()) {
            sendCompressed(nameServer, topic, type, sent);
        }
        sendTransactions(nameServer, topic, sent);
        return sent;
    }

    private void sendPlain(String nameServer, String topic, int count, JSONArray sent) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interopProducer" + ++groups);
        start(producer, nameServer);
        try {
            for (int i = 0; i < count; i++) {
                Message message = message(topic, "plain" + i, utf8("body " + i + " \u00e9\u4e16\uD83D\uDE00"));
                note("plain", producer.send(message), sent);
            }
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                batch.add(message(topic, "batch" + i, utf8("inner " + i)));
            }
            note("batch", producer.send(batch), sent);
            Message delayed = message(topic, "delay", utf8("later"));
            delayed.setDelayTimeLevel(1);
            note("delay", producer.send(delayed), sent);
        } finally {
            producer.shutdown();
        }
    }

    private void sendCompressed(String nameServer, String topic, CompressionType type, JSONArray sent)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interopProducer" + ++groups);
        producer.setCompressMsgBodyOverHowmuch(COMPRESS_OVER);
        producer.setCompressType(type);
        start(producer, nameServer);
        try {
            byte[] body = new byte[4 * COMPRESS_OVER];
            Arrays.fill(body, (byte) type.name().charAt(0));
            note("compressed " + type, producer.send(message(topic, "zip" + type, body)), sent);
        } finally {
            producer.shutdown();
        }
    }

    /** One committed, one rolled back, one left open. */
    private void sendTransactions(String nameServer, String topic, JSONArray sent) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("interopProducer" + ++groups);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return (LocalTransactionState) state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        start(producer, nameServer);
        try {
            for (LocalTransactionState state : LocalTransactionState.values()) {
                Message message = message(topic, "transaction" + state, utf8(state.name()));
                note("transaction " + state, producer.sendMessageInTransaction(message, state), sent);
            }
        } finally {
            producer.shutdown();
        }
    }

    private static void start(DefaultMQProducer producer, String nameServer) throws Exception {
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.start();
    }

    private static Message message(String topic, String key, byte[] body) {
        Message message = new Message(topic, "Tag" + key.charAt(0), key + " all", body);
        message.putUserProperty("name", key);
        return message;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void note(String kind, SendResult result, JSONArray sent) {
        sent.add(Json.object("kind", kind, "status", result.getSendStatus().name(), "uniq_key", result.getMsgId(),
            "msg_id", result.getOffsetMsgId(), "queue_offset", result.getQueueOffset()));
    }

    /**
     * Everything that a consumer gets from the topic, until nothing more came for a while and so many messages as are wanted
     * were among it. A message can be there twice: a producer that waits too long sends it again, and a pull can be repeated.
     */
    JSONArray consume(JSONObject request) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("interopConsumer" + ++groups);
        consumer.setNamesrvAddr(request.getString("nameServer"));
        consumer.setAutoCommit(false);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(request.getString("topic"));
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
            JSONArray got = new JSONArray();
            Set<String> distinct = new HashSet<>();
            int wanted = request.getIntValue("wanted");
            long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
            for (int idle = 0; (idle < 2 || distinct.size() < wanted) && System.currentTimeMillis() < deadline;) {
                List<MessageExt> messages = consumer.poll(POLL_MS);
                idle = messages.isEmpty() ? idle + 1 : 0;
                for (MessageExt message : messages) {
                    distinct.add(message.getMsgId());
                    got.add(Json.object("phy_offset", message.getCommitLogOffset(), "keys", message.getKeys(),
                        "uniq_key", message.getMsgId(),
                        "body", Base64.getEncoder().encodeToString(message.getBody()),
                        "queue_id", message.getQueueId(), "queue_offset", message.getQueueOffset()));
                }
            }
            return got;
        } finally {
            consumer.shutdown();
        }
    }
}
