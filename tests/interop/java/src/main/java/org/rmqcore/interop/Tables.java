package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import java.lang.reflect.Field;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.ConfigManager;
import org.apache.rocketmq.filter.util.BloomFilter;

/** The topics, groups and filters as a broker saves and loads them, in a file that the caller names. */
final class Tables {
    private Tables() {
    }

    /** Saves a table that is given as Java's JSON; what the file had before becomes its {@code .bak}. */
    static Object save(JSONObject request) {
        ConfigManager manager = manager(request);
        manager.decode(request.getString("json"));
        manager.persist();
        return null;
    }

    /** What a broker finds in the file, or in its {@code .bak}, as Java's JSON. */
    static JSONObject load(JSONObject request) {
        ConfigManager manager = manager(request);
        boolean loaded = manager.load();
        return Json.object("loaded", loaded, "json", manager.encode());
    }

    /** The bits of a bit map that stand for {@code group#topic}. */
    static Object filterBits(JSONObject request) {
        return bitsOfBroker().calcBitPositions(request.getString("name"));
    }

    private static BloomFilter bitsOfBroker() {
        BrokerConfig config = new BrokerConfig();
        return BloomFilter.createByFn(config.getMaxErrorRateOfBloomFilter(), config.getExpectConsumerNumUseFilter());
    }

    private static ConfigManager manager(JSONObject request) {
        String file = request.getString("file");
        switch (request.getString("kind")) {
            case "topics":
                return new Topics(file);
            case "groups":
                return new Groups(file);
            default:
                return new ConsumerFilters(file);
        }
    }

    private static final class Topics extends TopicConfigManager {
        private final String file;

        Topics(String file) {
            this.file = file;
        }

        @Override
        public String configFilePath() {
            return file;
        }
    }

    private static final class Groups extends SubscriptionGroupManager {
        private final String file;

        Groups(String file) {
            this.file = file;
        }

        @Override
        public String configFilePath() {
            return file;
        }
    }

    /** With the bit map of a broker; without a broker the manager makes a larger one. */
    private static final class ConsumerFilters extends ConsumerFilterManager {
        private final String file;

        ConsumerFilters(String file) {
            this.file = file;
            try {
                Field field = ConsumerFilterManager.class.getDeclaredField("bloomFilter");
                field.setAccessible(true);
                field.set(this, bitsOfBroker());
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public String configFilePath() {
            return file;
        }
    }
}
