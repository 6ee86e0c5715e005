"""Filter expressions over the properties of messages, as consumers subscribe with them: text, parser, values.

Imports only `rmqcore.errors`. Source: RocketMQ 5.5.0 org.apache.rocketmq.filter.
"""
