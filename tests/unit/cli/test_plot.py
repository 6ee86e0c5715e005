"""Pictures of reports: kinds by suffix, stored names as they are, nothing left behind where one cannot be drawn."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from rmqcore.cli.common.errors import explain
from rmqcore.cli.common.plot import (
    bytes_axis,
    check_plot,
    count_axis,
    picture,
    plot_file,
    shown_name,
    time_axis,
    times,
)
from rmqcore.errors.exit_codes import FAILED

HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000
HARMFUL = "$x^2 \\frac \x1b[31m\u4e2d\U0001f600 </svg>"


def draw(path: Path, name: str = "Orders") -> None:
    with picture(path, [1, 2], f"stats of {name}") as (first, second):
        first.plot(times([BEGIN_MS, BEGIN_MS + HOUR_MS]), [0, 5 << 20], label=shown_name(name))  # type: ignore[arg-type]
        first.legend()
        first.set_title("bytes stored")
        time_axis(first.xaxis)
        bytes_axis(first.yaxis, "/s")
        second.barh([shown_name(name)], [1_500_000])
        count_axis(second.xaxis)


@pytest.mark.parametrize(
    ("suffix", "magic"), [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".pdf", b"%PDF")]
)
def test_the_suffix_says_the_kind(tmp_path: Path, suffix: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = plot_file(str(tmp_path / f"stats{suffix}"))
    draw(path)
    assert path.read_bytes().startswith(magic)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_png_has_the_size_of_its_panels(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(tmp_path / "a.png")
    header = (tmp_path / "a.png").read_bytes()[16:24]
    assert (int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")) == (1200, 1200)


def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_stored_names_are_text(tmp_path: Path, suffix: str) -> None:
    """A $ began a formula, and a name that is no formula ended in an error."""
    pytest.importorskip("matplotlib")
    path = tmp_path / f"a{suffix}"
    draw(path, HARMFUL)
    if suffix == ".svg":
        text = path.read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert re.findall(r"\$x\^2 \\frac \\x1b\[31m\u4e2d\U0001f600 &lt;/svg&gt;", text)


def test_times_that_no_calendar_has(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert len(times([-(1 << 63), (1 << 63) - 1])) == 2
    with picture(tmp_path / "a.png", [1]) as (axes,):
        axes.plot(times([-(1 << 63), (1 << 63) - 1]), [0, 1])  # type: ignore[arg-type]
        time_axis(axes.xaxis)


@pytest.mark.parametrize("text", ["stats", "stats.txt", "stats.png.gz", "no/such/folder/a.png"])
def test_what_is_no_picture(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        plot_file(text)


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ZeroDivisionError), picture(tmp_path / "a.png", [1]):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    check_plot(None)
    with pytest.raises(ModuleNotFoundError) as caught:
        check_plot(Path("a.png"))
    assert explain(caught.value) == FAILED
    assert "pip install 'rmqcore[plot]'" in capsys.readouterr().err
