package org.rmqcore.versions;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What differs between releases from 4.5 to 5.5, by reflection: one source is compiled with the jars of each. */
final class Release {
    /** 5.x moved this class to rocketmq-common, and what makes delayed messages from the store to the broker. */
    static final boolean FOUR = isThere("org.apache.rocketmq.store.MessageExtBrokerInner");
    static final boolean IPV6 = hasMethod(org.apache.rocketmq.common.message.MessageExt.class, "setBornHostV6Flag");

    private static final String[] FAST_FLUSHES = {
        "flushIntervalCommitLog=50", "flushIntervalConsumeQueue=100", "flushCommitLogLeastPages=0",
        "flushConsumeQueueLeastPages=0", "flushConsumeQueueThoroughInterval=200", "flushCommitLogThoroughInterval=200",
        "haListenPort=0",
    };

    private Release() {
    }

    static boolean isThere(String name) {
        return Release.class.getClassLoader().getResource(name.replace('.', '/') + ".class") != null;
    }

    private static boolean hasMethod(Class<?> type, String name) {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    /** Calls a method by its name: of an object, or a static one of a class. */
    static Object call(Object target, String name, Object... arguments) throws Exception {
        Class<?> type = target instanceof Class ? (Class<?>) target : target.getClass();
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && takes(method.getParameterTypes(), arguments)) {
                method.setAccessible(true);
                return method.invoke(target instanceof Class ? null : target, arguments);
            }
        }
        throw new NoSuchMethodException(type + "#" + name);
    }

    private static boolean takes(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            Class<?> type = types[i] == int.class ? Integer.class : types[i] == long.class ? Long.class
                : types[i] == boolean.class ? Boolean.class : types[i];
            if (arguments[i] != null && !type.isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    /** Sets a field of a configuration; 4.x spells mapped with one p. */
    private static void set(Object config, String setting) throws Exception {
        String[] parts = setting.split("=", 2);
        String old = parts[0].replace("mapped", "maped");
        for (Method method : config.getClass().getMethods()) {
            String name = method.getName();
            if (method.getParameterCount() != 1 || !name.startsWith("set")) {
                continue;
            }
            if (name.substring(3).equalsIgnoreCase(parts[0]) || name.substring(3).equalsIgnoreCase(old)) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(config, type == int.class ? (Object) Integer.valueOf(parts[1])
                    : type == long.class ? (Object) Long.valueOf(parts[1])
                    : type == boolean.class ? (Object) Boolean.valueOf(parts[1]) : parts[1]);
                return;
            }
        }
    }

    static DefaultMessageStore open(String folder, String[] settings) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(folder);
        config.setStorePathCommitLog(folder + "/commitlog");
        for (String setting : FAST_FLUSHES) {
            set(config, setting);
        }
        for (String setting : settings) {
            set(config, setting);
        }
        DefaultMessageStore store = make(config);
        if (!store.load()) {
            throw new IllegalStateException("load failed: " + folder);
        }
        store.start();
        awaitDispatch(store);
        return store;
    }

    private static DefaultMessageStore make(MessageStoreConfig config) throws Exception {
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerName("versions");
        Object listener = Proxy.newProxyInstance(Release.class.getClassLoader(), new Class<?>[] {MessageArrivingListener.class},
            (proxy, method, arguments) -> method.getName().equals("hashCode") ? (Object) 1 : null);
        Object stats;
        try {
            stats = BrokerStatsManager.class.getConstructor(String.class, boolean.class).newInstance("versions", true);
        } catch (NoSuchMethodException e) {
            stats = BrokerStatsManager.class.getConstructor(String.class).newInstance("versions");
        }
        for (Constructor<?> constructor : DefaultMessageStore.class.getConstructors()) {
            Class<?>[] types = constructor.getParameterTypes();
            if (types.length == 5 && Map.class.isAssignableFrom(types[4])) {
                return (DefaultMessageStore) constructor.newInstance(config, stats, listener, broker, new ConcurrentHashMap<>());
            }
            if (types.length == 4) {
                return (DefaultMessageStore) constructor.newInstance(config, stats, listener, broker);
            }
        }
        throw new IllegalStateException("no constructor of DefaultMessageStore is known");
    }

    static void awaitDispatch(DefaultMessageStore store) throws Exception {
        for (int i = 0; i < 6000 && store.dispatchBehindBytes() != 0; i++) {
            Thread.sleep(10);
        }
        Thread.sleep(60); // behind the offset that dispatch has reached queues and index still take the message
    }
}
