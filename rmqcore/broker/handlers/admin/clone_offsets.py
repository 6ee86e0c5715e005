"""The request that copies one group's offsets to another group.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#cloneGroupOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.topics import answer_when_done
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import wrong_group


def _clone_group_offset(call: Call) -> RemotingCommand | None:
    """Copy the offsets that a group has committed, of one topic or of all, to another group.

    Notes
    -----
    A topic that the broker lacks is left out, and so is one that the group's members do not subscribe to, unless the
    request says that they are offline. A request without a topic copies all topics; in Java it copies none.
    """
    fields, broker = call.fields, call.broker
    source, target = fields.text("srcGroup"), fields.text("destGroup")
    wrong = wrong_group(target)
    if wrong is not None:
        return call.respond(ResponseCode.INVALID_PARAMETER, wrong)
    named = fields.text("topic")
    topics = [named] if named.strip() else broker.offsets.topics_of(source)
    info = broker.consumers.group(source)
    wanted = None if fields.flag("offline") or info is None else info.subscriptions
    for topic in topics:
        if broker.topics.get(topic) is not None and (not wanted or topic in wanted):
            broker.offsets.clone(source, target, topic)
    broker.offsets.save_if_changed(answer_when_done(call))
    return None


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.CLONE_GROUP_OFFSET: _clone_group_offset
}
