"""Settings of RocketMQ that this release ignores: the effect of each in Java, and the behaviour here instead.

docs/config.md shows these texts. Imports nothing of the package.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import MappingProxyType


class UnusedSettingWarning(RuntimeWarning):
    """A setting's value differs from its default, and this release of rmqcore ignores the setting."""


def warn_unused(text: str) -> None:
    """Warn in the name of the first caller outside of this package."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 Python 3.12 has skip_file_prefixes for that
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("rmqcore."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UnusedSettingWarning, stacklevel=level)


def _each(reason: str, fields: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{text}; {reason}" for name, text in fields.items()}


UNUSED: Mapping[str, str] = MappingProxyType(
    {
        **_each(
            "rmqcore writes no batch queues and no consumequeue_ext/",
            {
                "mapper_file_size_batch_consume_queue": "the size of Java's files in batchconsumequeue/",
                "mapped_file_size_consume_queue_ext": "the size of Java's files in consumequeue_ext/",
                "bit_map_length_consume_queue_ext": "the bits of Java's filters in consumequeue_ext/",
            },
        ),
        "enable_consume_queue_ext": (
            "Java also keeps filter bits of entries in consumequeue_ext/; rmqcore writes the tags "
            "code into the entry itself, which Java reads as well, and a get by tags compares the "
            "record's tags if an entry has an address instead"
        ),
        "auto_message_version_on_topic_len": (
            "off, Java writes a topic of more than 127 bytes into a V1 record, whose length byte reads back negative; "
            "rmqcore always writes a V2 record"
        ),
        "max_topic_length": "neither RocketMQ 5.5.0 nor rmqcore reads it",
        "put_message_timeout": "neither RocketMQ 5.5.0 nor rmqcore reads it",
        "max_lmq_consume_queue_num": "Java's broker refuses puts beyond this number of light queues; rmqcore has no limit",
        "recheck_reput_offset_from_cq": (
            "Java can determine from the queues where dispatch starts; rmqcore's recovery always "
            "does"
        ),
        **_each(
            "rmqcore has no such buffers: it stores messages directly in the mapped CommitLog file",
            {
                "transient_store_pool_enable": (
                    "Java collects messages in buffers, which a killed process loses, and writes them to the CommitLog later"
                ),
                "transient_store_pool_size": "how many buffers Java has (transientStorePoolEnable)",
                "fast_fail_if_no_buffer_in_store_pool": (
                    "Java refuses puts if all buffers are in use (transientStorePoolEnable)"
                ),
                "commit_interval_commit_log": "how often Java writes its buffers to the CommitLog",
                "commit_commit_log_least_pages": "the number of pages from which Java writes its buffers to the CommitLog",
                "commit_commit_log_thorough_interval": "the time after which Java writes its buffers in any case",
                "read_un_committed": "Java dispatches messages that are still in its buffers",
            },
        ),
        **_each(
            "rmqcore supports neither; inSyncReplicas is the number of replicas that must have a "
            "message",
            {
                name: f"Java's broker {does} with enableSlaveActingMaster or enableControllerMode"
                for name, does in (
                    ("min_in_sync_replicas", "refuses puts while fewer replicas are in sync"),
                    (
                        "enable_auto_in_sync_replicas",
                        "waits for fewer replicas while fewer are connected",
                    ),
                    ("all_ack_in_sync_state_set", "waits for all replicas in sync"),
                    ("total_replicas", "knows how many brokers its group has"),
                )
            },
        ),
        "flush_least_pages_when_warm_maped_file": (
            "how often Java syncs a file while it touches its pages; rmqcore allocates and populates it without syncs"
        ),
        "write_without_mmap": (
            "Java writes all files through descriptors; rmqcore maps CommitLog and index, and writes queues through descriptors"
        ),
        "put_consume_queue_data_by_file_channel": (
            "off, Java stores queue entries through mappings; rmqcore always writes them through descriptors"
        ),
        "os_page_cache_busy_time_out_mills": (
            "Java's broker refuses puts while one put holds the append lock for longer; rmqcore "
            "does not"
        ),
        **_each(
            "rmqcore has one append lock, in C, and dispatches in one thread",
            {
                "use_reentrant_lock_when_put_message": "which lock Java's puts take",
                "use_abs_lock": "which lock Java's puts take",
                "topic_queue_lock_num": "how many locks Java has for the offsets of queues",
                "enable_build_consume_queue_concurrently": "Java dispatches in several threads",
            },
        ),
        **_each(
            "a deleted file leaves the directory at once, and its readers can finish",
            {
                "destroy_maped_file_interval_forcibly": "how long Java waits for the readers of a file that it deletes",
                "redelete_hanged_file_interval": "how often Java tries again to delete a file that is being read",
            },
        ),
    }
)
"""Fields that rmqcore does not read. A value other than the default is accepted, with a warning."""
REFUSED_KEYS: Mapping[str, tuple[frozenset[str], str]] = MappingProxyType(
    {
        "enableDLegerCommitLog": (
            frozenset({"", "false"}),
            "the log of this broker is in DLedger files, which rmqcore does not write",
        ),
        "storeType": (
            frozenset({"", "default"}),
            "the queues of this broker are in RocksDB: rmqcore would restart queue offsets at 0",
        ),
        "rocksdbCQDoubleWriteEnable": (
            frozenset({"", "false"}),
            (
                "this broker also writes its queues to RocksDB, which would lack messages that "
                "rmqcore writes"
            ),
        ),
    }
)
"""Keys of a broker.conf for stores that rmqcore must not write: the harmless values in lower case, and the reason."""
LEFT_TO_JAVA: Mapping[str, tuple[frozenset[str], str]] = MappingProxyType(
    {
        "enableControllerMode": (
            frozenset({"", "false"}),
            (
                "in Java a controller chooses the master, and the broker records epochs; rmqcore does "
                "neither"
            ),
        ),
        "enableSlaveActingMaster": (
            frozenset({"", "false"}),
            "in Java a slave acts for its master, and puts are refused while too few replicas are in sync; rmqcore does neither",
        ),
        "timerWheelEnable": (
            frozenset({"", "false"}),
            "Java delivers timed messages (setDelayTimeMs, setDeliverTimeMs); rmqcore does not serve timers, and refuses them",
        ),
        "timerRocksDBEnable": (
            frozenset({"", "false"}),
            "Java keeps timed messages in RocksDB until they are due; rmqcore neither reads nor delivers them",
        ),
        "transRocksDBEnable": (
            frozenset({"", "false"}),
            (
                "Java records half messages in RocksDB; rmqcore only checks those of "
                "RMQ_SYS_TRANS_HALF_TOPIC"
            ),
        ),
        "messageStorePlugIn": (
            frozenset({""}),
            (
                "Java wraps its store in another one, such as the tiered store; rmqcore writes only "
                "the inner store"
            ),
        ),
    }
)
"""Keys of a broker.conf for features of Java alone: the harmless values in lower case, and the behaviour here."""
_FALSE, _TRUE = frozenset({"", "false"}), frozenset({"", "true"})
NOT_SERVED_KEYS: Mapping[str, tuple[frozenset[str], str]] = MappingProxyType(
    {
        "bindAddress": (frozenset({""}), "rmqcore serve listens on its --host"),
        "coldDataFlowControlEnable": (_FALSE, "groups are not throttled for reading from the disk"),
        "defaultMessageRequestMode": (frozenset({"", "pull"}), "POP is not served: consumers pull"),
        "enableCompaction": (_FALSE, "topics with cleanup.policy=COMPACTION are not supported"),
        "enableMixedMessageType": (_FALSE, "topics with message.type=MIXED are refused"),
        "enableRemoteEscape": (_FALSE, "a slave does not forward messages to other brokers"),
        "fetchNameSrvAddrByDnsLookup": (_FALSE, "name servers come from --namesrv and namesrvAddr"),
        "fetchNamesrvAddrByAddressServer": (
            _FALSE,
            "name servers come from --namesrv and namesrvAddr",
        ),
        "metricsExporterType": (
            frozenset({"", "0", "disable"}),
            "metrics are not exported; mqadmin brokerStatus and rocketmq-exporter read them",
        ),
        "recallMessageEnable": (_FALSE, "RECALL_MESSAGE is not supported"),
        "serverLoadBalancerEnable": (
            _TRUE,
            (
                "a consumer with setClientRebalance(false) gets its share of the queues, not all of "
                "them"
            ),
        ),
        "useTLS": (_FALSE, "connections are not encrypted"),
        "validateSystemTopicWhenUpdateTopic": (_TRUE, "system topics are never changed"),
    }
)
"""Keys for features of Java's broker that ``rmqcore serve`` lacks: the harmless values in lower case, and why."""


def not_true_here(
    given: Mapping[str, str], keys: Mapping[str, tuple[frozenset[str], str]]
) -> list[str]:
    """Return a sentence for each given key whose value does not act in rmqcore; `keys` is a table of this module."""
    return [
        f"{key}={given[key]}: {reason}"
        for key, (kept, reason) in keys.items()
        if key in given and given[key].strip().lower() not in kept
    ]
