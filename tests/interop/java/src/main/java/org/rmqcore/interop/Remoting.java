package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.RequestHeaderRegistry;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.header.GetAllSubscriptionGroupRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.GetAllTopicConfigRequestHeader;

/** RocketMQ's own commands: written, read, and the tables of their codes and fields. */
final class Remoting {
    private Remoting() {
    }

    /** The frame of a command, as base64. */
    static Object encode(JSONObject command) {
        RemotingCommand made = RemotingCommand.createRequestCommand(command.getIntValue("code"), null);
        made.setLanguage(LanguageCode.valueOf(command.getString("language")));
        made.setVersion(command.getIntValue("version"));
        made.setOpaque(command.getIntValue("opaque"));
        made.setFlag(command.getIntValue("flag"));
        made.setRemark(command.getString("remark"));
        HashMap<String, String> fields = new HashMap<>();
        JSONObject given = command.getJSONObject("extFields");
        given.keySet().forEach(name -> fields.put(name, given.getString(name)));
        made.setExtFields(fields);
        made.setBody(Base64.getDecoder().decode(command.getString("body")));
        made.setSerializeTypeCurrentRPC(SerializeType.valueOf(command.getString("type")));
        ByteBuffer frame = made.encode();
        byte[] bytes = new byte[frame.remaining()];
        frame.get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** What a frame says; its length word is left out, as Netty's decoder does. */
    static Object decode(JSONObject request) throws Exception {
        byte[] bytes = Base64.getDecoder().decode(request.getString("frame"));
        RemotingCommand found = RemotingCommand.decode(ByteBuffer.wrap(bytes, 4, bytes.length - 4).slice());
        byte[] body = found.getBody() == null ? new byte[0] : found.getBody();
        return Json.object("code", found.getCode(), "language", found.getLanguage().name(), "version",
            found.getVersion(), "opaque", found.getOpaque(), "flag", found.getFlag(), "remark", found.getRemark(),
            "extFields", found.getExtFields() == null ? new JSONObject() : found.getExtFields(), "body",
            Base64.getEncoder().encodeToString(body), "type", found.getSerializeTypeCurrentRPC().name());
    }

    /** Every code by its name, and of each request that has a header of its own the fields. */
    static Object tables() throws IllegalAccessException {
        RequestHeaderRegistry.getInstance().initialize();
        JSONObject headers = new JSONObject(new LinkedHashMap<>());
        JSONObject requests = constants(RequestCode.class);
        for (String name : requests.keySet()) {
            Class<?> header = RequestHeaderRegistry.getInstance().getRequestHeader(requests.getIntValue(name));
            if (header != null) {
                headers.put(name, fields(header));
            }
        }
        // Response and request bear the same code here, and the registry has the one that it came upon last.
        headers.put("GET_ALL_TOPIC_CONFIG", fields(GetAllTopicConfigRequestHeader.class));
        headers.put("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", fields(GetAllSubscriptionGroupRequestHeader.class));
        JSONObject languages = new JSONObject();
        for (LanguageCode language : LanguageCode.values()) {
            languages.put(language.name(), language.getCode());
        }
        return Json.object("requests", requests, "responses", constants(ResponseCode.class), "languages", languages,
            "headers", headers);
    }

    private static JSONObject constants(Class<?> from) throws IllegalAccessException {
        JSONObject found = new JSONObject(new LinkedHashMap<>());
        for (Field field : from.getFields()) {
            found.put(field.getName(), ((Number) field.get(null)).intValue());
        }
        return found;
    }

    private static JSONObject fields(Class<?> header) {
        JSONObject found = new JSONObject(new LinkedHashMap<>());
        for (Class<?> owner = header; owner != Object.class; owner = owner.getSuperclass()) {
            for (Field field : owner.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    String must = field.isAnnotationPresent(CFNotNull.class) ? "*" : "";
                    found.put(field.getName(), field.getType().getSimpleName() + must);
                }
            }
        }
        return found;
    }
}
