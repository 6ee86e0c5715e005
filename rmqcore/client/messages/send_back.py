"""Messages that could not be consumed: sending them back to the broker, and reading them from the retry topic.

Source: RocketMQ 5.5.0 MQClientAPIImpl#consumerSendMessageBack, DefaultMQPushConsumerImpl#resetRetryAndNamespace.
"""

from __future__ import annotations

from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import retry_topic
from rmqcore.remoting.request_fields import encode_fields
from rmqcore.vocabulary.properties import RETRY_TOPIC

BY_TIMES = 0
"""The delay level by which the broker chooses one itself: the more often the message came back, the longer."""
DEAD_LETTER = -1
"""The delay level by which the broker stores the message among the group's dead letters."""
_CODE = RequestCode.CONSUMER_SEND_MSG_BACK


def send_back_request(
    message: ReceivedMessage, group: str, *, delay_level: int, max_reconsume_times: int
) -> RemotingCommand:
    """Return the request to store a message again for a group."""
    fields = encode_fields(
        _CODE,
        {
            "offset": message.phy_offset,
            "group": group,
            "delayLevel": delay_level,
            "originMsgId": message.msg_id,
            "originTopic": message.topic,
            "unitMode": False,
            "maxReconsumeTimes": max_reconsume_times,
        },
    )
    return RemotingCommand(_CODE, ext_fields=fields)


def with_first_topic(message: ReceivedMessage, group: str) -> ReceivedMessage:
    """Return a message of the group's retry topic under the topic to which it was first sent; any other unchanged."""
    if message.topic != retry_topic(group):
        return message
    first = message.properties.get(RETRY_TOPIC)
    return message if first is None else message.renamed(first)
