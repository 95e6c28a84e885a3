"""Files a lint is given: whatever is wrong with them is told, nothing crashes, nothing is run."""

import os
import time
from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tracer.errors import InputError
from tracer.lint import gather
from tracer.lint.run import lint
from tracer.texts import LANGUAGES

RIGHT = "from flash_attn import flash_attn_func\ndef f(q, k, v):\n    return flash_attn_func(q, k, v, causal=True)\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"def f(:\n", "does not parse as Python, line 1: "),
        (b"print 'two'\n", "does not parse as Python, line 1: "),
        (b"x = '\xff'\n", "is not UTF-8 (first wrong byte at offset 5)"),
        (b"# coding: ascii\nx = '\xff'\n", "declares the encoding ascii, but byte 21"),
        (b"# coding: no-such\nx = 1\n", "declares an encoding that does not exist"),
        (b"x = 1\0\n", "has a NUL byte at offset 5"),
        (b"x = " + b"(" * 5000 + b")" * 5000, ""),
        (b"x = " + b"-" * 100_000 + b"1", ""),
        (b"x = " + b"1" * 10_000, "does not parse as Python"),
    ],
    ids=["syntax", "python 2", "latin", "ascii", "encoding", "nul", "nested", "signs", "digits"],
)
def test_a_file_that_cannot_be_read_is_told_and_the_others_are_judged(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "bad.py").write_bytes(content)
    (tmp_path / "good.py").write_text(RIGHT)
    report = lint([tmp_path])
    (skipped,) = report.skipped
    assert skipped.path == str(tmp_path / "bad.py")
    assert reason in str(skipped.why)
    assert (len(report.kernels), report.exit_code) == (1, 0)
    assert all(skipped.why.text(language) for language in LANGUAGES)


@pytest.mark.parametrize("terms", [600, 3000, 20_000])
def test_a_very_long_expression_is_judged_or_told(tmp_path: Path, terms: int) -> None:
    (tmp_path / "long.py").write_text(RIGHT + "x = " + "+".join(["a"] * terms) + "\n")
    report = lint([tmp_path])
    assert len(report.skipped) + len(report.kernels) >= 1


def test_deeply_nested_blocks_are_judged_or_told(tmp_path: Path) -> None:
    chain = "if a:\n    pass\n" + "elif a:\n    pass\n" * 5000
    (tmp_path / "chain.py").write_text(RIGHT + chain)
    report = lint([tmp_path])
    assert len(report.skipped) + len(report.kernels) >= 1


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "LARGEST", 10)
    (tmp_path / "a.py").write_text(RIGHT)
    (skipped,) = lint([tmp_path]).skipped
    assert "files beyond 10 bytes are not read" in str(skipped.why)


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links and pipes")
def test_links_that_go_round_pipes_and_missing_targets_are_told(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(RIGHT)
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "self.py").symlink_to(tmp_path / "self.py")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    os.mkfifo(tmp_path / "pipe.py")
    report = lint([tmp_path])
    assert sorted(Path(each.path).name for each in report.skipped) == ["around", "gone.py", "pipe.py", "self.py"]
    assert report.exit_code == 0


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(RIGHT)
    (tmp_path / "again.py").symlink_to(tmp_path / "good.py")
    report = lint([tmp_path, tmp_path / "good.py"])
    assert (report.files, len(report.kernels)) == (1, 1)


def test_hidden_folders_caches_and_environments_are_left_out(tmp_path: Path) -> None:
    for folder in (".git", "__pycache__", "env"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(RIGHT)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    report = lint([tmp_path])
    assert (report.files, report.exit_code) == (0, 3)


def test_a_path_that_does_not_exist_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere cannot be read: .*trace lint takes Python files and folders"):
        lint([tmp_path / "nowhere"])


def test_a_byte_order_mark_shifts_no_column(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbf" + b"F.scaled_dot_product_attention(q, k, v)\n")
    (kernel,) = lint([tmp_path]).kernels
    assert (kernel.place.span.line, kernel.place.span.column) == (1, 0)


def test_a_file_is_read_in_the_encoding_it_declares(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(
        "# coding: latin-1\nx = 'é', F.scaled_dot_product_attention(q, k, v)\n".encode("latin-1")
    )
    report = lint([tmp_path])
    assert report.skipped == ()
    assert (report.kernels[0].place.span.line, report.kernels[0].place.span.column) == (2, 9)


def test_columns_count_code_points(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = '注意力', F.scaled_dot_product_attention(q, k, v)\n", encoding="utf-8")
    (kernel,) = lint([tmp_path]).kernels
    assert (kernel.place.span.column, kernel.place.code) == (11, "F.scaled_dot_product_attention(q, k, v)")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_python_has_it(tmp_path: Path, end: str) -> None:
    code = f"a = 1  # \x0c \u2028 one line{end}{end}F.scaled_dot_product_attention(q, k, v){end}"
    (tmp_path / "a.py").write_bytes(code.encode())
    (kernel,) = lint([tmp_path]).kernels
    assert (kernel.place.span.line, kernel.place.code) == (3, "F.scaled_dot_product_attention(q, k, v)")


CHAINS = {
    "queries": "q = q + turn(q) + (q if m else q * 2)",
    "factors": "q = q * 2 if m else q * 3",
    "scores": "s = s + (s if m else s * 2)",
    "masks": "t = t * (t if m else t * 2)",
    "weights": "w = w * (w if m else w * 2)",
}


@pytest.mark.parametrize("name", CHAINS)
def test_ways_that_multiply_do_not_multiply_the_time(linted: Lint, name: str) -> None:
    lines = ["s = q @ k.mT", "t = torch.ones(4, 4)", "w = m", *[CHAINS[name]] * 40]
    lines += ["w = F.softmax(s * w + t, dim=-1) @ v", "return F.scaled_dot_product_attention(q, k, w)"]
    started = time.process_time()
    report = linted("def f(q, k, v, m):\n" + "".join(f"    {line}\n" for line in lines))
    assert {kernel.status for kernel in report.kernels} == {"unknown"}
    assert time.process_time() - started < 5


def test_nothing_that_is_read_is_run(tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    (tmp_path / "flash_attn.py").write_text(trap + "def flash_attn_func(q, k, v):\n    pass\n")
    (tmp_path / "a.py").write_text(trap + RIGHT)
    lint([tmp_path])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "code",
    [
        "def f(q, k, v, s):\n    s = s * s\n    s = g(s)\n    return flash_attn_func(q, k, v, softmax_scale=s)\n",
        "def f(q, k, v, s):\n    return flash_attn_func(q, k, v, softmax_scale=f(q, k, v, s))\n",
        "def f(q, k, v):\n    while q:\n        s = s * 2\n    return flash_attn_func(q, k, v, s)\n",
        "a = b\nb = a\ndef f(q, k, v):\n    return flash_attn_func(q, k, v, softmax_scale=a, causal=b)\n",
        "class A(B): pass\nclass B(A):\n    def f(self, q, k, v):\n        flash_attn_func(q, k, v, 0.0, self.s)\n",
        "kw = {}\nkw.update(**kw)\ndef f(q, k, v):\n    return flash_attn_func(q, k, v, **kw)\n",
    ],
)
def test_what_goes_in_circles_ends(linted: Lint, code: str) -> None:
    report = linted(code)
    assert len(report.kernels) == 1
