"""Wrong usage is 64, help has an example, names of mqadmin are recognised, and nothing needs typer to be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.cli_runs import Run

from rmqcore import __version__
from rmqcore.cli.app import VERBS as ALL_VERBS
from rmqcore.cli.spark.app import VERBS as SPARK_VERBS

VERBS = ["info", "cat", "get", "query", "lookup", "fsck", "export", "tail", "recover", "rebuild"]


def test_version(rmqcore: Run) -> None:
    done = rmqcore("--version")
    assert (done.code, done.out) == (0, f"rmqcore {__version__}\n".encode())


def test_help_names_every_verb_and_the_exit_codes(rmqcore: Run) -> None:
    done = rmqcore("--help")
    text = done.out.decode()
    assert done.code == 0
    for word in [*VERBS, "64 wrong usage", "--install-completion"]:
        assert word in text


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_has_an_example(rmqcore: Run, verb: str) -> None:
    for option in ("--help", "-h"):
        done = rmqcore(verb, option)
        text = done.out.decode()
        assert done.code == 0
        assert "Example:" in text
        assert f"  rmqcore {verb} /data/store" in text.split("Example:")[1]


@pytest.mark.parametrize("words", [(), ("spark",)], ids=["rmqcore", "spark"])
def test_the_list_of_verbs_is_cut_nowhere(
    rmqcore: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The first sentence of a verb's help has room in a line."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = rmqcore(*words, "--help").out.decode().splitlines()
    verbs = lines[lines.index("Commands:") + 1 :]
    verbs = verbs[: verbs.index("")]
    assert len(verbs) == (len(SPARK_VERBS) if words else len(ALL_VERBS) + 1)
    assert [line for line in verbs if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize(
    "words", [[verb] for verb in ALL_VERBS] + [["spark", verb] for verb in SPARK_VERBS], ids=" ".join
)  # fmt: skip
def test_help_has_room_at_80_columns(
    rmqcore: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """In boxes an option had 28 columns for what it means, and examples of times ended in an ellipsis."""
    monkeypatch.setenv("COLUMNS", "80")
    text = rmqcore(*words, "--help").out.decode()
    told = [line for line in text.splitlines() if not line.startswith("    rmqcore ")]
    assert max(map(len, told)) <= 80
    assert not re.search(r"[…│╭]", text)


def test_no_verb_prints_the_help(rmqcore: Run) -> None:
    done = rmqcore()
    assert done.code == 64
    assert "Usage: rmqcore" in done.out.decode() + done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cat"], "STORE"),
        (["cat", "STORE", "--no-such-option"], "--no-such-option"),
        (["cat", "STORE", "--limit", "many"], "--limit"),
        (["cat", "STORE", "--limit", "-1"], "--limit"),
        (["cat", "STORE", "--queue", "2147483648"], "2147483648"),
        (["cat", "STORE", "--from-phy", "-1"], "--from-phy"),
        (["cat", "STORE", "--from-phy", "9223372036854775808"], "--from-phy"),
        (["cat", "STORE", "--from-phy", "20", "--to-phy", "10"], "--to-phy"),
        (["cat", "STORE", "--since", "lastweek"], "yyyy-MM-dd#HH:mm:ss:SSS"),
        (["cat", "STORE", "--since", "yestreday"], "did you mean yesterday?"),
        (["cat", "STORE", "--since", "2000", "--until", "1000"], "--until"),
        (["cat", "STORE", "--body", "hex"], "--body"),
        (["cat", "STORE", "--format", "xml"], "--format"),
        (["cat", "STORE", "--format", "csv", "--json"], "--json"),
        (["cat", "STORE", "--format", "csv", "--blank"], "--blank"),
        (["cat", "STORE", "--format", "arrow", "--body", "base64"], "--body"),
        (["cat", "STORE", "--format", "parquet", "--decompress"], "--decompress"),
        (["cat", "STORE", "another"], "another"),
        (
            ["cat", "STORE", "--columns", "topc,x"],
            "unknown column 'topc' (did you mean 'topic'?), 'x'; known columns: store_time,",
        ),
        (
            ["get", "STORE", "--topic", "T", "--queue", "0", "--offset", "0", "--columns", ","],
            "unknown column ','; known columns:",
        ),
        (["info"], "STORE"),
        (["info", "STORE", "--format", "csv"], "--format"),
        (["info", "STORE", "--format", "table", "--json"], "--json"),
        (["fsck", "STORE", "--format", "arrow"], "--format"),
        (["fsck", "STORE", "--max-findings", "0"], "--max-findings"),
        (["get", "STORE", "--topic", "T", "--queue", "0"], "--offset"),
        (["get", "STORE", "--topic", "T", "--queue", "0", "--offset", "1", "--max", "0"], "--max"),
        (["query", "STORE", "--topic", "T"], "--key"),
        (["query", "STORE", "--topic", "T", "--key", "K", "--index-type", "X"], "--index-type"),
        (["lookup", "STORE"], "ID_OR_OFFSET"),
        (["lookup", "STORE", "ORDER_1"], "ID_OR_OFFSET"),
        (["lookup", "STORE", "99999999999999999999"], "ID_OR_OFFSET"),
        (["export", "STORE"], "--out"),
        (["export", "STORE", "-o", "OUT", "--format", "arrow"], "--format"),
        (["export", "STORE", "-o", "OUT", "--body", "text"], "--body"),
        (["tail", "STORE", "--format", "parquet"], "--format"),
        (["tail", "STORE", "--lines", "-1"], "--lines"),
        (["spark", "odit"], "Did you mean 'audit'"),
        (["--verbose"], "--verbose"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_64_and_says_where(
    rmqcore: Run, golden: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    """Click answers 2, which a script would read as a damaged store."""
    places = {"STORE": str(golden / "basic" / "store"), "OUT": str(tmp_path / "out")}
    done = rmqcore(*(places.get(word, word) for word in words))
    assert done.code == 64
    assert said in done.err
    assert "Usage: rmqcore" in done.err
    assert "Traceback" not in done.err
    assert not done.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("word", "meant"), [("catt", "; did you mean 'cat'?"), ("FSCK", "; did you mean 'fsck'?"), ("qqq", "")]
)  # fmt: skip
def test_a_verb_that_is_none(rmqcore: Run, word: str, meant: str) -> None:
    done = rmqcore(word, "STORE")
    assert (done.code, done.out) == (64, b"")
    assert done.err == (
        f"Error: unknown command {word!r}{meant}\nHint: `rmqcore --help` lists the commands\n"
    )


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("queryMsgById", "rmqcore lookup STORE ID"),
        ("QUERYMSGBYID", "rmqcore lookup STORE ID"),
        ("queryMsgByKey", "rmqcore query STORE"),
        ("queryMsgByUniqueKey", "rmqcore query STORE"),
        ("queryMsgByOffset", "rmqcore get STORE"),
        ("printMsg", "rmqcore cat STORE"),
        ("topicStatus", "rmqcore info STORE"),
        ("queryCq", "rmqcore fsck STORE"),
    ],
)
def test_names_of_mqadmin_lead_to_the_verb(rmqcore: Run, name: str, instead: str) -> None:
    done = rmqcore(name, "-i", "0A0A")
    assert done.code == 64
    assert f"Hint: {instead}" in done.err


def test_damage_is_no_wrong_usage(rmqcore: Run, golden: Path) -> None:
    """Typer answers 2 for wrong usage, and the verb for damage."""
    assert rmqcore("fsck", golden / "crash_flipped" / "input").code == 2
    assert rmqcore("fsck", golden / "crash_flipped" / "input", "--frob").code == 64
    assert rmqcore("fsck", "--help").code == 0


def test_the_hook_of_whoever_called_stays(
    rmqcore: Run, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hook(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sys, "excepthook", hook)
    for words in (["info", golden / "basic" / "store"], ["info"], ["--help"]):
        rmqcore(*words)
        assert sys.excepthook is hook


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_typer_it_says_what_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from rmqcore.cli import main;"
        "assert main(['--version']) == 0; sys.exit(main(['info', '/nowhere']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == f"rmqcore {__version__}\n"
    assert "pip install 'rmqcore[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_the_package_loads_none_of_the_extras() -> None:
    code = (
        "import sys, rmqcore, rmqcore.codec, rmqcore.offline.export.export, rmqcore.offline.tail, rmqcore.cli;"
        "print(sorted({'typer', 'rich', 'click', 'pyarrow', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_verbs(
    rmqcore: Run, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    more = {"_RMQCORE_COMPLETE": f"complete_{shell}", "COMP_WORDS": "rmqcore ex", "COMP_CWORD": "1"}
    more |= {"_TYPER_COMPLETE_ARGS": "rmqcore ex", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    offered = rmqcore().out.decode()
    assert "export" in offered
    assert "cat" not in offered.split()


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """``python -m rmqcore`` said that the package cannot be executed."""
    done = subprocess.run(
        [sys.executable, "-m", "rmqcore", "info", tmp_path / "nothing"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr
