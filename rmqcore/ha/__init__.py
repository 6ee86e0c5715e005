"""Replication without sockets: the logic of master and slave for given bytes, offsets and times.

Source: RocketMQ 5.5.0 DefaultHAService, DefaultHAConnection, DefaultHAClient.
"""
