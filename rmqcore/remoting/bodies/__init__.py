"""Bodies of requests and responses: JSON by RocketMQ's names into small dataclasses, and back."""
