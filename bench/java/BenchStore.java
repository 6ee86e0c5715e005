import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** The real store with its default configuration, and the messages that go into it. */
final class BenchStore {
    static final String TOPIC = "BenchTopic";
    static final int QUEUES = 4;
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    private BenchStore() {
    }

    /** Loads and recovers, and starts no thread: such a store needs no shutdown. */
    static DefaultMessageStore load(Path root) throws Exception {
        return load(root, new MessageStoreConfig());
    }

    static DefaultMessageStore load(Path root, MessageStoreConfig config) throws Exception {
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root.resolve("commitlog").toString());
        config.setHaListenPort(0);
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerName("bench");
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("bench", true),
            (topic, queue, offset, code, time, bits, properties) -> { }, broker, new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("load");
        }
        return store;
    }

    static MessageExtBrokerInner message(long number, byte[] body) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setQueueId((int) (number % QUEUES));
        message.setBody(body);
        message.setTags("TagA");
        message.setKeys("k" + number);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    /** Encodes messages as a producer does, and wraps them as a broker does. */
    static MessageExtBatch batch(int queueId, List<Message> messages) {
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic(TOPIC);
        batch.setQueueId(queueId);
        batch.setBody(MessageDecoder.encodeMessages(messages));
        batch.setBornTimestamp(System.currentTimeMillis());
        batch.setBornHost(HOST);
        batch.setStoreHost(HOST);
        return batch;
    }
}
