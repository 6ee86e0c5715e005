package org.rmqcore.interop;

import java.util.Arrays;
import java.util.Map;
import org.apache.rocketmq.common.ServiceThread;

/**
 * Ends RocketMQ's clients and servers sooner. Each has a thread that waits up to three seconds for an event of the network,
 * and its shutdown waits for that thread, which is most of the time of a command of mqadmin. Here that thread is woken: it
 * logs the interrupt, and sees that it is to end.
 */
final class ShortWaits extends Thread {
    private static final int POLL_MS = 10;
    private static final String WAITS = "NettyEventExecutor";

    private final Thread watched;

    private ShortWaits(Thread watched) {
        this.watched = watched;
        setDaemon(true);
    }

    /** Shortens what this thread shuts down, as long as the process runs. */
    static void of(Thread watched) {
        new ShortWaits(watched).start();
    }

    /** Shortens the end of this process. */
    static void atExit() {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> of(null)));
    }

    @Override
    public void run() {
        try {
            while (true) {
                sleep(POLL_MS);
                if (shutsDown()) {
                    getAllStackTraces().entrySet().stream().filter(ShortWaits::waits)
                        .forEach(thread -> thread.getKey().interrupt());
                }
            }
        } catch (InterruptedException ended) {
            throw new IllegalStateException(ended);
        }
    }

    private boolean shutsDown() {
        if (watched != null) {
            return watched.getState() != State.RUNNABLE && joins(watched.getStackTrace());
        }
        return getAllStackTraces().values().stream().anyMatch(ShortWaits::joins);
    }

    private static boolean joins(StackTraceElement[] stack) {
        return Arrays.stream(stack).anyMatch(call -> call.getMethodName().equals("shutdown")
            && call.getClassName().equals(ServiceThread.class.getName()));
    }

    private static boolean waits(Map.Entry<Thread, StackTraceElement[]> thread) {
        return thread.getKey().getName().startsWith(WAITS)
            && Arrays.stream(thread.getValue()).anyMatch(call -> call.getMethodName().equals("poll"));
    }
}
