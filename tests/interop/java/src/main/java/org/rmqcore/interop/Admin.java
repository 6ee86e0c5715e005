package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** {@code mqadmin}, with what it prints. */
final class Admin extends MQAdminStartup {
    private Admin() {
    }

    /**
     * Runs a command as the script does; the answer is what it has printed on both streams. Commands keep clients for
     * the next call, which the script never makes: each call gets new ones.
     */
    static String run(JSONArray words) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream caught = new PrintStream(printed, true, StandardCharsets.UTF_8);
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
}
