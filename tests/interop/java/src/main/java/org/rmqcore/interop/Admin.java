package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** {@code mqadmin}, with what it prints. */
final class Admin extends MQAdminStartup {
    private Admin() {
    }

    /**
     * Runs a command as the script does; the answer is what it has printed on both streams, without its log. Commands keep
     * clients for the next call, which the script never makes: each call gets new ones.
     */
    static String run(JSONArray words) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream caught = new PrintStream(new WithoutLog(printed, err), true, StandardCharsets.UTF_8);
        System.setOut(caught);
        System.setErr(caught);
        SUB_COMMANDS.clear();
        try {
            main0(words.toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    /**
     * Takes what a command prints, and leaves its log where logs go. A client that ends logs now and then that a heartbeat,
     * a connection or an executor of Netty was cut off, as the moment falls.
     */
    private static final class WithoutLog extends OutputStream {
        private final OutputStream printed;
        private final PrintStream log;

        WithoutLog(OutputStream printed, PrintStream log) {
            this.printed = printed;
            this.log = log;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int count) throws IOException {
            boolean logs = StackWalker.getInstance().walk(calls -> calls.anyMatch(
                call -> call.getClassName().contains(".logback.") || call.getClassName().startsWith("java.util.logging.")));
            (logs ? log : printed).write(bytes, from, count);
        }
    }
}
