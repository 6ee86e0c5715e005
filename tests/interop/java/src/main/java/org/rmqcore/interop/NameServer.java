package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONObject;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.namesrv.processor.ClientRequestProcessor;
import org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.namesrv.UnRegisterBrokerRequestHeader;

/** RocketMQ's name server without its sockets: a frame in, the response's frame out. */
final class NameServer {
    private final NamesrvController controller;
    private final DefaultRequestProcessor requests;
    private final ClientRequestProcessor routes;
    private final Map<Integer, ChannelHandlerContext> connections = new HashMap<>();

    NameServer(JSONObject settings) {
        NamesrvConfig config = settings.toJavaObject(NamesrvConfig.class);
        config.setKvConfigPath(System.getProperty("java.io.tmpdir") + "/kvConfig.json");
        config.setConfigStorePath(System.getProperty("java.io.tmpdir") + "/namesrv.properties");
        controller = new NamesrvController(config, new NettyServerConfig());
        requests = new DefaultRequestProcessor(controller);
        routes = new ClientRequestProcessor(controller);
    }

    /** The frame of the response; a broker is unregistered at once and not by a thread. */
    Object ask(JSONObject request) throws Exception {
        byte[] bytes = Base64.getDecoder().decode(request.getString("frame"));
        RemotingCommand command = RemotingCommand.decode(ByteBuffer.wrap(bytes, 4, bytes.length - 4).slice());
        ChannelHandlerContext connection = connections.computeIfAbsent(request.getInteger("connection"),
            number -> new EmbeddedChannel(new ChannelInboundHandlerAdapter()).pipeline().firstContext());
        RemotingCommand response;
        if (command.getCode() == RequestCode.GET_ROUTEINFO_BY_TOPIC) {
            response = routes.processRequest(connection, command);
        } else if (command.getCode() == RequestCode.UNREGISTER_BROKER) {
            UnRegisterBrokerRequestHeader header =
                command.decodeCommandCustomHeader(UnRegisterBrokerRequestHeader.class);
            controller.getRouteInfoManager().unregisterBroker(header.getClusterName(), header.getBrokerAddr(),
                header.getBrokerName(), header.getBrokerId());
            response = RemotingCommand.createResponseCommand(0, null);
        } else {
            response = requests.processRequest(connection, command);
        }
        ByteBuffer frame = response.encode();
        byte[] answer = new byte[frame.remaining()];
        frame.get(answer);
        return Base64.getEncoder().encodeToString(answer);
    }
}
