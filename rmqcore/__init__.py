"""Apache RocketMQ's storage engine for Python."""
