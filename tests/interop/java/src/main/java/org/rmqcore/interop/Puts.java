package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.PutMessageResult;

/** Puts messages as a broker does, each at the time that comes with it. */
final class Puts {
    private final ClockedStore store;

    Puts(ClockedStore store) {
        this.store = store;
    }

    /** Puts every message alone. */
    JSONArray putEach(JSONArray messages) throws Exception {
        return Json.map(messages, request -> {
            store.setNow(request.getLongValue("nowMs"));
            return answer(store.putMessage(fill(new MessageExtBrokerInner(), request, body(request))));
        });
    }

    /** Puts all as one batch; what lies outside of the inner messages is the first one's. */
    JSONObject putBatch(JSONArray messages) throws Exception {
        int size = 0;
        byte[][] images = new byte[messages.size()][];
        for (int i = 0; i < images.length; i++) {
            images[i] = image(messages.getJSONObject(i));
            size += images[i].length;
        }
        ByteBuffer body = ByteBuffer.allocate(size);
        for (byte[] image : images) {
            body.put(image);
        }
        JSONObject first = messages.getJSONObject(0);
        store.setNow(first.getLongValue("nowMs"));
        MessageExtBatch batch = new MessageExtBatch();
        fill(batch, first, body.array());
        MessageAccessor.setProperties(batch, new HashMap<>());
        batch.setPropertiesString("");
        return answer(store.putMessages(batch));
    }

    /** An inner message as MessageDecoder#encodeMessage makes it, with the properties in the order given. */
    private static byte[] image(JSONObject request) {
        byte[] body = body(request);
        byte[] properties = request.getString("properties").getBytes(StandardCharsets.UTF_8);
        ByteBuffer image = ByteBuffer.allocate(22 + body.length + properties.length);
        image.putInt(image.capacity()).putInt(0).putInt(0).putInt(request.getIntValue("flag"));
        image.putInt(body.length).put(body).putShort((short) properties.length).put(properties);
        return image.array();
    }

    private static byte[] body(JSONObject request) {
        return Base64.getDecoder().decode(request.getString("body"));
    }

    private static <M extends MessageExtBrokerInner> M fill(M message, JSONObject request, byte[] body)
        throws Exception {
        String properties = request.getString("properties");
        message.setTopic(request.getString("topic"));
        message.setBody(body);
        message.setQueueId(request.getIntValue("queueId"));
        message.setFlag(request.getIntValue("flag"));
        message.setSysFlag(request.getIntValue("sysFlag"));
        message.setBornTimestamp(request.getLongValue("bornTimestamp"));
        message.setBornHost(Json.host(request.getString("bornHost")));
        message.setStoreHost(Json.host(request.getString("storeHost")));
        message.setReconsumeTimes(request.getIntValue("reconsumeTimes"));
        message.setPreparedTransactionOffset(request.getLongValue("preparedTransactionOffset"));
        MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(properties));
        message.setPropertiesString(properties);
        return message;
    }

    private static JSONObject answer(PutMessageResult result) {
        AppendMessageResult append = result.getAppendMessageResult();
        JSONObject answer = Json.object("status", result.getPutMessageStatus().name());
        if (append != null) {
            answer.put("phy_offset", append.getWroteOffset());
            answer.put("msg_size", append.getWroteBytes());
            answer.put("queue_offset", append.getLogicsOffset());
            answer.put("msg_id", append.getMsgId());
            answer.put("count", append.getMsgNum());
            answer.put("store_timestamp_ms", append.getStoreTimestamp());
        }
        return answer;
    }
}
