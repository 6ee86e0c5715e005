import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * The real store, with its default configuration, doing what bench/engine_benches.py has ours do.
 *
 * <p>Arguments: DIR BODY N. Prints "NAME SECONDS COUNT" lines. Times are CPU seconds of the thread that does the work, so that
 * others on the machine, and the garbage collector, do not count. Everything is done once before, to warm up the compiler.
 */
public final class EngineBench {
    private static final String TOPIC = "BenchTopic";
    private static final int QUEUES = 4;
    private static final int BATCH = 256;
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final ThreadMXBean CPU = ManagementFactory.getThreadMXBean();

    private EngineBench() {
    }

    public static void main(String[] args) {
        try {
            run(Path.of(args[0]), Integer.parseInt(args[1]), Integer.parseInt(args[2]));
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(Path root, int bodySize, int count) throws Exception {
        byte[] body = new byte[bodySize];
        Arrays.fill(body, (byte) 'x');
        DefaultMessageStore store = open(root);
        store.start();
        put(store, body, 0, count / 4, "");
        putBatches(store, body, count / 4, count / 4, "");
        long made = 2 * (count / 4);
        put(store, body, made, count, "put");
        made += count;
        caughtUp(store);
        long reputBefore = reputNanos();
        putBatches(store, body, made, count, "batch");
        made += count;
        caughtUp(store);
        print("dispatch", reputNanos() - reputBefore, count);
        for (String name : new String[] {"", "get", "", "get+decode"}) {
            get(store, name, name.endsWith("decode"));
        }
        query(store, "k", 20_000, made, "");
        query(store, "k", 100_000, made, "query hit");
        query(store, "miss", 100_000, made, "query miss");
        store.shutdown();
        delete(root.resolve("consumequeue"));
        delete(root.resolve("index"));
        long before = CPU.getCurrentThreadCpuTime();
        store = open(root);
        print("rebuild", CPU.getCurrentThreadCpuTime() - before, made);
    }

    private static DefaultMessageStore open(Path root) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
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

    private static void print(String name, long nanos, long count) {
        if (!name.isEmpty()) {
            System.out.printf("%s %.6f %d%n", name.replace(' ', '-'), nanos / 1e9, count);
            System.out.flush();
        }
    }

    private static void put(DefaultMessageStore store, byte[] body, long first, int count, String name) {
        int part = 10_000;
        long nanos = 0;
        MessageExtBrokerInner[] messages = new MessageExtBrokerInner[part];
        for (int done = 0; done < count; done += part) {
            for (int i = 0; i < part; i++) {
                messages[i] = message(body, first + done + i);
            }
            long before = CPU.getCurrentThreadCpuTime();
            for (MessageExtBrokerInner message : messages) {
                if (!store.putMessage(message).isOk()) {
                    throw new IllegalStateException("put");
                }
            }
            nanos += CPU.getCurrentThreadCpuTime() - before;
        }
        print(name, nanos, count);
    }

    private static MessageExtBrokerInner message(byte[] body, long number) {
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

    /** Lists of messages, encoded and put: what a producer and a broker do for each of them. */
    private static void putBatches(DefaultMessageStore store, byte[] body, long first, int count, String name) {
        long nanos = 0;
        for (int done = 0; done < count; done += BATCH) {
            List<Message> list = new ArrayList<>(BATCH);
            for (int i = 0; i < BATCH; i++) {
                list.add(new Message(TOPIC, "TagA", "k" + (first + done + i), body));
            }
            long before = CPU.getCurrentThreadCpuTime();
            MessageExtBatch batch = new MessageExtBatch();
            batch.setTopic(TOPIC);
            batch.setQueueId(done / BATCH % QUEUES);
            batch.setBody(MessageDecoder.encodeMessages(list));
            batch.setBornTimestamp(System.currentTimeMillis());
            batch.setBornHost(HOST);
            batch.setStoreHost(HOST);
            if (!store.putMessages(batch).isOk()) {
                throw new IllegalStateException("batch");
            }
            nanos += CPU.getCurrentThreadCpuTime() - before;
        }
        print(name, nanos, count);
    }

    private static void caughtUp(DefaultMessageStore store) throws InterruptedException {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    private static long reputNanos() {
        long nanos = 0;
        for (long id : CPU.getAllThreadIds()) {
            if (CPU.getThreadInfo(id) != null && CPU.getThreadInfo(id).getThreadName().contains("ReputMessage")) {
                nanos += CPU.getThreadCpuTime(id);
            }
        }
        return nanos;
    }

    private static void get(DefaultMessageStore store, String name, boolean decode) throws Exception {
        long count = 0;
        long before = CPU.getCurrentThreadCpuTime();
        for (int queue = 0; queue < QUEUES; queue++) {
            long end = store.getMaxOffsetInQueue(TOPIC, queue);
            for (long offset = 0; offset < end;) {
                GetMessageResult result = store.getMessage("g", TOPIC, queue, offset, 32, null);
                offset = result.getNextBeginOffset();
                count += result.getMessageCount();
                if (decode) {
                    for (ByteBuffer buffer : result.getMessageBufferList()) {
                        if (MessageDecoder.decode(buffer, true, false) == null) {
                            throw new IllegalStateException("decode");
                        }
                    }
                }
                result.release();
            }
        }
        print(name, CPU.getCurrentThreadCpuTime() - before, count);
    }

    private static void query(DefaultMessageStore store, String prefix, int count, long keys, String name) {
        Random random = new Random(5);
        long before = CPU.getCurrentThreadCpuTime();
        for (int i = 0; i < count; i++) {
            String key = prefix + (long) (random.nextDouble() * keys);
            QueryMessageResult result = store.queryMessage(TOPIC, key, 32, 0, Long.MAX_VALUE);
            result.release();
        }
        print(name, CPU.getCurrentThreadCpuTime() - before, count);
    }

    private static void delete(Path folder) throws Exception {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }
}
