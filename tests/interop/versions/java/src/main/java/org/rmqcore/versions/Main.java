package org.rmqcore.versions;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Map;
import org.apache.rocketmq.store.DefaultMessageStore;

/** DIR OUT.json PUTS close|halt SEED FILE_SIZE [setting=value ...]: opens a store, says what it finds, puts, says it again, ends. */
public final class Main {
    private Main() {
    }

    public static void main(String[] words) {
        try {
            run(words);
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(String[] words) throws Exception {
        int puts = Integer.parseInt(words[2]);
        int fileSize = Integer.parseInt(words[5]);
        DefaultMessageStore store = Release.open(words[0], Arrays.copyOfRange(words, 6, words.length));
        Map<String, Object> found = Json.object("ipv6", Release.IPV6);
        if (store.getMaxPhyOffset() > 0) {
            found.put("before", Answers.all(store, fileSize));
        }
        if (puts > 0) {
            new Workload(store, Long.parseLong(words[4]), store.getMaxPhyOffset() > 0 ? 1_000_000 : 0).put(puts);
            found.put("after", Answers.all(store, fileSize));
        }
        StringBuilder out = new StringBuilder();
        Json.write(out, found);
        Files.write(Paths.get(words[1]), out.toString().getBytes(StandardCharsets.UTF_8));
        if (words[3].equals("halt")) {
            Runtime.getRuntime().halt(0);
        }
        store.shutdown();
    }
}
