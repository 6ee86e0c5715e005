"""Commands of mqadmin and Kafka's tools, each with the verb that does the same here."""

from __future__ import annotations

NAMES = {
    "queryMsgByOffset": "rmqcore get STORE --topic TOPIC --queue ID --offset N",
    "printMsg": "rmqcore cat STORE --topic TOPIC",
    "printMsgByQueue": "rmqcore cat STORE --topic TOPIC --queue ID",
    "queryMsgById": "rmqcore lookup STORE ID",
    "DecodeMessageId": "rmqcore lookup STORE ID",
    "queryMsgByKey": "rmqcore query STORE --topic TOPIC --key KEY",
    "queryMsgByUniqueKey": "rmqcore query STORE --topic TOPIC --key ID",
    "queryCq": "rmqcore fsck STORE (checks every queue entry), rmqcore info STORE",
    "topicStatus": "rmqcore info STORE",
    "topicList": "rmqcore info STORE",
    "brokerStatus": "rmqcore info STORE",
    "consumeMessage": "rmqcore cat STORE --topic TOPIC --since TIME",
    "checkRocksdbCqWriteProgress": "rmqcore fsck STORE",
    "dumpCompactionLog": "rmqcore cat STORE --compacted --body text",
    "exportMetadata": "rmqcore info STORE --json, rmqcore export STORE -o DIR",
    "exportMetadataInRocksDB": "rmqcore info STORE --json",
    "rocksDBConfigToJson": "rmqcore info STORE --json",
    "exportMetrics": "rmqcore info STORE --json",
    "dump": "rmqcore cat STORE",
    "dump-log": "rmqcore cat STORE",
    "ls": "rmqcore info STORE",
    "check": "rmqcore fsck STORE",
    "verify": "rmqcore fsck STORE",
    "grep": "rmqcore cat STORE --key KEY, or rmqcore cat STORE | grep WORD",
}
_LOWER = {name.lower(): verb for name, verb in NAMES.items()}


def verb_for(name: str) -> str | None:
    """Return the rmqcore command for an mqadmin command; None if the name is unknown."""
    return _LOWER.get(name.lower())
