"""What contributors meet says one thing: pins of linters, packages of the machine, templates and the verbs that they name."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml
from support.places import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PRE_COMMIT = ROOT / ".pre-commit-config.yaml"
YAML = [PRE_COMMIT, *sorted(ROOT.glob(".github/**/*.yml"))]
HOOKS: list[dict[str, Any]] = [
    hook
    for repo in yaml.safe_load(PRE_COMMIT.read_text("utf-8"))["repos"]
    for hook in repo["hooks"]
]


def text(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def test_each_yaml_file_is_one() -> None:
    wrong = {}
    for path in YAML:
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            found = error
        if not isinstance(found, dict):
            wrong[path.relative_to(ROOT).as_posix()] = found
    assert wrong == {}


def test_each_hook_has_the_version_that_make_lint_has() -> None:
    assert HOOKS
    pinned = set(PROJECT["dependency-groups"]["lint"])
    assert [hook["id"] for hook in HOOKS if hook["language"] != "python"] == []
    assert {
        hook["id"]: other
        for hook in HOOKS
        if (other := set(hook["additional_dependencies"]) - pinned)
    } == {}


def test_each_hook_runs_a_tool_of_make_lint() -> None:
    tools = {hook["entry"].split()[0]: hook["additional_dependencies"][0] for hook in HOOKS}
    makefile = text("Makefile")
    run = {tool for tool in tools if re.search(rf"\b{tool} ", makefile)} | {"codespell"}
    assert set(tools) - run == set()
    assert {tool: pin for tool, pin in tools.items() if f"{tool}==" not in pin} == {}


def test_the_hooks_for_c_and_cython_see_the_files_that_make_lint_sees() -> None:
    files = {hook["id"]: hook["files"] for hook in HOOKS if "files" in hook}
    names = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.*")]
    assert {name for name in names if re.search(files["cython-lint"], name)} == {
        name for name in names if name.endswith((".pyx", ".pxd"))
    }
    assert {name for name in names if re.search(files["clang-format"], name)} == {
        name for name in names if name.endswith((".c", ".h"))
    }


def test_the_container_has_what_ci_installs() -> None:
    """As written in `.ci/run`: a package is a word of `missing+=(...)`, or an argument of `install`."""
    words: set[str] = set()
    for line in text(".ci", "run").splitlines():
        code = line.partition(" #")[0]
        for names in re.findall(
            r"missing\+=\(([^)]*)\)|\binstall ([a-z][a-z0-9 -]+?)(?: \|\| return)?$", code
        ):
            words |= set("".join(names).split())
    assert {"gcc", "maven", "valgrind", "qemu-user", "xfsprogs"} <= words
    assert words <= set(re.findall(r"[\w+-]+", text(".devcontainer", "Dockerfile")))


def test_actions_are_pinned_by_hash() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for used in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w/.-]+@[0-9a-f]{40} # v[\d.]+", used), (path.name, used)


def test_both_pages_of_conduct_and_security_name_one_contact() -> None:
    contact = 'private report of the project\'s repository ("Report a vulnerability")'
    assert contact in text("SECURITY.md")
    assert contact in text("CODE_OF_CONDUCT.md")


def test_a_bug_report_asks_for_version_store_and_fsck() -> None:
    form = text(".github", "ISSUE_TEMPLATE", "bug.yml")
    for command in ("rmqcore --version", "rmqcore info STORE", "rmqcore fsck STORE"):
        assert f"$ {command}" in form


def test_the_pull_request_asks_for_targets_that_there_are() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):.*##", text("Makefile"), re.MULTILINE))
    asked = set(re.findall(r"`make ([\w-]+)`", text(".github", "pull_request_template.md")))
    assert asked
    assert asked <= targets
