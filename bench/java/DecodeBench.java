import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Decodes every record of a CommitLog file with RocketMQ's own MessageDecoder, body and properties included, CRC not checked.
 *
 * <p>Arguments: FILE ROUNDS. Prints "decode SECONDS RECORDS", the median of the rounds after two that warm up the compiler:
 * CPU time of the decoding thread, without the garbage collector's, so that others on the machine count less.
 */
public final class DecodeBench {
    private static final int WARM_UP = 2;

    private DecodeBench() {
    }

    public static void main(String[] args) throws Exception {
        ThreadMXBean cpu = ManagementFactory.getThreadMXBean();
        int rounds = Integer.parseInt(args[1]);
        try (FileChannel file = FileChannel.open(Path.of(args[0]), StandardOpenOption.READ)) {
            ByteBuffer log = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
            double[] seconds = new double[rounds];
            long records = 0;
            for (int round = -WARM_UP; round < rounds; round++) {
                long start = cpu.getCurrentThreadCpuTime();
                records = decodeAll(log);
                if (round >= 0) {
                    seconds[round] = (cpu.getCurrentThreadCpuTime() - start) / 1e9;
                }
            }
            Arrays.sort(seconds);
            System.out.printf("decode %.6f %d%n", seconds[rounds / 2], records);
        }
    }

    private static long decodeAll(ByteBuffer log) {
        long records = 0;
        int pos = 0;
        while (pos + 8 <= log.limit() && log.getInt(pos + 4) == MessageDecoder.MESSAGE_MAGIC_CODE) {
            int size = log.getInt(pos);
            MessageExt message = MessageDecoder.decode(log.slice(pos, size), true, false, false);
            if (message == null) {
                throw new IllegalStateException("not decoded: record at " + pos);
            }
            records++;
            pos += size;
        }
        return records;
    }
}
