import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.MessageExtEncoder;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Encodes and decodes one record again and again, by the clock, as bench/codec_benches.py does with ours.
 *
 * <p>Arguments: RECORD PROPERTIES, both hexadecimal: a record of ours, which Java has to read and to write with the same bytes, and
 * its properties string. Each line of stdin is a step, "NAME COUNT"; each is answered by a line with its nanoseconds.
 *
 * <ul>
 *   <li>"encode": MessageExtEncoder.encode of a message that exists, and the CRC of its body, which the store computes just before
 *       it. The encoder takes its properties as a string, which the caller made before: that is not counted.
 *   <li>"encode+properties": that string is made of the message's map too, as a broker does that changed one.
 *   <li>"record": with these, an array of its own for the record: all that codec.encode does.
 *   <li>"encoder": MessageExtEncoder.encode alone.
 *   <li>"decode": MessageDecoder.decode with body and properties; nothing is decompressed, the CRC is not checked.
 *   <li>"decodes": MessageDecoder.decodes of 1,000 such records, as a client takes a pull's body apart.
 * </ul>
 *
 * <p>The encoder leaves out what the store writes over the encoded bytes when it appends them: the offset in the log. All of its calls
 * write into one buffer; ours make an object each.
 */
public final class CodecBench {
    private static final int RECORDS = 1_000;

    private final ByteBuffer record;
    private final MessageExtBrokerInner message = new MessageExtBrokerInner();
    private final MessageExtEncoder encoder = new MessageExtEncoder(new MessageStoreConfig());
    private final ByteBuffer records;
    private Object last; // a result that nobody keeps might never be made

    private CodecBench(byte[] bytes, String properties) {
        record = ByteBuffer.wrap(bytes);
        records = ByteBuffer.allocate(RECORDS * bytes.length);
        for (int i = 0; i < RECORDS; i++) {
            records.put(bytes);
        }
        MessageExt read = decodeOne();
        message.setTopic(read.getTopic());
        message.setBody(read.getBody());
        message.setQueueId(read.getQueueId());
        message.setQueueOffset(read.getQueueOffset());
        message.setBornTimestamp(read.getBornTimestamp());
        message.setStoreTimestamp(read.getStoreTimestamp());
        message.setBornHost(read.getBornHost());
        message.setStoreHost(read.getStoreHost());
        MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(properties));
        message.setPropertiesString(properties);
        encode(1);
        if (!Arrays.equals(encoded(), bytes)) {
            throw new IllegalStateException("Java encodes other bytes: " + HexFormat.of().formatHex(encoded()));
        }
    }

    public static void main(String[] args) {
        try {
            PrintStream answers = System.out;
            System.setOut(System.err);
            HexFormat hex = HexFormat.of();
            String properties = new String(hex.parseHex(args[1]), StandardCharsets.UTF_8);
            CodecBench bench = new CodecBench(hex.parseHex(args[0]), properties);
            BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
            for (String line = steps.readLine(); line != null; line = steps.readLine()) {
                String[] words = line.split(" ");
                int count = Integer.parseInt(words[1]);
                long began = System.nanoTime();
                bench.step(words[0], count);
                answers.println(System.nanoTime() - began);
                answers.flush();
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private void step(String name, int count) {
        switch (name) {
            case "encode":
                encode(count);
                break;
            case "encode+properties":
                encodeWithProperties(count);
                break;
            case "record":
                records(count);
                break;
            case "encoder":
                encoder(count);
                break;
            case "decode":
                decode(count);
                break;
            case "decodes":
                decodes(count);
                break;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private void encode(int count) {
        for (int i = 0; i < count; i++) {
            message.setBodyCRC(UtilAll.crc32(message.getBody()));
            encodeOne();
        }
    }

    private void encodeWithProperties(int count) {
        for (int i = 0; i < count; i++) {
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            message.setBodyCRC(UtilAll.crc32(message.getBody()));
            encodeOne();
        }
    }

    private void records(int count) {
        for (int i = 0; i < count; i++) {
            encodeWithProperties(1);
            last = encoded();
        }
    }

    private byte[] encoded() {
        ByteBuffer written = encoder.getEncoderBuffer();
        byte[] bytes = new byte[written.getInt(0)];
        written.get(bytes);
        return bytes;
    }

    private void encoder(int count) {
        for (int i = 0; i < count; i++) {
            encodeOne();
        }
    }

    private void encodeOne() {
        if (encoder.encode(message) != null) {
            throw new IllegalStateException("encode");
        }
    }

    private void decode(int count) {
        for (int i = 0; i < count; i++) {
            last = decodeOne();
        }
    }

    private void decodes(int count) {
        for (int i = 0; i < count; i++) {
            records.rewind();
            last = MessageDecoder.decodes(records);
        }
    }

    private MessageExt decodeOne() {
        record.rewind();
        MessageExt read = MessageDecoder.decode(record, true, false, false);
        if (read == null) {
            throw new IllegalStateException("decode");
        }
        return read;
    }
}
