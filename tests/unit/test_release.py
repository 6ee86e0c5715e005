"""What a release is made with: the check of tag, version and CHANGELOG, the wheels that are built, the workflow that uploads."""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from support.places import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
CHANGELOG = (
    "# Changelog\n\n## 1.2.3 (2026-01-31)\n\n### Added\n\n### On-disk format\n\nUnchanged.\n"
)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


problems = script("release_check").problems


def test_a_release_that_is_ready_has_no_problem() -> None:
    assert problems("v1.2.3", "1.2.3", CHANGELOG) == []
    assert problems(None, "1.2.3", CHANGELOG) == []


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "said"),
    [
        ("v1.2.4", "1.2.3", CHANGELOG, "the tag is v1.2.4"),
        ("v1.2", "1.2", CHANGELOG, "no version of a release"),
        ("v1.2.4", "1.2.4", CHANGELOG, "the newest heading is '1.2.3 (2026-01-31)'"),
        ("v1.2.3", "1.2.3", CHANGELOG.replace("2026-01-31", "unreleased"), "is 'unreleased'"),
        ("v1.2.3", "1.2.3", CHANGELOG.replace("01-31", "02-31"), "expected the day"),
        ("v1.2.3", "1.2.3", CHANGELOG.replace("### On-disk", "### Other"), "On-disk format"),
        ("v1.2.3", "1.2.3", "# Changelog\n", "the newest heading is ''"),
    ],
)
def test_what_keeps_a_release_back(tag: str, version: str, changelog: str, said: str) -> None:
    (problem,) = [text for text in problems(tag, version, changelog) if said in text]
    assert problem


def test_a_release_says_where_its_repository_is() -> None:
    """Nobody would notice on a tag's day that PyPI shows no link: the place was not known while all else was written."""
    check = script("release_check").url_problems
    urls = {
        name: f"https://example.org/{name}"
        for name in ("Source", "Issues", "Changelog", "Documentation")
    }
    assert check({"urls": urls}) == []
    (said,) = check({})
    assert "lacks Source, Issues, Changelog, Documentation" in said
    (said,) = check({"urls": urls | {"Source": "example.org"}})
    assert "the URL Source is 'example.org', expected https://" in said


def test_the_version_is_read_without_an_import() -> None:
    import rmqcore

    assert script("release_check").version() == rmqcore.__version__


def test_every_python_that_the_package_names_has_wheels() -> None:
    classifiers = re.findall(r":: (3\.\d+)'", str(PROJECT["project"]["classifiers"]))
    built = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp{name.replace('.', '')}-*" for name in classifiers] + ["cp314t-*"]


def test_the_tools_of_a_release_are_pinned_and_the_workflow_takes_them() -> None:
    assert all("==" in tool for tool in PROJECT["dependency-groups"]["release"])
    assert "pip install --group release" in WORKFLOW
    assert "cibuildwheel==" not in WORKFLOW


def test_only_a_tag_is_uploaded_and_only_by_the_job_that_has_the_right() -> None:
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    able = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert able == {"attest", "publish"}
    assert {jobs[name]["if"] for name in able} == {
        "github.event_name == 'push' && startsWith(github.ref, 'refs/tags/v')"
    }
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "attest"
    assert "secrets." not in WORKFLOW


def test_every_extra_of_the_wheel_has_a_check() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"]) - {"all"}
    assert set(script("wheel_extra").CHECKS) == extras
    line = re.search(r"extras=\((arrow .*)\)", (ROOT / "scripts" / "check_wheel.sh").read_text())
    assert line
    assert set(re.split(r"[ ,]", line[1])) == extras


@pytest.mark.parametrize("name", ["check_wheel.sh", "core_tests.sh", "release_dry_run.sh"])
def test_a_script_can_be_run(name: str) -> None:
    path = ROOT / "scripts" / name
    assert path.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", path], check=True)


BACKEND = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"


def test_two_sdists_of_one_tree_have_the_same_bytes(tmp_path: Path) -> None:
    """A wheel takes its times from SOURCE_DATE_EPOCH; an sdist of setuptools told when and by whom it was made."""
    made = []
    for name, mode in (("a", 0o644), ("b", 0o600)):
        tree = tmp_path / name
        (tree / "src" / "rmqcore" / "_native").mkdir(parents=True)
        (tree / "setup.py").write_bytes((ROOT / "setup.py").read_bytes())
        (tree / "pyproject.toml").write_text('[project]\nname = "rmqcore"\nversion = "1"\n')
        (tree / "MANIFEST.in").write_text("include other.txt\n")
        (tree / "other.txt").write_text("text\n")
        for path in tree.iterdir():
            if path.is_file():
                path.chmod(mode)
                os.utime(path, (mode * 1e6, mode * 1e6))
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", BACKEND, tmp_path / f"out-{name}"],
            cwd=tree,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
            capture_output=True,
            check=True,
        )
        made.append(tmp_path / f"out-{name}" / "rmqcore-1.tar.gz")
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        members = archive.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {
        (1700000000, 0, 0, "", "")
    }
    assert "rmqcore-1/other.txt" in {member.name for member in members}


def test_the_page_on_threads_says_what_wheels_declare() -> None:
    """It claimed that extensions need no GIL when no wheel said so."""
    page = (ROOT / "docs" / "concurrency.md").read_text(encoding="utf-8")
    declared = "RMQCORE_FREETHREADING" in str(PROJECT["tool"]["cibuildwheel"])
    assert ("do not yet declare that they need no GIL" in page) is not declared
    built = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = built.partition('RMQCORE_FREETHREADING: "1"')[2]
    assert "scripts/core_tests.sh" in tested
    assert "`scripts/core_tests.sh`" in page
