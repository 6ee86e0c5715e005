"""Replication without sockets: what a master and a slave make of bytes, offsets and the clock.

Source: RocketMQ 5.5.0 DefaultHAService, DefaultHAConnection, DefaultHAClient.
"""
