"""What a setting can be: values out of range, names that are none, files that are none; and nothing happens in silence."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.config.fields import parse_hours
from rmqcore.config.unused import LEFT_TO_JAVA, UNUSED, UnusedSettingWarning

FIELDS = {f.name: f for f in dataclasses.fields(MessageStoreConfig) if f.name != "extra"}
SEEN = 4711
"""A number that every unused number can be, but for ratios and ports, and that is no default."""


def another_value(name: str) -> Any:
    """A value that a field can take and that is not its default."""
    default = FIELDS[name].default
    if isinstance(default, bool):
        return not default
    if name == "delete_when":
        return "05;17"
    if name.endswith("ratio"):
        return 50
    if isinstance(default, int):
        return SEEN
    return 0.5 if isinstance(default, float) else "10.0.0.1:10912"


@pytest.mark.parametrize("name", sorted(UNUSED))
def test_a_setting_that_nobody_reads_says_so_once(name: str) -> None:
    """53 of 94 fields were read by nobody: a store with ``file_reserved_time=48`` filled its disk without a word."""
    values = {name: another_value(name)}
    with pytest.warns(UnusedSettingWarning) as caught:
        config = MessageStoreConfig(**values)
    assert [str(one.message).partition(" ")[0] for one in caught] == [name]
    assert UNUSED[name] in str(caught[0].message)
    assert caught[0].filename == __file__
    assert getattr(config, name) == values[name]
    default: dict[str, Any] = {name: FIELDS[name].default}
    MessageStoreConfig(**default)  # the default promises nothing


def test_a_store_with_queue_extensions_is_opened(tmp_path: Path) -> None:
    """It was refused; an entry with the address of an extension is read by the tags of its record."""
    conf = tmp_path / "broker.conf"
    conf.write_text("enableConsumeQueueExt=true\n")
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 16,
        "mapped_file_size_consume_queue": 2000,
    }
    with rmqcore.open(tmp_path / "store", **sizes) as store:
        for tag in "AB":
            store.put(Message("T", b"old", tags=tag))
        store.wait_dispatched()
    queue = tmp_path / "store/consumequeue/T/0" / f"{0:020}"
    data = bytearray(queue.read_bytes())
    for number, address in enumerate((-(1 << 63), -(1 << 63) + 34)):
        struct.pack_into(">q", data, number * 20 + 12, address)
    queue.write_bytes(data)
    (tmp_path / "store/consumequeue_ext/T/0").mkdir(parents=True)
    with pytest.warns(UnusedSettingWarning, match="enable_consume_queue_ext"):
        opened = rmqcore.open(tmp_path / "store", conf)
    with opened as store:
        store.put(Message("T", b"new", tags="B"))
        store.wait_dispatched()
        assert store.get("T", 0, 0, tags="B").bodies() == [b"old", b"new"]
        assert store.get("T", 0, 0, tags="A").bodies() == [b"old"]
    assert rmqcore.fsck(tmp_path / "store").exit_code == 0


def test_a_copy_warns_of_what_it_changes_alone() -> None:
    with pytest.warns(UnusedSettingWarning, match="redelete_hanged_file_interval"):
        config = MessageStoreConfig(redelete_hanged_file_interval=48)
    changed = config.changed(flush_disk_type="SYNC_FLUSH", extra={"a": "b"})
    assert (changed.redelete_hanged_file_interval, changed.flush_disk_type) == (48, "SYNC_FLUSH")
    assert (config.flush_disk_type, dict(changed.extra)) == ("ASYNC_FLUSH", {"a": "b"})
    with pytest.raises(TypeError):
        changed.extra["a"] = "c"  # type: ignore[index]
    with pytest.warns(UnusedSettingWarning, match="use_abs_lock"):
        config.changed(use_abs_lock=True)
    with pytest.raises(ValueError, match="slave_timeout"):
        config.changed(slave_timeout=-1)


def test_copies_are_equal_and_warn_of_nothing() -> None:
    """A configuration that is sent to another process could not be pickled: its `extra` is a view."""
    config = MessageStoreConfig(slave_timeout=7, extra={"a": "b"})
    with pytest.warns(UnusedSettingWarning, match="use_abs_lock"):
        unused = config.changed(use_abs_lock=True)
    for given in (config, unused):
        for copied in (
            copy.copy(given),
            copy.deepcopy(given),
            pickle.loads(pickle.dumps(given)),
        ):
            assert copied == given and dict(copied.extra) == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delete_when", "nonsense"),
        ("delete_when", ""),
        ("delete_when", "24"),
        ("delete_when", "04;;16"),
        ("delete_when", "04; 16"),
        ("delete_when", "-1"),
        ("delete_when", "٤"),
        ("disk_max_used_space_ratio", 101),
        ("disk_max_used_space_ratio", -1),
        ("access_message_in_memory_max_ratio", 400),
        ("logical_disk_space_clean_forcibly_threshold", 1.5),
        ("logical_disk_space_clean_forcibly_threshold", float("nan")),
        ("logical_disk_space_clean_forcibly_threshold", float("inf")),
        ("flush_commit_log_least_pages", -1),
        ("flush_interval_commit_log", -500),
        ("sync_flush_timeout", -1),
        ("slave_timeout", -1),
        ("in_sync_replicas", -1),
        ("ha_listen_port", 65_536),
        ("ha_listen_port", -1),
        ("max_topic_length", 0),
        pytest.param("max_topic_length", 10**5000, id="digits"),
        ("max_message_size", 0),
        ("flush_disk_type", "sync_flush"),
        ("flush_disk_type", " SYNC_FLUSH"),
        ("message_index_enable", "true"),
        ("message_index_enable", 1),
        ("message_delay_level", "9999999999999999999d"),
        ("message_delay_level", "1s " + "9" * 5000 + "s"),
        ("store_path_commit_log", ""),
        ("store_path_commit_log", "a\0b"),
        pytest.param("store_path_commit_log", "a\ud800b", id="half a pair"),
        ("store_path_root_dir", b"bytes"),
        ("file_reserved_time", 1 << 31),
        ("file_reserved_time", "48"),
        ("file_reserved_time", None),
        ("max_hash_slot_num", (1 << 31) - 1),
        ("max_index_num", 110_000_000),
        ("mapped_file_size_consume_queue", (1 << 31) - 1),
        ("extra", 5),
        ("extra", {"enableControllerMode": True}),
        ("extra", {1: "a"}),
    ],
)
def test_a_value_that_a_field_cannot_take(name: str, value: object, tmp_path: Path) -> None:
    """``delete_when="nonsense"``, ratios of 400 and negative intervals were taken; some failed later, some never."""
    values: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=name):
        rmqcore.open(tmp_path / "store", **values)
    assert os.listdir(tmp_path) == []


def test_hours() -> None:
    assert parse_hours("04") == (4,)
    assert parse_hours("4;16;23;") == (4, 16, 23)


def test_a_path_object_is_a_path(tmp_path: Path) -> None:
    assert MessageStoreConfig(store_path_commit_log=tmp_path).store_path_commit_log == str(tmp_path)  # type: ignore[arg-type]


def test_a_message_size_that_no_file_takes() -> None:
    with pytest.warns(UnusedSettingWarning, match="max_message_size.*MESSAGE_ILLEGAL"):
        MessageStoreConfig(max_message_size=1 << 20, mapped_file_size_commit_log=1 << 16)
    MessageStoreConfig(mapped_file_size_commit_log=1 << 16)  # the default limit says nothing


# ---- names, files and types that are none -----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("flush_disk_typ", "flush_disk_type"),
        ("flushDiskType", "flush_disk_type"),
        ("mappedFileSizeCommitLog", "mapped_file_size_commit_log"),
        ("warm_mapped_file_enable", "warm_maped_file_enable"),
        ("xyz", "docs/config.md"),
    ],
)
def test_a_name_that_is_no_setting_gets_the_nearest_one(
    name: str, nearest: str, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("")
    given = MessageStoreConfig()
    values: dict[str, Any] = {name: 1}
    for attempt in (
        lambda: MessageStoreConfig(**values),
        lambda: rmqcore.open(tmp_path / "store", **values),
        lambda: rmqcore.open(tmp_path / "store", conf, **values),
        lambda: rmqcore.open(tmp_path / "store", given, **values),
    ):
        with pytest.raises(TypeError, match=f"unknown setting {name};.*{nearest}"):
            attempt()
    assert os.listdir(tmp_path) == ["broker.conf"]


@pytest.mark.parametrize(
    "config", [5, 5.0, True, b"broker.conf", {"flush_disk_type": "SYNC_FLUSH"}, ["a"], object()]
)
def test_a_config_of_another_type(config: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=f"config: expected .*, got {type(config).__name__}"):
        rmqcore.open(tmp_path / "store", config)
    assert os.listdir(tmp_path) == []


def test_a_mapping_as_config_says_how_to_give_it(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"\*\*config"):
        rmqcore.open(tmp_path / "store", {"flush_disk_type": "SYNC_FLUSH"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["clock", "progress"])
def test_a_clock_or_progress_that_cannot_be_called(tmp_path: Path, name: str) -> None:
    """A wrong `progress` was met in the middle of the first recovery that had something to tell."""
    given: dict[str, Any] = {name: 1_700_000_000_000}
    with pytest.raises(TypeError, match=f"{name}: expected a callable, got int"):
        rmqcore.open(tmp_path / "store", **given)
    assert os.listdir(tmp_path) == []


def test_a_broker_conf_that_is_none(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "directory").mkdir()
    (tmp_path / "nul").write_bytes(b"flushDiskType=SYNC_FLUSH\0\n")
    (tmp_path / "huge").write_bytes(b"# x\n" * (1 << 20))
    (tmp_path / "escape").write_text("brokerName=\\u12g4\n")
    for name, error, text in (
        ("missing", FileNotFoundError, "missing"),
        ("directory", IsADirectoryError, "directory"),
        ("nul", ValueError, "nul: not a configuration file: it has NUL bytes"),
        ("huge", ValueError, "huge: not a configuration file: it has more than 1048576 bytes"),
        ("escape", ValueError, "escape: line 1: expected four hex digits"),
        ("missing/below", FileNotFoundError, "below"),
        ("nul/below", NotADirectoryError, "below"),
    ):
        with pytest.raises(error, match=text):
            rmqcore.open(store, tmp_path / name)
    assert not store.exists()


def test_a_broker_conf_in_another_encoding_is_read_as_java_reads_it(tmp_path: Path) -> None:
    """Java reads ISO 8859-1: any byte is a letter, and nothing fails."""
    conf = tmp_path / "broker.conf"
    conf.write_bytes("# имя\nbrokerName=имя\n".encode("cp1251") + b"brokerClusterName=\xff\xfe\n")
    config = MessageStoreConfig.from_broker_conf(conf)
    assert config.extra["brokerClusterName"] == "ÿþ"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("deleteWhen=nonsense", "deleteWhen"),
        ("diskMaxUsedSpaceRatio=175", "diskMaxUsedSpaceRatio"),
        ("flushDiskType=sync_flush", "flushDiskType"),
        ("messageIndexEnable=1", "messageIndexEnable"),
    ],
)
def test_a_value_in_a_file_names_file_and_key(line: str, name: str, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(line)
    with pytest.raises(ValueError, match=f"broker.conf:1: {name}: "):
        rmqcore.open(tmp_path / "store", conf)
    assert os.listdir(tmp_path) == ["broker.conf"]


@pytest.mark.parametrize(
    "line",
    ["enableDLegerCommitLog=true", "storeType=defaultRocksDB", "rocksdbCQDoubleWriteEnable=true"],
)
def test_a_store_of_another_kind_is_not_written(line: str, tmp_path: Path) -> None:
    """Its log or its queues are elsewhere: a store that begins anew beside them numbers messages from 0 again."""
    conf = tmp_path / "broker.conf"
    conf.write_text(line)
    with pytest.raises(ValueError, match=line):
        rmqcore.open(tmp_path / "store", conf)
    assert os.listdir(tmp_path) == ["broker.conf"]
    conf.write_text("enableDLegerCommitLog=False\nstoreType=default\n")
    rmqcore.open(tmp_path / "store", conf, services=False).close()


def test_a_root_of_another_store_in_a_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathRootDir={tmp_path}/a\n")
    with pytest.warns(UnusedSettingWarning, match=r"storePathRootDir.* is .*/a, .* is .*/b"):
        rmqcore.open(tmp_path / "b", conf, services=False).close()
    rmqcore.open(tmp_path / "a", conf, services=False).close()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    rmqcore.open(tmp_path / "link", conf, services=False).close()


@pytest.mark.parametrize("key", LEFT_TO_JAVA)
def test_what_only_java_does_is_a_warning(tmp_path: Path, key: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{key}=true\n")
    with pytest.warns(UnusedSettingWarning, match=f"^{key}=true: "):
        rmqcore.open(tmp_path / "store", conf).close()
    conf.write_text(f"{key}=\n")
    rmqcore.open(tmp_path / "store", conf).close()
