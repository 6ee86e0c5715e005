package org.rmqcore.interop;

import org.apache.rocketmq.store.ha.DefaultHAService;

/** A HA service that opens no port: the store's own would listen on every interface. */
public final class SilentHaService extends DefaultHAService {
    @Override
    public void start() {
        // Nothing listens.
    }

    @Override
    public void shutdown() {
        // Nothing was started.
    }
}
