package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;

/** The consumer groups' offsets as a broker saves and loads them, in a file that the caller names. */
final class Offsets extends ConsumerOffsetManager {
    private final String file;

    private Offsets(String file) {
        this.file = file;
    }

    @Override
    public String configFilePath() {
        return file;
    }

    /** Saves a table of topic@group and offsets by queue id; what the file had before becomes its {@code .bak}. */
    static Object save(String file, JSONObject table) {
        Offsets offsets = new Offsets(file);
        for (String key : table.keySet()) {
            ConcurrentMap<Integer, Long> queues = new ConcurrentHashMap<>();
            for (Map.Entry<String, Object> queue : table.getJSONObject(key).entrySet()) {
                queues.put(Integer.valueOf(queue.getKey()), ((Number) queue.getValue()).longValue());
            }
            offsets.getOffsetTable().put(key, queues);
        }
        offsets.getDataVersion().nextVersion();
        offsets.persist();
        return null;
    }

    /** What a broker finds in the file, or in its {@code .bak}. */
    static JSONObject load(String file) {
        Offsets offsets = new Offsets(file);
        boolean loaded = offsets.load();
        JSONObject table = new JSONObject();
        for (Map.Entry<String, ConcurrentMap<Integer, Long>> entry : offsets.getOffsetTable().entrySet()) {
            JSONObject queues = new JSONObject();
            entry.getValue().forEach((queueId, offset) -> queues.put(String.valueOf(queueId), offset));
            table.put(entry.getKey(), queues);
        }
        return Json.object("loaded", loaded, "table", table, "timestampMs", offsets.getDataVersion().getTimestamp());
    }
}
