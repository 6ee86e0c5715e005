package org.rmqcore.interop;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.remoting.RemotingClient;

/**
 * RocketMQ's broker, registered when it says that it is. Its own start registers a moment before it has found its name
 * server, and so does nothing; the next try would come after ten seconds.
 */
public final class RegisteredBroker {
    private static final int POLL_MS = 5;

    private RegisteredBroker() {
    }

    public static void main(String[] args) throws InterruptedException {
        ShortWaits.atExit();
        BrokerController broker = BrokerStartup.start(BrokerStartup.createBrokerController(args));
        RemotingClient client = broker.getBrokerOuterAPI().getRemotingClient();
        while (client.getAvailableNameSrvList().isEmpty()) {
            Thread.sleep(POLL_MS);
        }
        broker.registerBrokerAll(true, false, true);
        System.out.println("registered at its name server");
    }
}
