package org.rmqcore.interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.util.Base64;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/** Bodies of requests and responses, through RocketMQ's own classes. */
final class Bodies {
    private Bodies() {
    }

    /** Reads a body as the named class, and writes it as that class does: what Java understood, as Java says it. */
    static Object through(JSONObject request) throws Exception {
        byte[] body = Base64.getDecoder().decode(request.getString("body"));
        RemotingSerializable found;
        switch (request.getString("kind")) {
            case "heartbeat":
                found = HeartbeatData.decode(body, HeartbeatData.class);
                break;
            case "route":
                found = TopicRouteData.decode(body, TopicRouteData.class);
                break;
            case "cluster":
                found = ClusterInfo.decode(body, ClusterInfo.class);
                break;
            case "registration":
                found = RegisterBrokerBody.decode(body, false, MQVersion.Version.V5_5_0);
                break;
            case "compress":
                byte[] packed = RegisterBrokerBody.decode(body, false, MQVersion.Version.V5_5_0).encode(true);
                return Base64.getEncoder().encodeToString(packed);
            default:
                throw new IllegalArgumentException(JSON.toJSONString(request));
        }
        return Base64.getEncoder().encodeToString(found.encode());
    }
}
