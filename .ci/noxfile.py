"""Every environment the package says it runs in: ``nox -f .ci/noxfile.py`` (``pip install nox`` first).

For each Python that is on this machine (3.11 to 3.13; those missing are skipped and named): the oldest versions that
pyproject.toml allows of every dependency, the newest, and the corners of torch and transformers. Each installs the
package as a wheel, runs it from another folder, and runs the tests that touch other packages most. It takes minutes,
most of them torch's download. ``nox -f .ci/noxfile.py -s newest-3.11`` runs one of them, and what follows ``--`` goes
to pytest.
"""

import atexit
import functools
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import nox
from packaging.requirements import Requirement  # which nox itself needs

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
# What depends on torch, transformers and Python themselves, and on each other dependency once.
SMOKE = (
    "tests/test_api.py",
    "tests/capture",
    "tests/engines/test_definitions.py",
    "tests/engines/test_transformers.py",
    "tests/kernels",
    "tests/saved/test_round_trip.py",
    "tests/lint/test_gather.py",
    "tests/cli/test_main.py",
    "tests/cli/test_help.py",
    "tests/browse/test_books.py",
    "tests/verify/test_no_false_alarm.py",
)
# A test's own packages, without those that judge code or drive a browser, in the versions of the extra ``test``.
TESTS = ("pytest", "jsonschema", "hypothesis", "accelerate")

nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "uv|virtualenv"


def requirements(python: str, extra: str | None = None) -> dict[str, str]:
    """Return what the package, or one extra of it, needs in a Python: name → bounds, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    found = (Requirement(line) for line in lines)
    here = {"python_version": python}
    return {each.name: str(each.specifier) for each in found if each.marker is None or each.marker.evaluate(here)}


@functools.cache
def wheel() -> str:
    """Return the wheel of this checkout, built once however many sessions there are."""
    folder = tempfile.mkdtemp(prefix="wheel-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    build = ["uv", "build", "--quiet", "--wheel", "--out-dir"]
    if shutil.which("uv") is None:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w"]
    subprocess.run([*build, folder, str(ROOT)], check=True)
    (built,) = Path(folder).glob("*.whl")
    return str(built)


def lowest(bounds: str) -> str:
    """Return the version that ``>=`` names, and any patch of it: ``>=1.8`` gives ``~=1.8.0``."""
    found = re.search(r">=([0-9.]+)", bounds)
    assert found, bounds
    parts = found[1].split(".")
    return f"~={'.'.join((*parts, '0', '0')[: max(3, len(parts))])}"


def check(session: nox.Session, *pinned: str) -> None:
    """Install the wheel with ``pinned``, run it from another folder, and run the smoke tests."""
    tests = requirements(str(session.python), "test")
    session.install(wheel(), *pinned, *(f"{name}{tests[name]}" for name in TESTS))
    # Environments are kept: the package of an earlier run has the same version, and would stay.
    session.install("--force-reinstall", "--no-deps", wheel())
    session.run(
        "python",
        "-c",
        "import sys, torch, transformers; print(sys.version.split()[0], 'torch', torch.__version__, "
        "'transformers', transformers.__version__)",
    )
    elsewhere = session.create_tmp()
    with session.chdir(elsewhere):
        session.run("trace", "qwen3", "--layer", "0", "--head", "2", "-o", "page.txt")
        session.run("trace", "verify", "qwen3", "--layer", "0", "--head", "2", "-o", "verify.txt")
    # The tests of this checkout, on the package that was installed.
    place = Path(elsewhere) / "tests"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "tests", place, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", elsewhere)
    with session.chdir(elsewhere):
        session.run("python", "-m", "pytest", *(session.posargs or SMOKE))


@nox.session(python=PYTHONS)
def oldest(session: nox.Session) -> None:
    """The oldest version of every dependency that pyproject.toml allows."""
    check(session, *(f"{name}{lowest(bounds)}" for name, bounds in requirements(str(session.python)).items()))


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """The newest version of every dependency that pyproject.toml allows."""
    check(session)


@nox.session(python="3.11")
@nox.parametrize(("torch", "transformers"), [("2.9.0", "5.24.0"), ("2.13.0", "5.16.0")])
def corners(session: nox.Session, torch: str, transformers: str) -> None:
    """The oldest torch with the newest transformers, and the reverse."""
    check(session, f"torch=={torch}", f"transformers=={transformers}")
