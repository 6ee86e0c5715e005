package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.LocalTime;
import org.apache.rocketmq.store.DefaultMessageStore;

/** One round of RocketMQ's own cleaning: what its two timers call, in the thread that asks. */
final class Cleaning {
    private static final int HALF_A_DAY = 12;

    private Cleaning() {
    }

    /**
     * Makes a round. {@code hour} says whether the hour is one of {@code deleteWhen}: the setting is moved, since
     * the clock of the machine cannot be.
     */
    static JSONObject round(ClockedStore store, boolean hour, boolean manual) throws ReflectiveOperationException {
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
