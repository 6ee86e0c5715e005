package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.ServiceThread;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueStoreInterface;
import org.apache.rocketmq.store.queue.RocksDBConsumeQueueStore;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** RocketMQ's own store with a clock that can be set, so that two stores can be written at the same times. */
final class ClockedStore extends DefaultMessageStore {
    private static final String NAME = "interop";
    private static final int WAIT_MS = 120_000;

    private final SettableClock clock = new SettableClock();
    private final Field dispatcher = accessible(DefaultMessageStore.class, "reputMessageService");
    private final Field thread = accessible(ServiceThread.class, "thread");
    private boolean started;

    private ClockedStore(MessageStoreConfig config, BrokerConfig broker, ConcurrentMap<String, TopicConfig> topics)
        throws IOException, ReflectiveOperationException {
        super(config, new BrokerStatsManager(NAME, true),
            (topic, queueId, queueOffset, tagsCode, storeTime, bitMap, properties) -> { },
            broker, topics);
    }

    /**
     * Opens a directory: load and recovery, and unless {@code loadOnly} the services, until dispatch has caught up.
     * {@code attributes} has those of the topics that have any, such as queue.type.
     */
    static ClockedStore open(String dir, JSONObject settings, JSONObject attributes, boolean loadOnly)
        throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(dir);
        config.setStorePathCommitLog(dir + "/commitlog");
        config.setHaListenPort(0);
        Properties properties = new Properties();
        for (Map.Entry<String, Object> setting : settings.entrySet()) {
            properties.setProperty(setting.getKey(), String.valueOf(setting.getValue()));
        }
        MixAll.properties2Object(properties, config);
        BrokerConfig broker = new BrokerConfig();
        MixAll.properties2Object(properties, broker);
        broker.setBrokerName(NAME);
        ClockedStore store = new ClockedStore(config, broker, topics(attributes));
        if (!store.load()) {
            throw new IllegalStateException("load() of " + dir + " answered false");
        }
        if (!loadOnly) {
            store.start();
            store.awaitDispatch();
        }
        return store;
    }

    private static ConcurrentMap<String, TopicConfig> topics(JSONObject attributes) {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (String topic : attributes.keySet()) {
            TopicConfig config = new TopicConfig(topic);
            attributes.getJSONObject(topic).forEach((name, value) -> config.getAttributes().put(name, value.toString()));
            topics.put(topic, config);
        }
        return topics;
    }

    /** Queues in RocksDB where the settings say so, as RocksDBMessageStore has them. */
    @Override
    public ConsumeQueueStoreInterface createConsumeQueueStore() {
        return getMessageStoreConfig().isEnableRocksDBStore()
            ? new RocksDBConsumeQueueStore(this)
            : super.createConsumeQueueStore();
    }

    @Override
    public void start() throws Exception {
        started = true;
        super.start();
    }

    /** Sets the time that messages are stored at, in milliseconds; 0 lets it run. */
    void setNow(long nowMs) {
        clock.nowMs = nowMs;
    }

    @Override
    public SystemClock getSystemClock() {
        return clock == null ? new SystemClock() : clock; // null while the constructor of the class above runs
    }

    /** Waits until queues and index hold everything. */
    void awaitDispatch() throws InterruptedException, ReflectiveOperationException {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (dispatchBehindBytes() > 0 || dispatches()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException(dispatchBehindBytes() + " bytes behind after " + WAIT_MS + " ms");
            }
            Thread.sleep(1);
        }
    }

    /** Whether the dispatcher is at work: a record counts as dispatched a moment before it is in the index. */
    private boolean dispatches() throws ReflectiveOperationException {
        Thread running = (Thread) thread.get(dispatcher.get(this));
        return running != null && Arrays.stream(running.getStackTrace())
            .anyMatch(call -> call.getMethodName().equals("doReput"));
    }

    private static Field accessible(Class<?> type, String name) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    /**
     * A clean shutdown, without the three seconds that it sleeps for puts that may still be running: here are none,
     * so the sleeper is woken, which it logs and then goes on.
     */
    void close() throws Exception {
        if (!started) {
            start(); // a store that was only loaded does not shut down: it waits for threads that never ran
        }
        Thread closing = new Thread(this::shutdown, "closing");
        closing.start();
        while (closing.isAlive()) {
            if (sleepsInShutdown(closing.getStackTrace())) {
                closing.interrupt();
            }
            closing.join(5);
        }
    }

    private static boolean sleepsInShutdown(StackTraceElement[] stack) {
        for (int i = 1; i < stack.length; i++) {
            if (stack[i - 1].getMethodName().startsWith("sleep")
                && stack[i].getClassName().equals(DefaultMessageStore.class.getName())
                && stack[i].getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    private static final class SettableClock extends SystemClock {
        private volatile long nowMs;

        @Override
        public long now() {
            return nowMs == 0 ? System.currentTimeMillis() : nowMs;
        }
    }
}
