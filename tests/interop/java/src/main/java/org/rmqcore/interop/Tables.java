package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.ConfigManager;

/** The topics and groups as a broker saves and loads them, in a file that the caller names. */
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

    private static ConfigManager manager(JSONObject request) {
        String file = request.getString("file");
        return "topics".equals(request.getString("kind")) ? new Topics(file) : new Groups(file);
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
}
