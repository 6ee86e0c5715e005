import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends with the real client, one message a call, in some threads.
 *
 * <p>Each line of stdin is a step: "NAMESRV TOPIC THREADS SECONDS BODY". It is answered by a line "SENT SECONDS P50 P99 WORST", the
 * last three nanoseconds of one call. A send that is not stored ends the program.
 */
public final class ClientSends {
    private static final int MOST_CALLS = 4_000_000;

    private ClientSends() {
    }

    public static void main(String[] args) {
        try {
            PrintStream answers = System.out;
            System.setOut(System.err);
            BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
            int round = 0;
            for (String line = steps.readLine(); line != null; line = steps.readLine()) {
                answers.println(step(line.split(" "), round++));
                answers.flush();
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private static String step(String[] words, int round) throws Exception {
        int threads = Integer.parseInt(words[2]);
        byte[] body = new byte[Integer.parseInt(words[4])];
        Arrays.fill(body, (byte) 'x');
        DefaultMQProducer producer = new DefaultMQProducer("bench_p");
        producer.setNamesrvAddr(words[0]);
        producer.setInstanceName("step" + round);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        producer.send(new Message(words[1], "TagA", "first", body)); // finds the route
        try {
            return sends(producer, words[1], body, threads, Double.parseDouble(words[3]));
        } finally {
            producer.shutdown();
        }
    }

    private static String sends(DefaultMQProducer producer, String topic, byte[] body, int threads, double seconds) throws Exception {
        long[][] nanos = new long[threads][];
        AtomicReference<Throwable> failed = new AtomicReference<>();
        long begin = System.nanoTime();
        long stop = begin + (long) (seconds * 1e9);
        Thread[] senders = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int number = i;
            senders[i] = new Thread(() -> {
                try {
                    nanos[number] = calls(producer, topic, body, number, threads, stop);
                } catch (Throwable error) {
                    failed.set(error);
                }
            });
            senders[i].start();
        }
        for (Thread sender : senders) {
            sender.join();
        }
        double took = (System.nanoTime() - begin) / 1e9;
        if (failed.get() != null) {
            throw new IllegalStateException("a send failed", failed.get());
        }
        long[] sorted = Arrays.stream(nanos).flatMapToLong(Arrays::stream).sorted().toArray();
        return String.format("%d %.6f %d %d %d", sorted.length, took, sorted[sorted.length / 2],
            sorted[(int) (sorted.length * 0.99)], sorted[sorted.length - 1]);
    }

    private static long[] calls(DefaultMQProducer producer, String topic, byte[] body, int number, int threads, long stop)
        throws Exception {
        long[] nanos = new long[MOST_CALLS / threads];
        int calls = 0;
        for (long before = System.nanoTime(); before < stop && calls < nanos.length;) {
            SendResult result = producer.send(new Message(topic, "TagA", "k" + number + "-" + calls, body));
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException(result.toString());
            }
            long after = System.nanoTime();
            nanos[calls++] = after - before;
            before = after;
        }
        return Arrays.copyOf(nanos, calls);
    }
}
