import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;

/**
 * The real store, with its default configuration, doing what bench/engine_benches.py has ours do, step by step.
 *
 * <p>Arguments: DIR BODY. Each line of stdin is a step, "NAME COUNT"; each is answered by a line "SECONDS COUNT WALL". Seconds are
 * CPU time of the thread that does the work, so that other work on the machine and the garbage collector do not count; for load,
 * which waits for the disk too, they are wall time, as WALL is for each step.
 */
public final class EngineBench {
    private static final String TOPIC = BenchStore.TOPIC;
    private static final int QUEUES = BenchStore.QUEUES;
    private static final int PART = 10_240;
    private static final ThreadMXBean CPU = ManagementFactory.getThreadMXBean();

    private final Path root;
    private final byte[] body;
    private DefaultMessageStore store;
    private long made;
    private long reputNanos;
    private long began;

    private EngineBench(Path root, int bodySize) {
        this.root = root;
        body = new byte[bodySize];
        Arrays.fill(body, (byte) 'x');
    }

    public static void main(String[] args) {
        try {
            PrintStream answers = System.out;
            System.setOut(System.err);
            EngineBench bench = new EngineBench(Path.of(args[0]), Integer.parseInt(args[1]));
            BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
            for (String line = steps.readLine(); line != null; line = steps.readLine()) {
                String[] words = line.split(" ");
                int count = Integer.parseInt(words[1]);
                bench.began = System.nanoTime();
                double seconds = bench.step(words[0], count) / 1e9;
                double wall = (System.nanoTime() - bench.began) / 1e9;
                answers.printf("%.9f %d %.9f%n", seconds, count == 0 ? bench.made : count, wall);
                answers.flush();
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    /** Nanoseconds of a step. A count of 0 stands for all messages. */
    private long step(String name, int count) throws Exception {
        switch (name) {
            case "open":
                store = BenchStore.load(root);
                store.start();
                return 0;
            case "put":
                return put(count);
            case "batch32":
                return putBatches(count, 32);
            case "batch256":
                return putBatches(count, 256);
            case "dispatched": // CPU time of the dispatching thread since the last step of this name
                caughtUp();
                long before = reputNanos;
                reputNanos = reputNanos();
                return reputNanos - before;
            case "get":
                return get(false);
            case "get+decode":
                return get(true);
            case "query-hit":
                return query("k", count);
            case "query-miss":
                return query("miss", count);
            case "close":
                store.shutdown();
                return 0;
            case "load":
                long start = System.nanoTime();
                BenchStore.load(root);
                return System.nanoTime() - start;
            case "rebuild":
                delete(root.resolve("consumequeue"));
                delete(root.resolve("index"));
                began = System.nanoTime();
                long cpu = CPU.getCurrentThreadCpuTime();
                BenchStore.load(root);
                return CPU.getCurrentThreadCpuTime() - cpu;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private long put(int count) {
        long nanos = 0;
        MessageExtBrokerInner[] messages = new MessageExtBrokerInner[PART];
        for (int done = 0; done < count; done += PART) {
            for (int i = 0; i < PART; i++) {
                messages[i] = BenchStore.message(made++, body);
            }
            long before = CPU.getCurrentThreadCpuTime();
            for (MessageExtBrokerInner message : messages) {
                if (!store.putMessage(message).isOk()) {
                    throw new IllegalStateException("put");
                }
            }
            nanos += CPU.getCurrentThreadCpuTime() - before;
        }
        return nanos;
    }

    /** Encodes and puts lists of messages, as a producer and a broker together do. */
    private long putBatches(int count, int size) {
        long nanos = 0;
        for (int done = 0; done < count; done += PART) {
            List<List<Message>> lists = new ArrayList<>();
            for (int i = 0; i < PART; i++) {
                if (i % size == 0) {
                    lists.add(new ArrayList<>(size));
                }
                lists.get(i / size).add(new Message(TOPIC, "TagA", "k" + made++, body));
            }
            long before = CPU.getCurrentThreadCpuTime();
            for (int i = 0; i < lists.size(); i++) {
                MessageExtBatch batch = BenchStore.batch(i % QUEUES, lists.get(i));
                if (!store.putMessages(batch).isOk()) {
                    throw new IllegalStateException("batch");
                }
            }
            nanos += CPU.getCurrentThreadCpuTime() - before;
        }
        return nanos;
    }

    private void caughtUp() throws InterruptedException {
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

    private long get(boolean decode) throws Exception {
        long before = CPU.getCurrentThreadCpuTime();
        for (int queue = 0; queue < QUEUES; queue++) {
            long end = store.getMaxOffsetInQueue(TOPIC, queue);
            for (long offset = 0; offset < end;) {
                GetMessageResult result = store.getMessage("g", TOPIC, queue, offset, 32, null);
                offset = result.getNextBeginOffset();
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
        return CPU.getCurrentThreadCpuTime() - before;
    }

    private long query(String prefix, int count) {
        String[] keys = new String[count];
        for (int i = 0; i < count; i++) {
            keys[i] = prefix + i * 7919L % made; // as in engine_benches.py
        }
        long before = CPU.getCurrentThreadCpuTime();
        for (int i = 0; i < count; i++) {
            QueryMessageResult result = store.queryMessage(TOPIC, keys[i], 32, 0, Long.MAX_VALUE);
            result.release();
        }
        return CPU.getCurrentThreadCpuTime() - before;
    }

    private static void delete(Path folder) throws Exception {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }
}
