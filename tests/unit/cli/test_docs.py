"""docs/cli.md and the help texts say what the command line does."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.places import ROOT
from support.stores.rocksdb_queues import java_store

from rmqcore.cli.app import VERBS
from rmqcore.cli.mqadmin import verb_for
from rmqcore.cli.spark.app import VERBS as SPARK_VERBS

DOCS = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
NAMES = list(VERBS)
SPARK_NAMES = list(SPARK_VERBS)
SHARED = DOCS.partition("## info")[0]
OTHERS = "Beside other tools"


def section(verb: str) -> str:
    return DOCS.partition(f"\n## {verb}\n")[2].partition("\n## ")[0]


def examples(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("rmqcore ")]


@pytest.mark.parametrize("verb", NAMES)
def test_every_option_is_documented(rmqcore: Run, verb: str) -> None:
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", rmqcore(verb, "--help").out.decode())) - {
        "--help"
    }
    assert len(options) > 1
    for option in options:
        assert re.search(rf"{option}(?![\w-])", section(verb) + SHARED), option


def test_every_verb_is_documented() -> None:
    assert re.findall(r"^\| \[`(\w+)`\]", DOCS, re.MULTILINE) == NAMES


@pytest.mark.parametrize("verb", SPARK_NAMES)
def test_every_verb_of_spark_is_documented(rmqcore: Run, verb: str) -> None:
    text = section("spark")
    assert f"| `{verb}` |" in text
    options = set(
        re.findall(r"(?<![\w-])--[a-z][a-z-]+", rmqcore("spark", verb, "--help").out.decode())
    )
    for option in options - {"--help"}:
        assert re.search(rf"{option}(?![\w-])", text + SHARED), option


def test_options_in_the_docs_exist(rmqcore: Run) -> None:
    known = {"--install-completion", "--version", "--apply"}
    known.add("--glob")  # of hadoop
    for words in [*([verb] for verb in NAMES), *(["spark", verb] for verb in SPARK_NAMES)]:
        known |= set(re.findall(r"--[a-z][a-z-]+", rmqcore(*words, "--help").out.decode()))
    own = DOCS.replace(section(OTHERS), "")
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", own)) <= known


def test_the_table_of_other_tools_says_what_there_is(rmqcore: Run) -> None:
    """Each of our commands in it is one, and where another tool does more a reason stands below."""
    rows = [
        line.strip("| ").split(" | ")
        for line in section(OTHERS).splitlines()
        if line.startswith("| ")
    ]
    head, *rows = rows
    assert [name.strip("`") for name in head[1:]] == [
        "rmqcore",
        "kafka-dump-log.sh",
        "rpk",
        "kcat",
        "mqadmin",
    ]
    reasons = set()
    for row in rows:
        assert len(row) == 6, row
        ours = row[1].replace("\\|", "|")
        reasons |= set(re.findall(r"^\[(\d)\]", ours))
        assert ours != "-"
        for command in re.findall(r"`([^`]+)`", ours):
            words = command.split()
            verb = words[1:2] if words[0] == "spark" else words[:1]
            if verb[0] not in (*NAMES, *SPARK_NAMES):
                continue  # an option of the verb named before
            helped = rmqcore(
                *(["spark"] if words[0] == "spark" else []), *verb, "--help"
            ).out.decode()
            for option in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", command):
                assert re.search(rf"{option}(?![\w-])", helped), (command, option)
    numbers = re.findall(r"^(\d)\. ", section(OTHERS), re.MULTILINE)
    assert reasons == set(numbers) == {str(number) for number in range(1, len(numbers) + 1)}


def test_names_of_mqadmin() -> None:
    table = DOCS.partition("| mqadmin | here |")[2]
    for names, here in re.findall(r"^\| (`.*?) \| `(rmqcore \w+).*\|$", table, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            assert (verb_for(name) or "").startswith(here), name


@pytest.mark.parametrize("verb", NAMES)
def test_examples_run(
    rmqcore: Run, golden: Path, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The examples of the docs and of --help run; `tail -f` is run in test_terminal.py."""
    if verb in ("cat", "export"):
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    found = examples(section(verb))
    assert found == examples(rmqcore(verb, "--help").out.decode())
    for number, line in enumerate(found):
        words = shlex.split(re.split(r" \| | > ", line)[0])
        assert words[1] == verb
        if (
            "-f" in words
            or verb in ("serve", "ping")  # test_ping_verb.py runs its examples
            or (verb == "top" and not {"--once", "--count"} & set(words))
        ):
            continue  # until Ctrl-C
        store = golden / "basic" / "store"
        if verb == "convert":
            store = java_store(tmp_path)
        if "--apply" in words:
            store = Path(shutil.copytree(store, tmp_path / f"store{number}"))
        places = {"/data/store": str(store), "Orders": "TopicBasicA"}
        places |= {"/data/parquet": f"out{number}", "/tmp/orders": f"out{number}"}
        places |= {"/data/rebuilt": f"out{number}", "/data/backup": f"out{number}"}
        places["/data/slave"] = str(store)
        places |= {"/data/salvaged": f"out{number}", "/data/converted": f"out{number}"}
        places |= {"/backup/commitlog": str(store / "commitlog")}
        places |= {
            "7F00000100002A9F0000000000012F3C": "7F00000100002A9F000000000000032B",
            "77628": "811",
        }
        done = rmqcore(*(places.get(word, word) for word in words[1:]))
        assert done.code == 0, (line, done.err)
