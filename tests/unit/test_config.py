"""MessageStoreConfig: Java's names and defaults, values that are refused, and broker.conf files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rmqcore._native.format.codec import DEFAULT_DELAY_LEVELS
from rmqcore.broker_conf import java_name, parse_properties, snake_case
from rmqcore.broker_keys import IGNORED_KEYS
from rmqcore.config import MessageStoreConfig
from rmqcore.config_values import parse_delay_levels
from rmqcore.unused_settings import UnusedSettingWarning

FIELDS = [f.name for f in dataclasses.fields(MessageStoreConfig) if f.name != "extra"]


def conf(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return path


def test_defaults_are_javas() -> None:
    config = MessageStoreConfig()
    assert config.mapped_file_size_commit_log == 1 << 30
    assert config.consume_queue_file_size == 6_000_000
    assert config.index_file_size == 420_000_040
    assert config.flush_disk_type == "ASYNC_FLUSH"
    assert config.delay_levels_ms[0] == 1000
    assert config.delay_levels_ms[-1] == 7_200_000
    assert len(config.delay_levels_ms) == 18


def test_queue_file_size_is_rounded_up_to_whole_entries() -> None:
    assert MessageStoreConfig(mapped_file_size_consume_queue=101).consume_queue_file_size == 120
    assert MessageStoreConfig(mapped_file_size_consume_queue=120).consume_queue_file_size == 120


@pytest.mark.parametrize("name", FIELDS)
def test_names_go_to_java_and_back(name: str) -> None:
    assert snake_case(java_name(name)) == name
    assert java_name(name) not in IGNORED_KEYS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mapped_file_size_commit_log", "131072"),
        ("mapped_file_size_commit_log", True),
        ("mapped_file_size_commit_log", 1 << 31),
        ("mapped_file_size_commit_log", 0),
        ("mapped_file_size_consume_queue", 0),
        ("max_index_num", 1),
        ("message_index_enable", 1),
        ("flush_disk_type", "sync"),
        ("broker_role", None),
        ("message_delay_level", "1s 5x"),
        ("message_delay_level", "1s ms"),
        ("logical_disk_space_clean_forcibly_threshold", "0.8"),
        ("store_path_root_dir", 7),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        MessageStoreConfig(**{field: value})  # type: ignore[arg-type]


def test_longs_take_more_than_ints() -> None:
    config = MessageStoreConfig(flush_delay_offset_interval=1 << 40)
    assert config.flush_delay_offset_interval == 1 << 40


def test_delay_levels_in_all_units() -> None:
    assert parse_delay_levels("1s 2m  3h 4d") == (1000, 120_000, 10_800_000, 345_600_000)
    assert parse_delay_levels("") == ()


def test_broker_conf_as_it_is(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        """# a broker
        brokerClusterName = DefaultCluster
        brokerName=broker-a
        fileReservedTime=48
        redeleteHangedFileInterval=60000
        flushDiskType = SYNC_FLUSH
        checkCRCOnRecover=FALSE
        mapedFileSizeCommitLog=1048576
        warmMappedFileEnable=true
        useABSLock=true
        storePathRootDir=/data/store
        """,
    )
    with pytest.warns(UnusedSettingWarning) as caught:
        config = MessageStoreConfig.from_broker_conf(path, max_index_num=100)
    assert sorted(str(one.message).split(" ")[0] for one in caught) == [
        "redelete_hanged_file_interval",
        "use_abs_lock",
    ]
    assert {one.filename for one in caught} == {__file__}, "the caller's line, not ours"
    assert config.file_reserved_time == 48
    assert config.flush_disk_type == "SYNC_FLUSH"
    assert config.check_crc_on_recover is False
    assert config.mapped_file_size_commit_log == 1 << 20
    assert config.warm_maped_file_enable is True
    assert config.use_abs_lock is True
    assert config.store_path_root_dir == "/data/store"
    assert config.max_index_num == 100
    assert dict(config.extra) == {"brokerClusterName": "DefaultCluster", "brokerName": "broker-a"}


def test_a_key_with_nothing_behind_it_is_not_set(tmp_path: Path) -> None:
    path = conf(tmp_path, "readOnlyCommitLogStorePaths=\nhaMasterAddress =\nstorePathCommitLog:\n")
    config = MessageStoreConfig.from_broker_conf(path)
    assert config == MessageStoreConfig()


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """An editor wrote one, and SYNC_FLUSH in the first line was an unknown key: puts did not wait for the disk."""
    path = tmp_path / "broker.conf"
    path.write_bytes(b"\xef\xbb\xbfflushDiskType=SYNC_FLUSH\r\nbrokerName=\xef\xbb\xbf\r\n")
    config = MessageStoreConfig.from_broker_conf(path)
    assert config.flush_disk_type == "SYNC_FLUSH"
    assert dict(config.extra) == {"brokerName": "ï»¿"}


def test_an_unknown_key_gets_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    path = conf(tmp_path, "fileReservdTime=48\n")
    with pytest.warns(UserWarning, match=r"fileReservdTime; did you mean fileReservedTime\?"):
        config = MessageStoreConfig.from_broker_conf(path)
    assert config.file_reserved_time == 72
    assert config.extra["fileReservdTime"] == "48"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("fileReservedTime=4d", "file_reserved_time"),
        ("messageIndexEnable=yes", "message_index_enable"),
        ("flushDiskType=FAST", "flush_disk_type"),
        ("logicalDiskSpaceCleanForciblyThreshold=x", "logical_disk_space_clean_forcibly_threshold"),
        ("maxIndexNum=0", "max_index_num"),
        ("maxMessageSize=1_000", "max_message_size"),
        ("diskMaxUsedSpaceRatio=٧٥", "disk_max_used_space_ratio"),
        ("logicalDiskSpaceCleanForciblyThreshold=0.7_5", "logical_disk_space"),
    ],
)
def test_a_wrong_value_in_a_file_names_its_field(tmp_path: Path, line: str, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        MessageStoreConfig.from_broker_conf(conf(tmp_path, line))


def test_properties_syntax() -> None:
    text = "a=1\r\n! no\n#no\n\n b : 2 \nc 3\nd\ne=x\\\n   y\nf=\\u00e9\\t\\=\n\\ g=7\na=8\nh=v=w\ni\\:j=9\nk=\\\\"
    assert parse_properties(text) == {
        "a": "8", "b": "2", "c": "3", "d": "", "e": "xy", "f": "é\t=", " g": "7", "h": "v=w", "i:j": "9", "k": "\\",
    }  # fmt: skip


def test_a_config_can_be_hashed_and_compared() -> None:
    assert MessageStoreConfig(extra={"a": "1"}) == MessageStoreConfig()
    assert hash(MessageStoreConfig(extra={"a": "1"})) == hash(MessageStoreConfig())


def test_the_kernels_default_delays_are_those_of_the_config() -> None:
    assert DEFAULT_DELAY_LEVELS.delays_ms == MessageStoreConfig().delay_levels_ms
