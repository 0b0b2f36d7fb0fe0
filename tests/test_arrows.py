"""The imports of gate/ and sandbox/, held against the layout: arrows point one way, and the middle is pure.

An import counts wherever it stands: inside a function or under TYPE_CHECKING it is knowledge all the same.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Lowest first. A part of gate/ (a module, or a folder with all in it) imports from its own layer and those below.
LAYERS = (
    {"errors", "model", "values"},
    {"compare", "document", "money", "outline", "places", "records", "scalars", "stats"},
    {"benchmarks", "contradictions", "examples", "extract", "lock", "suite", "suiteform", "wire"},
    {
        "attacks",
        "faithfulness",
        "history",
        "integrity",
        "mutation",
        "outcomes",
        "pools",
        "rules",
        "strata",
        "strength",
        "summary",
        "tables",
        "taskpool",
    },
    {"seams"},
    {"backends", "engine", "ledger", "preflight", "replay", "resources", "version", "workflow"},
    {"report", "verify"},
    {"cli"},
    {"__init__", "__main__"},
)
PURE = LAYERS[0] | LAYERS[1] | LAYERS[2] | LAYERS[3]
STRANGERS = ("engine", "backends")  # only the command line knows both

THIRD_PARTIES_OF_PURE = {"pydantic", "pydantic_core", "scipy", "yaml"}
EFFECTS = {
    *("asyncio", "http", "multiprocessing", "signal", "socket", "ssl", "subprocess", "threading", "urllib"),
    *("os", "pathlib", "shutil", "sqlite3", "tempfile"),
    *("datetime", "random", "secrets", "time"),
}

# Modules without a test file of their own, each with the reason. A package's __init__.py names and holds nothing.
BY_COMMAND = "tests/test_cli.py runs it as a user does"
UNTESTED: dict[str, str] = {
    "gate/__main__.py": "one line that calls the command",
    "gate/backends/boxes.py": "tests/test_container.py has it, tests/test_engine_faults.py its faults",
    "gate/resources.py": "tests/test_image.py has it, by its first user",
    "gate/backends/scripted.py": "tests/test_engine.py is its use",
    **dict.fromkeys(
        (f"gate/cli/{name}.py" for name in ("app", "check", "demo", "doctor", "run", "schema", "try_one")),
        BY_COMMAND,
    ),
    **dict.fromkeys(
        (f"gate/cli/{name}.py" for name in ("dry_run", "show")), "tests/test_cli_run.py runs it as a user does"
    ),
    **dict.fromkeys(
        (f"gate/cli/{name}.py" for name in ("provenance", "replay_text", "replayed")),
        "tests/test_cli_replay.py runs it as a user does",
    ),
    "gate/cli/attack_record.py": "tests/test_attack.py and tests/test_experiments.py have it",
    "gate/cli/recorded.py": "tests/test_report_formats.py and tests/test_verify_report.py have it",
    "gate/cli/report.py": "tests/test_verify.py and tests/test_cli_run.py have it",
    "gate/cli/derive.py": "tests/test_verify.py and tests/test_cli_run.py have it",
    "gate/cli/clean.py": "tests/test_leftovers.py has it, with an engine",
    "gate/seams.py": "Protocols alone: what keeps them is tested where it stands",
}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, and the line that imports it."""

    target: str
    line: int


@dataclass(frozen=True, slots=True)
class Module:
    """One file, by its path from the root and its name; `imports` has the names in full."""

    path: str
    name: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def part(self) -> str:
        """Which part of gate/ it belongs to, as LAYERS calls it."""
        return part_of(self.name)


def part_of(name: str) -> str:
    """`gate.backends.cell` is of `backends`; `gate` itself is `__init__`."""
    return name.split(".")[1] if "." in name else "__init__"


def is_ours(target: str) -> bool:
    """Whether an imported name is in gate/."""
    return target.split(".")[0] == "gate"


def read_modules(root: Path) -> list[Module]:
    """Every module of gate/ below a root."""
    paths = {module_name(path.relative_to(root)): path for path in sorted((root / "gate").rglob("*.py"))}
    return [read_module(root, path, name, set(paths)) for name, path in paths.items()]


def module_name(path: Path) -> str:
    """`gate/cli/__init__.py` is `gate.cli`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def read_module(root: Path, path: Path, name: str, known: set[str]) -> Module:
    """One file with its imports; `known` tells a module that is imported from a name in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return Module(path.relative_to(root).as_posix(), name, tree, tuple(imports(tree, package, known)))


def imports(tree: ast.Module, package: str, known: set[str]) -> Iterator[Import]:
    """The imports of a file, relative ones spelt out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield Import(inner if inner in known else base, node.lineno)


def layer_of(part: str) -> int | None:
    """The layer that a part stands in, from 0; None for one that has no place yet."""
    return next((index for index, layer in enumerate(LAYERS) if part in layer), None)


def unplaced(modules: list[Module]) -> Iterator[str]:
    """Modules that no layer names."""
    for module in modules:
        if layer_of(module.part) is None:
            yield f"{module.path} has no layer: give '{module.part}' its place in LAYERS"


def upward(modules: list[Module]) -> Iterator[str]:
    """Imports that point from a lower layer to a higher one."""
    for module in modules:
        for found in module.imports:
            if is_ours(found.target):
                own, other = layer_of(module.part), layer_of(part_of(found.target))
                if own is not None and other is not None and own < other:
                    yield (
                        f"{module.path}:{found.line} imports {found.target}, but arrows point one way:"
                        f" '{module.part}' stands below '{part_of(found.target)}'"
                    )


def between_strangers(modules: list[Module]) -> Iterator[str]:
    """Imports between the engine and the backends, either way."""
    for module in modules:
        for found in module.imports:
            other = part_of(found.target) if is_ours(found.target) else None
            if {module.part, other} == set(STRANGERS):
                yield f"{module.path}:{found.line} imports {found.target}, but only cli knows both engine and backends"


def impure(modules: list[Module]) -> Iterator[str]:
    """Effects and third parties in the modules up to the rules."""
    for module in modules:
        if module.part not in PURE:
            continue
        for found in module.imports:
            top = found.target.split(".")[0]
            foreign = top not in sys.stdlib_module_names and top not in THIRD_PARTIES_OF_PURE and not is_ours(top)
            if top in EFFECTS or foreign:
                yield f"{module.path}:{found.line} imports {found.target}, but '{module.part}' is pure"
        for line in effects_in_code(module.tree):
            yield f"{module.path}:{line} opens a file or waits, but '{module.part}' is pure"


def effects_in_code(tree: ast.Module) -> Iterator[int]:
    """Lines with `open(…)`, `io.open(…)` or an async function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "io.open"):
            yield node.lineno


def beside_the_candidate(root: Path) -> Iterator[str]:
    """Imports beyond the standard library in what runs inside the container; files there may import each other."""
    paths = [root / "gate" / "values.py", *sorted((root / "sandbox").glob("*.py"))]
    neighbours = {path.stem for path in paths}
    for path in filter(Path.exists, paths):
        module = read_module(root, path, path.stem, set())
        for found in module.imports:
            top = found.target.split(".")[0]
            near = top in neighbours and path.parent.name == "sandbox"
            if top not in sys.stdlib_module_names and not near:
                yield f"{module.path}:{found.line} imports {found.target}, but the container has the stdlib alone"


def cycles(modules: list[Module]) -> Iterator[str]:
    """The first circle of imports, if there is one."""
    graph = {module.name: {found.target for found in module.imports if is_ours(found.target)} for module in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        yield f"modules import each other in a circle: {' <- '.join(exc.args[1])}"


def untested(root: Path, modules: list[Module]) -> Iterator[str]:
    """Modules without a test file, tests/test_<module>.py or tests/test_<package>_<module>.py."""
    for module in modules:
        names = module.name.split(".")[1:]
        if module.path in UNTESTED or module.path.endswith("__init__.py"):
            continue
        short, full = f"tests/test_{names[-1]}.py", f"tests/test_{'_'.join(names)}.py"
        if not (root / short).exists() and not (root / full).exists():
            yield f"{module.path} has no test: write {short}"


RULES: dict[str, Callable[[Path], Iterator[str]]] = {
    "every module has its layer": lambda root: unplaced(read_modules(root)),
    "arrows point one way": lambda root: upward(read_modules(root)),
    "engine and backends never meet": lambda root: between_strangers(read_modules(root)),
    "the middle is pure": lambda root: impure(read_modules(root)),
    "the container has the standard library": beside_the_candidate,
    "no circles": lambda root: cycles(read_modules(root)),
    "every module has its test": lambda root: untested(root, read_modules(root)),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_layout_holds(rule: str) -> None:
    """No import of the project breaks a rule of the layout."""
    broken = list(RULES[rule](ROOT))
    assert broken == [], "\n".join(broken)


def test_the_project_is_read() -> None:
    """The rules look at real modules with real imports, not at an empty folder."""
    found = {module.name: {each.target for each in module.imports} for module in read_modules(ROOT)}
    assert "gate.model" in found["gate.rules"]
    assert {"gate.errors", "gate.model", "gate.values"} <= set(found)


def test_each_exemption_is_needed() -> None:
    """A module that is exempt from having a test exists, and has none."""
    have = [path for path in UNTESTED if (ROOT / "tests" / f"test_{Path(path).name}").exists()]
    gone = [path for path in UNTESTED if not (ROOT / path).exists()]
    assert have + gone == []


# What breaks which rule: the rule, the file, its text, and what the sentence must name.
BREAKS = [
    ("every module has its layer", "gate/shelf.py", "", "gate/shelf.py has no layer"),
    ("arrows point one way", "gate/compare.py", "\nfrom gate import engine", "gate/compare.py:2 imports gate.engine"),
    ("arrows point one way", "gate/model.py", "import gate.rules", "'model' stands below 'rules'"),
    ("arrows point one way", "gate/rules.py", "from .cli import main", "imports gate.cli"),
    ("arrows point one way", "gate/rules.py", "from gate import grade", "'rules' stands below '__init__'"),
    ("arrows point one way", "gate/rules.py", "def f():\n    import gate.seams", "gate/rules.py:2"),
    ("arrows point one way", "gate/backends/cell.py", "from ..report import html", "imports gate.report"),
    ("engine and backends never meet", "gate/engine.py", "from gate.backends import cell", "only cli knows both"),
    ("engine and backends never meet", "gate/backends/cell.py", "import gate.engine", "only cli knows both"),
    ("the middle is pure", "gate/rules.py", "from os import path", "gate/rules.py:1 imports os"),
    ("the middle is pure", "gate/stats.py", "import docker.errors", "'stats' is pure"),
    ("the middle is pure", "gate/suite.py", "import numpy", "imports numpy"),
    ("the middle is pure", "gate/suite.py", "open('a')", "gate/suite.py:1 opens a file"),
    ("the middle is pure", "gate/rules.py", "async def f(): ...", "gate/rules.py:1"),
    ("the container has the standard library", "gate/values.py", "import gate.model", "imports gate.model"),
    ("the container has the standard library", "gate/values.py", "import runner", "imports runner"),
    ("the container has the standard library", "sandbox/runner.py", "import yaml", "imports yaml"),
    ("no circles", "gate/compare.py", "from gate import suite", "gate.compare"),
    ("every module has its test", "gate/backends/odd.py", "", "write tests/test_odd.py"),
]


@pytest.mark.parametrize(("rule", "path", "text", "names"), BREAKS)
def test_a_wrong_import_is_found(tmp_path: Path, rule: str, path: str, text: str, names: str) -> None:
    """A file that breaks one rule is named in one sentence by that rule."""
    lay_out(tmp_path)
    assert [list(check(tmp_path)) for check in RULES.values()] == [[]] * len(RULES)
    (tmp_path / path).write_text(text, encoding="utf-8")
    (sentence,) = RULES[rule](tmp_path)
    assert names in sentence


def lay_out(root: Path) -> None:
    """A small tree in which every rule holds."""
    files = {
        "gate/__init__.py": "from gate.rules import grade",
        "gate/values.py": "import json",
        "gate/model.py": "from __future__ import annotations",
        "gate/compare.py": "from gate.model import Json",
        "gate/suite.py": "import yaml\nfrom gate import compare, values",
        "gate/stats.py": "from scipy import stats",
        "gate/rules.py": "from gate.compare import equal\n\ndef grade(): ...",
        "gate/seams.py": "from . import model",
        "gate/engine.py": "import anyio\nfrom gate.seams import Sandbox",
        "gate/backends/__init__.py": "",
        "gate/backends/cell.py": "import docker\nfrom ..seams import Sandbox\nfrom . import image",
        "gate/backends/image.py": "import os",
        "gate/report/__init__.py": "",
        "gate/cli/__init__.py": "from gate import engine\nfrom gate.backends import cell",
        "sandbox/runner.py": "import sys\nimport values",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (root / "tests").mkdir(exist_ok=True)
        (root / "tests" / f"test_{path.stem}.py").touch()
