"""mqadmin against the real broker and ours: it prints the same, but for times, ids and what is a broker's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path

import pytest
from interop.broker import Broker
from interop.client_manners import admin, wait_left
from interop.java_process import JavaProcess
from support.server_process import ServerProcess

CLUSTER, NAME = "InteropCluster", "interop-a"
COMMANDS = [
    "updateTopic -b {b} -t T1 -r 4 -w 4",
    "updateTopic -c {c} -t T2 -r 2 -w 2 -a +message.type=FIFO",
    "updateTopic -b {b} -t T2 -r 2 -w 3 -a +color=red",
    "updateTopic -b {b} -t bad.name -r 4 -w 4",
    "updateTopic -b {b} -t TBW102 -r 4 -w 4",
    "updateSubGroup -b {b} -g G1",
    "updateSubGroup -b {b} -g bad.name",
    "getConsumerConfig -g G1",
    "getConsumerConfig -g nothing",
    "sendMessage -t T1 -p hello -k K1 -c TagA -b {n} -i 0",
    "checkMsgSendRT -t T1 -a 2 -s 16",
    "sendMsgStatus -b {n} -s 16 -c 2",
    "topicList",
    "topicList -c",
    "topicRoute -t T1",
    "topicClusterList -t T1",
    "topicStatus -t T1",
    "topicStatus -t nothing",
    "clusterList",
    "clusterList -m",
    "haStatus -b {b}",
    "updateBrokerConfig -b {b} -k brokerPermission -v 6",
    "consumeMessage -t T1 -g G1 -b {n} -i 0 -o 0 -c 1",
    "consumerProgress -g G1",
    "consumerProgress",
    "consumerStatus -g G1",
    "consumerConnection -g G1",
    "producerConnection -g PG -t T1",
    "producer -b {b}",
    "queryMsgByOffset -t T1 -b {n} -i 0 -o 0",
    "queryMsgByKey -t T1 -k K1",
    "printMsg -t T1 -d true",
    "queryCq -t T1 -q 0 -i 0 -c 1",
    "resetOffsetByTime -g G1 -t T1 -s -1",
    "resetOffsetByTime -g G1 -t T1 -s 0",
    "resetOffsetByTime -g G2 -t T1 -s 0",
    "skipAccumulatedMessage -g G1 -t T1 -f true",
    "consumerProgress -g G1",
    "brokerConsumeStats -b {b}",
    "cleanExpiredCQ -b {b}",
    "deleteExpiredCommitLog -b {b}",
    "cloneGroupOffset -s G1 -d G3 -t T1 -o true",
    "consumerProgress -g G3",
    "setConsumeMode -b {b} -t T1 -g G1 -m PULL -q 0",
    "getColdDataFlowCtrInfo -b {b}",
    "cleanUnusedTopic -b {b}",
    "updateOrderConf -t T1 -v interop-a:4 -m put",
    "updateOrderConf -t T1 -m get",
    "updateTopicPerm -b {b} -t T1 -p 4",
    "topicRoute -t T1",
    "wipeWritePerm -b {n}",
    "addWritePerm -b {n}",
    "deleteSubGroup -b {b} -g G1",
    "deleteTopic -c {c} -t T1",
    "topicRoute -t T1",
    "topicList",
]
OF_EACH = "brokerStatus -b {b}"
"""Its values are the broker's own: the names are compared."""
OURS_ALONE = {
    # Java has no more since 5.0: the released rocketmq-exporter fails without them.
    "brokerVersion",
    "getTransferedTps",
    # Java says elsewhere, or not at all: `rmqcore ping` shows them.
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "haSlaves",
    "replication",
    "storeState",
    "storeStateReason",
}
"""Names of our `brokerStatus` alone."""

# What is not the same, in this order: addresses, ids, times, durations, rates.
_MASKS = [
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\b[0-9A-F]{32,}\b", "ID"),
    (r"\b1[6-9]\d{11}\b", "TIME"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(,\d+)?", "DATE"),
    (r"rt=\d+ms|Avg RT: [\d.]+", "RT"),
    (r"(interop-a\s+[01]\s+true)\s+\d+", r"\1 RT"),
    (r"\d+\.\d+\(\d+,\d+ms(\|\d+,\d+ms)?\)", "LOAD"),
    (r"(TPS:) [\d.]+", r"\1 RATE"),
    # Seconds and messages that Java's timer wheel has before it.
    (r"\b\d+-\d+(?=\(0\.0w)", "BEHIND"),
    (r"\b0\.\d{4}\b", "SPACE"),
    (r"(?<=\s)\d+\.\d\d(?=\s)", "NUMBER"),
    (r"\s+", " "),
]


def shown(text: str) -> list[str]:
    """What a command printed, but for what is never the same; in no order, as Java's maps have none."""
    lines = []
    for line in text.splitlines():
        masked = line
        for pattern, word in _MASKS:
            masked = re.sub(pattern, word, masked)
        lines.append(masked.strip())
    return sorted(filter(None, lines))


def outputs(java: JavaProcess, broker: str, name_server: str) -> dict[str, list[str]]:
    """Run all commands; number and text of each, with what it printed."""
    found = {}
    for number, command in enumerate(COMMANDS):
        given = command.format(b=broker, c=CLUSTER, n=NAME)
        found[f"{number} {command}"] = shown(admin(java, given, name_server))
        if command.startswith("consumeMessage"):
            wait_left(java, broker, name_server, "G1")
    status = admin(java, OF_EACH.format(b=broker), name_server)
    names = {line.split(":")[0].strip() for line in status.splitlines()}
    found[OF_EACH] = sorted(re.sub(r"_/.*", "_PATH", name) for name in names)
    return found


@contextmanager
def ours(folder: Path) -> Iterator[ServerProcess]:
    settings = {"brokerClusterName": CLUSTER, "brokerName": NAME}
    with ServerProcess(folder, settings=settings) as server:
        yield server
        assert server.stop() == 0


@pytest.mark.slow
def test_mqadmin_prints_the_same(java: JavaProcess, tmp_path: Path) -> None:
    with ours(tmp_path / "ours") as server:
        found = outputs(java, server.broker, server.namesrv)
    theirs = Broker(
        tmp_path / "java", {"mappedFileSizeCommitLog": 1 << 20, "timerWheelEnable": "true"}
    )
    with theirs.running():
        wanted = outputs(java, theirs.address, theirs.name_server)
    assert set(found[OF_EACH]) >= OURS_ALONE
    found[OF_EACH] = [name for name in found[OF_EACH] if name not in OURS_ALONE]
    assert "create topic to ADDRESS success." in found[f"0 {COMMANDS[0]}"]
    lines = unified_diff(as_text(wanted), as_text(found), "Java", "ours", n=1)
    differences = "\n".join(lines)
    if differences:
        pytest.fail(differences)


def as_text(printed: Mapping[str, list[str]]) -> list[str]:
    """One line for each that was printed, below its command."""
    return [line for name, lines in printed.items() for line in (f"$ {name}", *lines)]
