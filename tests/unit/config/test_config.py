"""MessageStoreConfig: Java's names and defaults, values that are refused, and broker.conf files."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest

from rmqcore._native.format.codec import DEFAULT_DELAY_LEVELS
from rmqcore.config import MessageStoreConfig
from rmqcore.config.broker_conf import java_name, parse_properties, snake_case
from rmqcore.config.broker_keys import IGNORED_KEYS
from rmqcore.config.fields import parse_delay_levels
from rmqcore.config.unused import UnusedSettingWarning
from rmqcore.errors.arguments import SettingError

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
    ("line", "told"),
    [
        ("fileReservedTime=4d", "fileReservedTime: expected a whole number, got '4d'"),
        ("messageIndexEnable=yes", "messageIndexEnable: expected true or false, got 'yes'"),
        ("flushDiskType=FAST", "flushDiskType: expected one of ASYNC_FLUSH, SYNC_FLUSH, got 'FAST'"),
        ("logicalDiskSpaceCleanForciblyThreshold=x", "logicalDiskSpaceCleanForciblyThreshold: expected a number, got 'x'"),
        ("logicalDiskSpaceCleanForciblyThreshold=0.7_5", "logicalDiskSpaceCleanForciblyThreshold: expected a number"),
        ("maxIndexNum=0", "maxIndexNum: expected 2 to 2147483647, got 0"),
        ("maxMessageSize=1_000", "maxMessageSize: expected a whole number, got '1_000'"),
        ("diskMaxUsedSpaceRatio=٧٥", "diskMaxUsedSpaceRatio: expected a whole number"),
        ("mapedFileSizeCommitLog=1", "mapedFileSizeCommitLog: expected 64 to 2147483647, got 1"),
        ("checkCRCOnRecover=1", "checkCRCOnRecover: expected true or false, got '1'"),
        ("deleteWhen=25", "deleteWhen: expected hours of the day such as '04' or '04;16', got '25'"),
        ("messageDelayLevel=1s 5x", "messageDelayLevel: '5x' is not a delay: use a number and s, m, h or d"),
        ("maxIndexNum=110000000", "max_hash_slot_num, maxIndexNum: a file of 2220000040 bytes, Java maps at most 2147483647"),
        ("storePathCommitLog=a\\u0000b", "storePathCommitLog: expected a path, got 'a\\x00b'"),
    ],
)  # fmt: skip
def test_a_wrong_value_in_a_file_names_line_and_key(tmp_path: Path, line: str, told: str) -> None:
    """It was told by the field's name in Python, which whoever edits the file has never seen."""
    path = conf(tmp_path, f"# a broker\nbrokerName=a\\\n  b\n{line}\n\nslaveTimeout=1\n")
    with pytest.raises(ValueError) as caught:
        MessageStoreConfig.from_broker_conf(path)
    assert str(caught.value).startswith(f"{path}:4: {told}")


def test_two_values_that_do_not_go_together(tmp_path: Path) -> None:
    path = conf(tmp_path, "\nmaxHashSlotNum=400000000\n\nmaxIndexNum = 110000000")
    with pytest.raises(ValueError, match=rf"^{path}:4: maxHashSlotNum, maxIndexNum: a file of"):
        MessageStoreConfig.from_broker_conf(path)


def test_the_last_value_of_a_repeated_key_is_the_wrong_one(tmp_path: Path) -> None:
    path = conf(tmp_path, "slaveTimeout=1\nslaveTimeout=-1\n")
    with pytest.raises(ValueError, match=rf"^{path}:2: slaveTimeout: expected 0"):
        MessageStoreConfig.from_broker_conf(path)


def test_a_wrong_value_of_a_caller_is_none_of_the_file(tmp_path: Path) -> None:
    """Its own name, and not the file's."""
    path = conf(tmp_path, "slaveTimeout=1\n")
    with pytest.raises(ValueError, match=r"^slave_timeout: expected 0 to"):
        MessageStoreConfig.from_broker_conf(path, slave_timeout=-1)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_of_all_systems_are_counted(tmp_path: Path, end: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(end.join(["# one", "", "brokerName=1\\", "  2", "slaveTimeout=x"]).encode())
    with pytest.raises(ValueError, match=rf"^{path}:5: slaveTimeout"):
        MessageStoreConfig.from_broker_conf(path)


def test_an_unknown_key_is_told_with_its_line(tmp_path: Path) -> None:
    path = conf(tmp_path, "\nbrokerNam=a\n")
    with pytest.warns(UserWarning, match=rf"^{path}:2: RocketMQ has no setting brokerNam; did"):
        MessageStoreConfig.from_broker_conf(path)


def test_the_error_pickles() -> None:
    with pytest.raises(SettingError) as caught:
        MessageStoreConfig(max_index_num=1)
    same = pickle.loads(pickle.dumps(caught.value))
    assert (str(same), same.names) == (str(caught.value), ("max_index_num",))


def test_properties_syntax() -> None:
    text = "a=1\r\n! no\n#no\n\n b : 2 \nc 3\nd\ne=x\\\n   y\nf=\\u00e9\\t\\=\n\\ g=7\na=8\nh=v=w\ni\\:j=9\nk=\\\\"
    assert parse_properties(text) == {
        "a": "8", "b": "2", "c": "3", "d": "", "e": "xy", "f": "é\t=", " g": "7", "h": "v=w", "i:j": "9", "k": "\\",
    }  # fmt: skip


def test_a_config_can_be_hashed_and_compared() -> None:
    assert MessageStoreConfig(extra={"a": "1"}) == MessageStoreConfig()
    assert hash(MessageStoreConfig(extra={"a": "1"})) == hash(MessageStoreConfig())


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"])
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("checks", [False, True])
def test_what_a_role_means(role: str, duplicates: bool, checks: bool) -> None:
    config = MessageStoreConfig(
        broker_role=role, duplication_enable=duplicates, offset_check_in_slave=checks
    )
    assert config.is_slave == (role == "SLAVE")
    assert config.takes_no_puts == (role == "SLAVE" and not duplicates)
    assert config.corrects_offsets == (role != "SLAVE" or checks)


@pytest.mark.parametrize(("mode", "syncs"), [("ASYNC_FLUSH", False), ("SYNC_FLUSH", True)])
def test_puts_wait_for_the_disk_under_sync_flush(mode: str, syncs: bool) -> None:
    assert MessageStoreConfig(flush_disk_type=mode).syncs_puts == syncs


def test_the_kernels_default_delays_are_those_of_the_config() -> None:
    assert DEFAULT_DELAY_LEVELS.delays_ms == MessageStoreConfig().delay_levels_ms
