package org.rmqcore.interop;

import org.apache.rocketmq.store.ha.DefaultHAService;

/**
 * A HA service that opens no port unless the system property {@code rmqcore.ha} is set: the store's own would listen on
 * every interface. Puts that wait for followers are served, so they learn that no follower came.
 */
public final class SilentHaService extends DefaultHAService {
    private static final boolean LISTENS = Boolean.getBoolean("rmqcore.ha");

    @Override
    public void start() throws Exception {
        if (LISTENS) {
            super.start();
            return;
        }
        groupTransferService.start();
    }

    @Override
    public void shutdown() {
        if (LISTENS) {
            super.shutdown();
            return;
        }
        groupTransferService.shutdown();
    }
}
