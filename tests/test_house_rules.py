"""The rules of the house (README, "The tree"), checked on the syntax trees of all modules.

One direction of imports, torch in one room only, no name that hides the standard library, entry
points imported by nobody, modules of one noun and a readable length, no bare or silent catch-all.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"

# Left to right, as data flows: a module may import from its own room and from rooms before it.
FLOW = (
    "records",
    "formats",
    "facts",
    "plan",
    "measure",
    "model",
    "judge",
    "hang",
    "report",
    "lab",
    "commands",
)
ENTRY_POINTS = ("sweep", "cli", "__main__")
VAGUE = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "core", "base", "lib"}
# Twice the upper end of what is comfortable to read would be no rule, the end itself no room for
# a table: a longer module should be split by its second noun.
LONGEST_MODULE = 350

T = TypeVar("T")
MODULES = sorted(BENCH.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def of_all(told: Callable[[Path], T]) -> dict[str, T]:
    """What is told of each module, mostly what is wrong with it, where there is anything."""
    found = {str(path.relative_to(ROOT)): told(path) for path in MODULES}
    return {name: what for name, what in found.items() if what}


def room(path: Path) -> str:
    """ "facts" for bench/facts/host.py; "records" or "cli" for the modules at the top."""
    first = path.relative_to(BENCH).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module named by an import statement, wherever it stands, with its line."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write bench.…"
            assert node.module is not None
            yield node.module, node.lineno
            for alias in node.names:  # `from bench import lab` names a room too
                yield f"{node.module}.{alias.name}", node.lineno


def imported_rooms(path: Path) -> Iterator[tuple[str, int]]:
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "bench" and len(parts) > 1:
            yield parts[1], line


def test_every_room_has_its_place_in_the_flow() -> None:
    rooms = {room(path) for path in MODULES} - {"__init__"}
    assert rooms <= {*FLOW, *ENTRY_POINTS}


def allowed(here: str) -> set[str]:
    """The rooms that modules of this room may import from."""
    if here == "__init__":
        return set()
    if here in ENTRY_POINTS:
        return {*FLOW, "cli"} if here == "__main__" else set(FLOW)
    return set(FLOW[: FLOW.index(here) + 1])


def test_imports_flow_from_left_to_right() -> None:
    assert not of_all(
        lambda path: [
            f"line {line}: {name}"
            for name, line in imported_rooms(path)
            if name not in allowed(room(path))
        ]
    )


def test_only_measure_imports_torch() -> None:
    assert not of_all(
        lambda path: [
            f"line {line}"
            for name, line in imports(path)
            if name.split(".")[0] == "torch" and room(path) != "measure"
        ]
    )


def test_torch_is_not_pulled_in_by_any_room_but_measure() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if room(path) not in ("measure", "sweep", "__main__")
    ]
    code = "import importlib, sys\n"
    code += "".join(f"importlib.import_module({name!r})\n" for name in modules)
    code += "assert 'torch' not in sys.modules, 'torch was imported'\n"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr


def test_no_module_name_shadows_the_standard_library() -> None:
    of_folders = ("__init__.py", "__main__.py")
    names = {p.relative_to(BENCH).parent.name if p.name in of_folders else p.stem for p in MODULES}
    assert not names & sys.stdlib_module_names


def test_no_room_shadows_a_package_that_we_use() -> None:
    # `torchrun bench/sweep.py` puts bench/ first on sys.path, before any package.
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {"torch", "numpy", "scipy", "rich", "typer", "yaml", "jinja2", "psutil", "netifaces"}
    wanted |= {text.split(">")[0].lower() for text in metadata["project"]["dependencies"]}
    assert not wanted & {path.stem for path in BENCH.iterdir()}


def test_modules_are_named_by_a_noun() -> None:
    assert not of_all(lambda path: VAGUE & set(path.stem.split("_")))


def test_modules_are_short_enough_to_read_else_look_for_the_second_noun() -> None:
    lengths = of_all(lambda path: len(path.read_text().splitlines()))
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE}


def test_every_module_says_what_it_is_for() -> None:
    assert not of_all(lambda path: ast.get_docstring(tree(path)) is None)


def unreasoned(path: Path) -> list[int]:
    """Lines that catch everything, pass nothing on and give no reason."""
    found = []
    lines = path.read_text().splitlines()
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
            continue  # cleans up and passes the error on
        names = [n.id for n in ast.walk(node.type or ast.Tuple()) if isinstance(n, ast.Name)]
        if node.type is None or {"Exception", "BaseException"} & set(names):
            around = lines[max(node.lineno - 3, 0) : node.lineno + 2]
            if not any("#" in line for line in around):
                found.append(node.lineno)
    return found


def test_a_catch_all_gives_its_reason() -> None:
    assert not of_all(unreasoned)


# torch writes its Flight Recorder dumps as pickles. One module reads them, with an unpickler that
# resolves nothing, after a look at every opcode.
PICKLES = ("bench/formats/bare_pickle.py",)


def test_no_pickle() -> None:
    wanted = of_all(
        lambda path: (
            {name.split(".")[0] for name, _ in imports(path)} & {"pickle", "shelve", "marshal"}
        )
    )
    assert set(wanted) == set(PICKLES)


def test_no_shell_strings_but_argument_lists() -> None:
    assert not of_all(
        lambda path: [
            node.value.lineno
            for node in ast.walk(tree(path))
            if isinstance(node, ast.keyword)
            and node.arg == "shell"
            and isinstance(node.value, ast.Constant)
            and node.value.value is True
        ]
    )


def test_all_rooms_are_packed() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = set(metadata["tool"]["setuptools"]["packages"])
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in BENCH.rglob("__init__.py")}
    assert packed == found | {"bench.configs"}


def test_every_test_room_mirrors_a_room() -> None:
    rooms = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    rooms -= {"__pycache__", "data", "performance"}
    assert rooms <= set(FLOW)


WALL_CLOCK_MODULES = {
    "bench/commands/baseline.py",  # how old a baseline is
    "bench/report/history/baselines.py",  # when it was set
    "bench/sweep.py",  # the run's name
    "bench/lab/run.py",  # likewise
    "bench/measure/conductor.py",  # when a session started
    "bench/measure/echo.py",  # two hosts' clocks against each other
    "bench/measure/exchange.py",  # likewise
    "bench/report/journal.py",  # when the run started
}


def test_no_wait_and_no_duration_rests_on_a_clock_that_can_be_stepped() -> None:
    """NTP or an operator may step the wall clock in the middle of a sweep: time.time, datetime.now
    and the like only stamp records; deadlines and durations use monotonic clocks."""
    wall = re.compile(r"\btime\.(time|time_ns|localtime|ctime)\(|\bdatetime\.(now|utcnow|today)\(")
    users = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "bench").rglob("*.py")
        if wall.search(path.read_text())
    }
    assert users <= WALL_CLOCK_MODULES, users - WALL_CLOCK_MODULES
