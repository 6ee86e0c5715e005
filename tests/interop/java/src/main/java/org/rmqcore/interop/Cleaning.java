package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.LocalTime;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MappedFileQueue;
import org.apache.rocketmq.store.ReferenceResource;
import org.apache.rocketmq.store.logfile.MappedFile;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** One round of RocketMQ's own cleaning: what its two timers call, in the thread that asks. */
final class Cleaning {
    private static final int HALF_A_DAY = 12;
    private static final int WAIT_MS = 120_000;

    private Cleaning() {
    }

    /**
     * Makes a round. {@code hour} says whether the hour is one of {@code deleteWhen}: the setting is moved, since
     * the clock of the machine cannot be.
     */
    static JSONObject round(ClockedStore store, boolean hour, boolean manual) throws ReflectiveOperationException {
        stopTimers(store);
        awaitReaders(store);
        int now = LocalTime.now().getHour();
        store.getMessageStoreConfig().setDeleteWhen(String.valueOf(hour ? now : (now + HALF_A_DAY) % (2 * HALF_A_DAY)));
        if (manual) {
            store.executeDeleteFilesManually();
        }
        run(field(DefaultMessageStore.class, "cleanCommitLogService", store));
        Object queues = store.getQueueStore();
        run(field(queues.getClass(), "cleanConsumeQueueService", queues));
        return Json.object("minPhyOffset", store.getMinPhyOffset(), "writeable", store.getRunningFlags().isWriteable());
    }

    /** Its timers would make rounds of their own, a minute after the start: a slow machine gets there. */
    private static void stopTimers(ClockedStore store) throws ReflectiveOperationException {
        for (String name : List.of("scheduledExecutorService", "scheduledCleanQueueExecutorService")) {
            ((ExecutorService) field(DefaultMessageStore.class, name, store)).shutdownNow();
        }
    }

    /**
     * A file that a thread of the store holds at this moment (a flush, a dispatch) would stay, and end the round: so all
     * queues are flushed first, and what holds a file is waited for.
     */
    private static void awaitReaders(ClockedStore store) throws ReflectiveOperationException {
        await(store.getCommitLog().getMappedFileQueue());
        for (Map<Integer, ConsumeQueueInterface> queues : store.getQueueStore().getConsumeQueueTable().values()) {
            for (ConsumeQueueInterface queue : queues.values()) {
                while (!queue.flush(0)) {
                    Thread.onSpinWait();
                }
                await((MappedFileQueue) field(ConsumeQueue.class, "mappedFileQueue", queue));
            }
        }
    }

    private static void await(MappedFileQueue files) {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        for (MappedFile file : files.getMappedFiles()) {
            while (((ReferenceResource) file).getRefCount() > 1) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException(file.getFileName() + " is read for " + WAIT_MS + " ms");
                }
                Thread.onSpinWait();
            }
        }
    }

    private static Object field(Class<?> type, String name, Object owner) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    private static void run(Object service) throws ReflectiveOperationException {
        Method run = service.getClass().getDeclaredMethod("run");
        run.setAccessible(true);
        run.invoke(service);
    }
}
