import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Puts into the real store by the clock, with all its threads, as bench/clock_benches.py does with ours.
 *
 * <p>Arguments: DIR. Each line of stdin is a step: "put COUNT BODY PER_SECOND" (0: as fast as it goes) or "batch COUNT BODY SIZE". It
 * runs on a new store, and is answered by a line "SECONDS CALLS P50 P99.9 P99.99 WORST", the last four nanoseconds of one call.
 * "log COUNT BODY PER_SECOND FILE_SIZE SECONDS BYTES FILE" has log files of FILE_SIZE, ends when SECONDS are over and the log has
 * BYTES (or COUNT messages), is answered by the number of its calls, and leaves what each took in FILE, 8 bytes each, big-endian.
 */
public final class ClockBench {
    private static final int WARM_UP = 200_000;

    private final Path root;
    private DefaultMessageStore store;
    private long[] nanos;

    private ClockBench(Path root) {
        this.root = root;
    }

    public static void main(String[] args) {
        try {
            PrintStream answers = System.out;
            System.setOut(System.err);
            ClockBench bench = new ClockBench(Path.of(args[0]));
            BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
            int round = 0;
            for (String line = steps.readLine(); line != null; line = steps.readLine()) {
                String[] words = line.split(" ");
                byte[] body = new byte[Integer.parseInt(words[2])];
                Arrays.fill(body, (byte) 'x');
                int count = Integer.parseInt(words[1]);
                int parameter = Integer.parseInt(words[3]);
                answers.println(words[0].equals("log") ? bench.log(count, body, parameter, words, round++)
                    : bench.step(words[0], count, body, parameter, round++));
                answers.flush();
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private String step(String name, int count, byte[] body, int parameter, int round) throws Exception {
        store = BenchStore.load(root.resolve("store" + round));
        store.start();
        if (round == 0) {
            put(WARM_UP, body, 0);
            batches(WARM_UP, body, 256);
        }
        double seconds = (name.equals("put") ? put(count, body, parameter) : batches(count, body, parameter)) / 1e9;
        store.shutdown();
        store.destroy();
        long[] sorted = nanos.clone();
        Arrays.sort(sorted);
        int calls = sorted.length;
        return String.format("%.9f %d %d %d %d %d", seconds, calls, sorted[calls / 2], sorted[(int) (calls * 0.999)],
            sorted[(int) (calls * 0.9999)], sorted[calls - 1]);
    }

    private String log(int count, byte[] body, int perSecond, String[] words, int round) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setMappedFileSizeCommitLog(Integer.parseInt(words[4]));
        long leastNanos = Long.parseLong(words[5]) * 1_000_000_000L;
        long leastBytes = Long.parseLong(words[6]);
        store = BenchStore.load(root.resolve("store" + round), config);
        store.start();
        nanos = new long[count];
        long begin = System.nanoTime();
        long before = begin;
        int calls = 0;
        while (calls < count) {
            if (perSecond > 0) {
                long due = begin + calls * 1_000_000_000L / perSecond;
                while ((before = System.nanoTime()) < due) {
                    Thread.onSpinWait();
                }
            }
            if (!store.putMessage(BenchStore.message(calls, body)).isOk()) {
                throw new IllegalStateException("put");
            }
            long after = System.nanoTime();
            nanos[calls++] = after - before;
            before = after;
            if (after - begin >= leastNanos && store.getMaxPhyOffset() >= leastBytes) {
                break;
            }
        }
        store.shutdown();
        store.destroy();
        ByteBuffer bytes = ByteBuffer.allocate(8 * calls);
        bytes.asLongBuffer().put(nanos, 0, calls);
        Files.write(Path.of(words[7]), bytes.array());
        return Integer.toString(calls);
    }

    private long put(int count, byte[] body, int perSecond) {
        nanos = new long[count];
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) {
            if (perSecond > 0) {
                long due = begin + i * 1_000_000_000L / perSecond;
                while (System.nanoTime() < due) {
                    Thread.onSpinWait();
                }
            }
            long before = System.nanoTime();
            MessageExtBrokerInner message = BenchStore.message(i, body);
            if (!store.putMessage(message).isOk()) {
                throw new IllegalStateException("put");
            }
            nanos[i] = System.nanoTime() - before;
        }
        return System.nanoTime() - begin;
    }

    private long batches(int count, byte[] body, int size) {
        nanos = new long[count / size];
        long begin = System.nanoTime();
        for (int i = 0; i < nanos.length; i++) {
            long before = System.nanoTime();
            List<Message> messages = new ArrayList<>(size);
            for (int j = 0; j < size; j++) {
                messages.add(new Message(BenchStore.TOPIC, "TagA", "k" + (i * size + j), body));
            }
            if (!store.putMessages(BenchStore.batch(i % BenchStore.QUEUES, messages)).isOk()) {
                throw new IllegalStateException("batch");
            }
            nanos[i] = System.nanoTime() - before;
        }
        return System.nanoTime() - begin;
    }
}
