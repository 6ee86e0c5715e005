package org.rmqcore.interop;

import org.apache.rocketmq.store.ha.DefaultHAService;

/**
 * A HA service that opens no port: the store's own would listen on every interface. Puts that wait for followers are
 * served, so they learn that no follower came.
 */
public final class SilentHaService extends DefaultHAService {
    @Override
    public void start() {
        groupTransferService.start();
    }

    @Override
    public void shutdown() {
        groupTransferService.shutdown();
    }
}
