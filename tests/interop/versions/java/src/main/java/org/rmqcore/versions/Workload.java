package org.rmqcore.versions;

import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import java.util.zip.DeflaterOutputStream;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageBatch;
import org.apache.rocketmq.common.message.MessageDecoder;
// The wildcards find MessageExtBrokerInner and MessageExtBatch where each release has them.
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.store.*;

/** Puts messages of all kinds that a release has. */
final class Workload {
    private static final int ZLIB = 0x1;
    private static final int LZ4 = 0x101;
    private static final int ZSTD = 0x201;

    private final DefaultMessageStore store;
    private final Random random;
    private int number;

    Workload(DefaultMessageStore store, long seed, int firstNumber) {
        this.store = store;
        this.random = new Random(seed);
        this.number = firstNumber;
    }

    void put(int count) throws Exception {
        for (int i = 0; i < count; i++) {
            int kind = random.nextInt(100);
            String topic = "Topic" + (char) ('A' + random.nextInt(8));
            int queueId = random.nextInt(4);
            if (kind < 60) {
                MessageExtBrokerInner message = message(topic, queueId, body(random.nextInt(5) == 0 ? 2000 : 200));
                message.setFlag(random.nextInt(9) == 0 ? random.nextInt() : 0);
                put(message);
            } else if (kind < 68) {
                batch(topic, queueId);
            } else if (kind < 76) {
                transaction(queueId);
            } else if (kind < 84) {
                delayed(queueId);
            } else if (kind < 92) {
                compressed(queueId);
            } else if (kind < 96) {
                ipv6(queueId);
            } else {
                MessageExtBrokerInner message = message("%RETRY%group" + random.nextInt(3), 0, body(80));
                message.setReconsumeTimes(1 + random.nextInt(15));
                message.getProperties().put("RETRY_TOPIC", topic);
                put(message);
            }
        }
        Release.awaitDispatch(store);
    }

    private MessageExtBrokerInner message(String topic, int queueId, byte[] body) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setTopic(topic);
        message.setQueueId(queueId);
        message.setBody(body);
        message.setBornTimestamp(System.currentTimeMillis() - random.nextInt(5000));
        message.setBornHost(host(new byte[] {10, 1, (byte) random.nextInt(256), 7}));
        message.setStoreHost(host(new byte[] {127, 0, 0, 1}));
        int own = number++;
        // Every tenth has a tag and no key: releases before 5.4 leave it out of the index.
        boolean keyed = own % 10 != 0;
        if (!keyed || random.nextInt(8) > 0) {
            message.setTags("Tag" + (char) ('A' + random.nextInt(5)));
        }
        if (keyed) {
            MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("7F0000010000%08X%012X", random.nextInt(), (long) own));
            if (random.nextInt(3) > 0) {
                message.setKeys("key-" + own + (random.nextBoolean() ? " hot" + random.nextInt(20) : ""));
            }
        }
        if (random.nextInt(5) == 0) {
            message.putUserProperty("\u0438\u043c\u044f", "v" + own);
        }
        return message;
    }

    private static InetSocketAddress host(byte[] address) throws Exception {
        return new InetSocketAddress(InetAddress.getByAddress(address), 10911);
    }

    private byte[] body(int most) {
        byte[] body = new byte[random.nextInt(most)];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) ('a' + random.nextInt(26));
        }
        return body;
    }

    private long put(MessageExtBrokerInner message) throws Exception {
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult result = store.putMessage(message);
        for (int i = 0; i < 300 && !result.isOk() && number < 50; i++) {
            Thread.sleep(100); // a store that has just begun is not yet ready
            result = store.putMessage(message);
        }
        if (!result.isOk()) {
            throw new IllegalStateException(result + " " + message.getTopic());
        }
        return result.getAppendMessageResult().getWroteOffset();
    }

    private void batch(String topic, int queueId) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i <= random.nextInt(12); i++) {
            MessageExtBrokerInner one = message(topic, queueId, body(100));
            Message plain = new Message(topic, one.getBody());
            MessageAccessor.setProperties(plain, one.getProperties());
            plain.setWaitStoreMsgOK(true);
            messages.add(plain);
        }
        byte[] image = ((MessageBatch) Release.call(MessageBatch.class, "generateFromList", messages)).encode();
        MessageExtBrokerInner like = message(topic, queueId, image);
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic(topic);
        batch.setQueueId(queueId);
        batch.setBody(image);
        batch.setBornTimestamp(like.getBornTimestamp());
        batch.setBornHost(like.getBornHost());
        batch.setStoreHost(like.getStoreHost());
        PutMessageResult result = store.putMessages(batch);
        if (!result.isOk()) {
            throw new IllegalStateException("batch: " + result);
        }
    }

    private void transaction(int queueId) throws Exception {
        MessageExtBrokerInner half = message("TopicTx", queueId, body(50));
        half.getProperties().put("TRAN_MSG", "true");
        half.getProperties().put("PGROUP", "group");
        half.setSysFlag(4);
        long at = put(half);
        MessageExtBrokerInner end = message("TopicTx", queueId, half.getBody());
        end.setSysFlag(random.nextBoolean() ? 8 : 12);
        end.setPreparedTransactionOffset(at);
        put(end);
    }

    /** 4.x stores change the topic themselves, from 5.0 on the broker does. */
    private void delayed(int queueId) throws Exception {
        MessageExtBrokerInner message = message("TopicDelay", queueId, body(40));
        int level = 14 + random.nextInt(5);
        message.getProperties().put("DELAY", "" + level);
        if (!Release.FOUR) {
            message.getProperties().put("REAL_TOPIC", "TopicDelay");
            message.getProperties().put("REAL_QID", "" + queueId);
            message.setTopic("SCHEDULE_TOPIC_XXXX");
            message.setQueueId(level - 1);
        }
        put(message);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void compressed(int queueId) throws Exception {
        byte[] plain = body(2000);
        String types = "org.apache.rocketmq.common.compression.CompressionType";
        int kind = Release.isThere(types) ? random.nextInt(3) : 0;
        byte[] body;
        if (kind == 0) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            try (DeflaterOutputStream deflater = new DeflaterOutputStream(out)) {
                deflater.write(plain);
            }
            body = out.toByteArray();
        } else {
            Object type = Enum.valueOf((Class) Class.forName(types), kind == 1 ? "LZ4" : "ZSTD");
            Class<?> factory = Class.forName("org.apache.rocketmq.common.compression.CompressorFactory");
            body = (byte[]) Release.call(Release.call(factory, "getCompressor", type), "compress", plain, 5);
        }
        MessageExtBrokerInner message = message("TopicZip", queueId, body);
        message.setSysFlag(new int[] {ZLIB, LZ4, ZSTD}[kind]);
        put(message);
    }

    private void ipv6(int queueId) throws Exception {
        MessageExtBrokerInner message = message("TopicV6", queueId, body(60));
        if (Release.IPV6) {
            byte[] address = new byte[16];
            random.nextBytes(address);
            address[0] = 0x20;
            int which = random.nextInt(3);
            if (which != 1) {
                message.setBornHost(host(address));
                Release.call(message, "setBornHostV6Flag");
            }
            if (which != 0) {
                message.setStoreHost(host(address));
                Release.call(message, "setStoreHostAddressV6Flag");
            }
        }
        put(message);
    }
}
