package org.rmqcore.interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's store behind a pipe: a JSON object a line on stdin, its answer a line on stdout. One JVM serves many
 * stores.
 *
 * <p>A request names its {@code call} and, but for some, the {@code store} that {@code open} answered. The answer is
 * {@code {"answer": ...}} or {@code {"error": ..., "trace": ...}}. The end of stdin ends the process without shutting
 * any store down.
 */
public final class Driver {
    private final Map<Integer, ClockedStore> stores = new HashMap<>();
    private final Clients clients = new Clients();
    private final Consumers consumers = new Consumers();
    private NameServer nameServer;
    private int opened;

    private Driver() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what a library prints is no answer
        ShortWaits.of(Thread.currentThread());
        Driver driver = new Driver();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.toJSONString(driver.answer(line), JSONWriter.Feature.WriteNulls));
        }
        Runtime.getRuntime().halt(0);
    }

    private JSONObject answer(String line) {
        try {
            return Json.object("answer", call(JSON.parseObject(line)));
        } catch (Throwable thrown) { // an Error of one call is the answer to that call
            StringWriter trace = new StringWriter();
            thrown.printStackTrace(new PrintWriter(trace));
            return Json.object("error", thrown.toString(), "trace", trace.toString());
        }
    }

    /** Every setting of a store with its default, as text. */
    private static JSONObject defaults() throws IllegalAccessException {
        MessageStoreConfig config = new MessageStoreConfig();
        JSONObject found = new JSONObject();
        for (Field field : MessageStoreConfig.class.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                found.put(field.getName(), String.valueOf(field.get(config)));
            }
        }
        return found;
    }

    private Object call(JSONObject request) throws Exception {
        switch (request.getString("call")) {
            case "open":
                ClockedStore store = ClockedStore.open(request.getString("dir"), request.getJSONObject("config"),
                    request.getJSONObject("attributes"), request.getBooleanValue("loadOnly"));
                stores.put(++opened, store);
                return opened;
            case "defaults":
                return defaults();
            case "createTopic":
                return clients.createTopic(request);
            case "send":
                return clients.send(request);
            case "consume":
                return clients.consume(request);
            case "produce":
                return consumers.produce(request);
            case "endProducer":
                return consumers.endProducer();
            case "direct":
                return consumers.direct(request);
            case "push":
                return consumers.push(request);
            case "lite":
                return consumers.lite(request);
            case "pull":
                return consumers.pull(request);
            case "saveOffsets":
                return Offsets.save(request.getString("file"), request.getJSONObject("table"));
            case "loadOffsets":
                return Offsets.load(request.getString("file"));
            case "admin":
                return Admin.run(request.getJSONArray("words"));
            case "saveTable":
                return Tables.save(request);
            case "loadTable":
                return Tables.load(request);
            case "filterBits":
                return Json.map(request.getJSONArray("requests"), Tables::filterBits);
            case "encodeCommands":
                return Json.map(request.getJSONArray("requests"), Remoting::encode);
            case "decodeFrames":
                return Json.map(request.getJSONArray("requests"), Remoting::decode);
            case "filter":
                return Json.map(request.getJSONArray("requests"), Filters::ask);
            case "bodies":
                return Json.map(request.getJSONArray("requests"), Bodies::through);
            case "nameServer":
                nameServer = new NameServer(request.getJSONObject("settings"));
                return null;
            case "askNameServer":
                return Json.map(request.getJSONArray("requests"), nameServer::ask);
            case "remotingTables":
                return Remoting.tables();
            case "crash":
                Runtime.getRuntime().halt(137);
                return null;
            default:
                return call(request, stores.get(request.getInteger("store")));
        }
    }

    private Object call(JSONObject request, ClockedStore store) throws Exception {
        Answers answers = new Answers(store);
        switch (request.getString("call")) {
            case "put":
                return new Puts(store).putEach(request.getJSONArray("messages"));
            case "putBatch":
                return new Puts(store).putBatch(request.getJSONArray("messages"));
            case "get":
                return Json.map(request.getJSONArray("requests"), answers::get);
            case "query":
                return Json.map(request.getJSONArray("requests"), answers::query);
            case "offsetByTime":
                return Json.map(request.getJSONArray("requests"), answers::offsetByTime);
            case "lookup":
                return Json.map(request.getJSONArray("requests"), answers::lookup);
            case "phyOffset":
                return Json.map(request.getJSONArray("requests"), answers::phyOffset);
            case "offsets":
                return answers.offsets();
            case "records":
                return new Records(store).all();
            case "verify":
                return new Records(store).verify();
            case "setNow":
                store.setNow(request.getLongValue("nowMs"));
                return null;
            case "awaitDispatch":
                store.awaitDispatch();
                return null;
            case "flush":
                return store.flush();
            case "clean":
                return Cleaning.round(store, request.getBooleanValue("hour"), request.getBooleanValue("manual"));
            case "cleanExpiredConsumerQueue":
                store.cleanExpiredConsumerQueue();
                return null;
            case "close":
                store.close();
                stores.remove(request.getInteger("store"));
                return null;
            default:
                throw new IllegalArgumentException("no such call: " + request.getString("call"));
        }
    }
}
