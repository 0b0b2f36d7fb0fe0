"""Runs in the sandbox like any candidate and reads the asserts of a Python file as data.

`gate import asserts` sends the file's text as an argument: it is parsed here, never on the
host, and nothing of it runs. What comes back is plain data: tests in the words of a suite,
and what is no test, with line and reason. A value is taken where it is written out: a
literal, a sum of literals, a name that stands for one.

Theory of operation. The file is walked in the order in which it would run: first the
module, then its functions, a loop's body once for each value. What might make an assert
mean something else than the same call of the same function leaves it out: a name that is
bound anew, a value that a call may have changed, a fixture, a mark, a patch, a statement
that may end the test before.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MAX_TESTS = 20_000
MAX_POWER_BITS = 1 << 20

PROJECTIONS = {"set", "tuple", "list", "int", "bool"}
MAKERS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in (set, frozenset, tuple, list, dict, float, int, complex, range)},
    "sorted": sorted,
}
CONSTANTS = {"math.inf": math.inf, "math.nan": math.nan, "math.pi": math.pi, "math.e": math.e, "math.tau": math.tau}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: lambda value: -value,
    ast.UAdd: lambda value: +value,
    ast.Invert: lambda value: ~value,
    ast.Not: lambda value: not value,
}
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda first, second: first + second,
    ast.Sub: lambda first, second: first - second,
    ast.Mult: lambda first, second: first * second,
    ast.Div: lambda first, second: first / second,
    ast.FloorDiv: lambda first, second: first // second,
    ast.Mod: lambda first, second: first % second,
    ast.Pow: lambda first, second: _power(first, second),
}
PLAIN = {type(None), bool, int, float, complex, str, bytes}
WORDS = {
    ast.For: "a loop over something that is not written out",
    ast.While: "a loop",
    ast.If: "a condition",
    ast.Try: "a try statement",
    ast.With: "a with statement other than pytest.raises",
    ast.AsyncFunctionDef: "an async function",
    ast.Delete: "a del statement",
    ast.AugAssign: "a change of a variable",
}


STOPS = {"pytest.skip", "pytest.fail", "pytest.xfail", "pytest.exit", "pytest.importorskip"}
STOPS |= {"sys.exit", "os._exit", "os.abort", "exit", "quit"}
SETUPS = {"setUp", "setUpClass", "setup", "setup_method", "setup_class", "asyncSetUp"}
SETUPS |= {"setUpModule", "setup_module", "setup_function"}
BASES = {"object", "TestCase", "unittest.TestCase"}
ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class NotData(Exception):
    """This is no test that a suite can hold; the text says why."""


class Called(NamedTuple):
    """A call of the function under test, with its arguments as values; `full` is its name with its module's."""

    entry: str
    full: str
    args: list[Any]
    kwargs: dict[str, Any]


class Known(NamedTuple):
    """A value that is written out."""

    value: Any


Scope = dict[str, Called | Known]


def read_asserts(text: str, entry_point: str | None = None) -> dict[str, Any]:
    """The tests of a file and the rest of it.

    Args:
        text: The file's text.
        entry_point: The function under test, where it is known; a built-in's name counts
            as one only then, or where the file binds it.

    Returns:
        `tests`: `{line, entry, test}` each, in the file's order; `rest`: `{line, why}` each.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        return {"tests": [], "rest": [{"line": getattr(exc, "lineno", None) or 1, "why": f"is no Python: {exc}"}]}
    reader = Reader(tree, entry_point)
    reader.read_module(tree)
    reader.leave_namesakes()
    rest = sorted(reader.rest, key=lambda entry: entry["line"])
    tests = sorted(reader.tests, key=lambda entry: entry["line"])
    return {"tests": [{key: each[key] for key in ("line", "entry", "test")} for each in tests], "rest": rest}


class Reader:
    """Walks one file; what it finds stands in `tests` and `rest`."""

    def __init__(self, tree: ast.Module, entry_point: str | None) -> None:
        self.entry_point = entry_point
        self.tests: list[dict[str, Any]] = []
        self.rest: list[dict[str, Any]] = []
        self.aliases: dict[str, str] = {}
        self.bound = {entry_point} | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.anywhere = set(_bound_names(tree)) | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.shadowed = _bound_anew(tree)  # names that are not, or not always, the function that they seem to be
        self.spent: dict[int, Known] = {}  # values that a call may have changed, by their place
        self.patched: str | None = None

    def read_module(self, tree: ast.Module) -> None:
        """Every statement of a file, in the order in which it runs: functions after all of the module."""
        scope: Scope = {}
        functions = (ast.FunctionDef, ast.ClassDef)
        last = {node.name: node for node in tree.body if isinstance(node, functions)}
        self.read_statements(
            [each for each in tree.body if not isinstance(each, functions) and not _is_check(each)], scope
        )
        stored = list(_bound_names(tree))
        settled = {name: found for name, found in scope.items() if stored.count(name) == 1}
        altered = self.altered(tree.body)
        for statement in tree.body:
            if not isinstance(statement, functions):
                continue
            if last[statement.name] is not statement:
                self.leave(statement, f"defines {statement.name}, which is defined again below")
            elif isinstance(statement, ast.ClassDef):
                self.read_class(statement, settled, altered)
            else:
                self.read_function(statement, settled, altered, _checked(tree))

    def altered(self, body: Sequence[ast.stmt]) -> str | None:
        """What marks or prepares every test of a module or a class, in words; None where nothing does."""
        for statement in body:
            names = set(_bound_names(statement)) if isinstance(statement, ast.Assign | ast.AnnAssign) else set()
            for name in names & {"pytestmark", "__test__"}:
                return f"stands under {name}"
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                if statement.name in SETUPS:
                    return f"runs after {statement.name}, which may change what is tested"
                if any("autouse" in ast.unparse(decorator) for decorator in statement.decorator_list):
                    return f"runs under the fixture {statement.name}, which may change what is tested"
        return None

    def read_class(self, found: ast.ClassDef, scope: Scope, altered: str | None) -> None:
        """The test methods of a test class."""
        bases = [self.dotted(base) or ast.unparse(base) for base in found.bases]
        if not found.name.startswith("Test") and not set(bases) & (BASES - {"object"}):
            self.leave(found, f"is the class {found.name}, no assert")
        elif found.decorator_list:
            self.leave(found, f"is decorated by {ast.unparse(found.decorator_list[0])[:60]}")
        elif found.keywords or not set(bases) <= BASES:
            self.leave(found, f"is a class on top of {', '.join(bases)[:60]}, which may change what is tested")
        else:
            self.read_methods(found, scope, altered or self.altered(found.body))

    def read_methods(self, found: ast.ClassDef, scope: Scope, altered: str | None) -> None:
        last = {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}
        if "__init__" in last or "__new__" in last:
            altered = "stands in a class with a constructor, which pytest does not collect"
        inner = {name: known for name, known in scope.items() if name not in set(_bound_names(found))}
        for statement in found.body:
            if not isinstance(statement, ast.FunctionDef):
                if not _says_nothing(statement):
                    self.leave(statement, f"is {_kind(statement)} in a class")
            elif last[statement.name] is not statement:
                self.leave(statement, f"defines {statement.name}, which is defined again below")
            else:
                self.read_function(statement, inner, altered, {}, bound=1)

    def read_function(
        self, found: ast.FunctionDef, scope: Scope, altered: str | None, checked: Mapping[str, set[str]], bound: int = 0
    ) -> None:
        """One function: the asserts of a test, or of a `check(candidate)`."""
        parameters = _parameters(found.args)
        if found.name == "check" and len(parameters) == 1 and any(isinstance(n, ast.Assert) for n in ast.walk(found)):
            self.read_check(found, parameters[0], scope, checked.get(found.name, set()))
        elif not found.name.startswith("test"):
            self.leave(found, f"defines {found.name}: no test")
        elif altered is not None:
            self.leave(found, altered)
        else:
            self.read_test(found, parameters[bound:], scope)

    def read_check(self, found: ast.FunctionDef, parameter: str, scope: Scope, checked: set[str]) -> None:
        targets = checked or ({self.entry_point} if self.entry_point is not None else set())
        if not targets:
            self.leave(found, "checks a function that the file does not name: give --entry-point")
        elif len(targets) > 1:
            self.leave(found, f"checks several functions: {', '.join(sorted(map(str, targets)))}")
        else:
            (target,) = targets
            self.read_body(found, scope, {parameter: str(target)}, {})

    def read_test(self, found: ast.FunctionDef, parameters: Sequence[str], scope: Scope) -> None:
        """A pytest function, once for each set of its parameters."""
        try:
            sets = list(self.parameter_sets(found.decorator_list))
        except NotData as exc:
            self.leave(found, str(exc))
            return
        wanted = set(parameters) - set(_defaulted(found.args))
        for values in sets:
            fixtures = sorted(wanted - values.keys())
            if fixtures:
                self.leave(found, f"takes {fixtures[0]}, a fixture, which may change what is tested")
                return
            self.read_body(found, scope, {}, values)

    def read_body(
        self, found: ast.FunctionDef, scope: Scope, aliases: Mapping[str, str], values: Mapping[str, Called | Known]
    ) -> None:
        """The statements of a function."""
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(found)):
            self.leave(found, "is a generator, which no test runs")
            return
        outer = dict(self.aliases), self.shadowed
        own = (set(_bound_names(*found.body)) - set(_import_names(found.body))) | set(_parameters(found.args))
        self.aliases.update(aliases)
        self.shadowed = (self.shadowed | own) - aliases.keys()
        inner = {name: known for name, known in scope.items() if name not in own} | dict(values)
        self.read_statements(found.body, inner)
        self.aliases, self.shadowed = outer

    def read_statements(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Statements one after another; after one that ends or may end what runs, the rest is left out."""
        why: str | None = None
        for statement in body:
            if why is None and not isinstance(statement, ast.Return):
                self.read_statement(statement, scope)
            elif not _says_nothing(statement) and not isinstance(statement, ast.Return):
                self.leave(statement, why or "")
            why = why or self.end_of(statement)

    def end_of(self, statement: ast.stmt) -> str | None:
        """Why what follows a statement may not be reached."""
        if isinstance(statement, ENDS):
            return f"stands after a {type(statement).__name__.lower()} and is never reached"
        nested = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.With)
        inside = () if nested else ast.walk(statement)
        for node in inside:
            stops = isinstance(node, ast.Call) and (
                self.dotted(node.func) in STOPS
                or (isinstance(node.func, ast.Attribute) and node.func.attr == "skipTest")
            )
            if stops or isinstance(node, ast.Return | ast.Raise) or _is_false_assert(node):
                return "stands after a statement that may end the test"
        return None

    def read_statement(self, statement: ast.stmt, scope: Scope) -> None:
        """One statement: a test, a name for a value, or something for the rest."""
        try:
            if self.patched is not None and isinstance(statement, ast.Assert | ast.With):
                raise NotData(self.patched)
            self.take(statement, scope)
        except NotData as exc:
            self.leave(statement, str(exc))
            self.forget(statement, scope)
        except RecursionError:
            self.leave(statement, "is nested too deep")

    def forget(self, statement: ast.stmt, scope: Scope) -> None:
        """What a statement that is not understood may have changed is known no more."""
        for name in _names([statement]):
            scope.pop(name.id, None)
        self.shadowed = self.shadowed | set(_bound_names(statement))
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                base = ast.unparse(node).split(".")[0].split("[")[0]
                if base in self.aliases or base in self.bound:
                    self.patched = f"stands after a change of {base}, which may change what is tested"

    def leave_namesakes(self) -> None:
        """Functions of one name from several modules are not one function: none of them is taken."""
        full: dict[str, set[str]] = {}
        for each in self.tests:
            full.setdefault(each["entry"], set()).add(each["full"])
        for each in self.tests:
            if len(full[each["entry"]]) > 1:
                named = ", ".join(sorted(full[each["entry"]]))
                self.rest.append({"line": each["line"], "why": f"tests {each['full']}, one of several: {named}"})
        self.tests = [each for each in self.tests if len(full[each["entry"]]) == 1]

    def take(self, statement: ast.stmt, scope: Scope) -> None:
        """As `read_statement`.

        Raises:
            NotData: It is for the rest.
        """
        if isinstance(statement, ast.Assert):
            for called, test in list(self.tests_of(statement.test, scope)):
                self.keep(statement, called, test)
        elif isinstance(statement, ast.With):
            self.keep(statement, *self.raises_in(statement, scope))
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            self.aliases.update(_imported(statement))
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            self.bind(statement, scope)
        elif isinstance(statement, ast.For):
            self.loop(statement, scope)
        elif isinstance(statement, ast.Expr) and self.is_raises(statement.value):
            self.keep(statement, *self.raises_by_call(statement.value, scope))
        elif not _says_nothing(statement):
            raise NotData(f"is {_kind(statement)}, no assert")

    def keep(self, node: ast.stmt, called: Called, test: dict[str, Any]) -> None:
        """One more test."""
        if len(self.tests) >= MAX_TESTS:
            raise NotData(f"is beyond the first {MAX_TESTS} tests")
        for part in ("args", "kwargs", "expected", "any_of"):
            if part in test:
                _check_plain(test[part])
        self.tests.append({"line": node.lineno, "entry": called.entry, "full": called.full, "test": test})

    def leave(self, node: ast.stmt, why: str) -> None:
        """One more line of the rest; a loop or a parametrized test says it once."""
        entry = {"line": node.lineno, "why": why}
        if entry not in self.rest:
            self.rest.append(entry)

    # Names and loops

    def bind(self, statement: ast.Assign | ast.AnnAssign, scope: Scope) -> None:
        """`name = literal` or `name = f(literals)`."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or statement.value is None:
            raise NotData("binds something else than one name")
        name, value = targets[0].id, statement.value
        if self.is_called(value, scope):
            scope[name] = self.called(value, scope)
            return
        scope[name] = Known(self.value(value, scope))

    def loop(self, statement: ast.For, scope: Scope) -> None:
        """A loop over values that are written out: its body, once for each of them."""
        values = self.value(statement.iter, scope)
        if statement.orelse or not isinstance(values, list | tuple | range) or len(values) > MAX_TESTS:
            raise NotData(f"is {WORDS[ast.For]}")
        if _leaves_early(statement.body):
            raise NotData("is a loop that may be left early")
        for value in values:
            scope.update(_unpacked(statement.target, value))
            self.read_statements(statement.body, scope)

    def parameter_sets(self, decorators: Sequence[ast.expr]) -> Iterator[Scope]:
        """What `pytest.mark.parametrize` binds, set by set."""
        sets = [list(self.parametrized(decorator)) for decorator in decorators]
        for chosen in itertools.product(*sets):
            yield {name: known for values in chosen for name, known in values.items()}

    def parametrized(self, decorator: ast.expr) -> Iterator[Scope]:
        if not isinstance(decorator, ast.Call) or self.dotted(decorator.func) != "pytest.mark.parametrize":
            raise NotData(f"is decorated by {ast.unparse(decorator)[:60]}")
        if len(decorator.args) != 2 or any(keyword.arg != "ids" for keyword in decorator.keywords):
            raise NotData("is parametrized in a way that is not written out")
        names = self.value(decorator.args[0], {})
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = decorator.args[1]
        if not isinstance(rows, ast.List | ast.Tuple):
            raise NotData("is parametrized by something that is not written out")
        for row in rows.elts:
            values = self.parameter_row(row)
            values = [values] if len(names) == 1 and not _is_param(row) else list(values)
            if len(values) != len(names):
                raise NotData(f"has {len(values)} values for {len(names)} parameters")
            yield {name: Known(value) for name, value in zip(names, values, strict=True)}

    def parameter_row(self, row: ast.expr) -> Any:
        if isinstance(row, ast.Call) and _is_param(row):
            if any(keyword.arg != "id" for keyword in row.keywords):
                raise NotData("has a parameter with marks")
            return [self.value(value, {}) for value in row.args]
        return self.value(row, {})

    # Tests

    def tests_of(self, test: ast.expr, scope: Scope) -> Iterator[tuple[Called, dict[str, Any]]]:
        """What one assert says: one test, or several joined by `and`."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for part in test.values:
                yield from self.tests_of(part, scope)
        elif isinstance(test, ast.Compare):
            if len(test.ops) != 1:
                raise NotData("is a chain of comparisons: write one for each assert")
            yield self.comparison(test.left, test.ops[0], test.comparators[0], scope)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield _test(self.called(test.operand, scope), expected=False, project="bool")
        elif isinstance(test, ast.Call) and self.dotted(test.func) == "math.isclose":
            yield self.isclose(test, scope)
        else:
            yield _test(self.called(test, scope), expected=True, project="bool")

    def comparison(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, scope: Scope
    ) -> tuple[Called, dict[str, Any]]:
        """`f(x) == y` and its relatives."""
        if isinstance(operator, ast.Eq):
            return self.equality(left, right, scope)
        if isinstance(operator, ast.Is | ast.IsNot):
            return self.identity(left, isinstance(operator, ast.Is), right, scope)
        if isinstance(operator, ast.In):
            return self.membership(left, right, scope)
        if isinstance(operator, ast.Lt | ast.LtE):
            return self.distance(left, right, scope)
        raise NotData(f"{_sign(operator)} says what must not come back, or leaves open what must")

    def equality(self, left: ast.expr, right: ast.expr, scope: Scope) -> tuple[Called, dict[str, Any]]:
        if not self.is_target(left, scope) and self.is_target(right, scope):
            left, right = right, left
        if isinstance(right, ast.Call) and self.dotted(right.func) == "pytest.approx":
            return self.approx(left, right, scope)
        inner = left.args[0] if isinstance(left, ast.Call) and len(left.args) in (1, 2) else None
        name = self.dotted(left.func) if isinstance(left, ast.Call) else None
        if inner is None or not self.is_called(inner, scope) or name in self.anywhere:
            return _test(self.called(left, scope), expected=self.value(right, scope))
        return self.projected(left, name, inner, self.value(right, scope), scope)

    def projected(
        self, left: ast.expr, name: str | None, inner: ast.expr, expected: Any, scope: Scope
    ) -> tuple[Called, dict[str, Any]]:
        """`p(f(x)) == y` for the functions p that a suite can name."""
        assert isinstance(left, ast.Call)
        if name in PROJECTIONS and len(left.args) == 1 and not left.keywords:
            return _test(self.called(inner, scope), expected=expected, project=name)
        if name == "round" and len(left.args) == 2 and not left.keywords:
            digits = self.value(left.args[1], scope)
            if type(digits) is int and abs(digits) <= 100:
                return _test(self.called(inner, scope), expected=expected, project={"round": digits})
        if name == "sorted" and len(left.args) == 1 and not left.keywords and _sorts_as_multiset(expected):
            return _test(self.called(inner, scope), expected=expected, compare="unordered")
        raise NotData(f"compares {ast.unparse(left.func)[:60]}(…) of the result, which no suite can name")

    def identity(self, left: ast.expr, same: bool, right: ast.expr, scope: Scope) -> tuple[Called, dict[str, Any]]:
        expected = self.value(right, scope)
        if expected is None and not same:
            return _test(self.called(left, scope), expected=True, project="is_not_none")
        if not same or not (expected is None or isinstance(expected, bool)):
            raise NotData("asks for identity with something else than None, True or False")
        return _test(self.called(left, scope), expected=expected, compare="strict")

    def membership(self, left: ast.expr, right: ast.expr, scope: Scope) -> tuple[Called, dict[str, Any]]:
        answers = self.value(right, scope)
        if not isinstance(answers, list | tuple | set | frozenset) or not answers:
            raise NotData("`in` something else than a list, tuple or set of answers")
        ordered = list(answers) if isinstance(answers, list | tuple) else sorted(answers, key=repr)
        return _test(self.called(left, scope), any_of=ordered)

    def distance(self, left: ast.expr, right: ast.expr, scope: Scope) -> tuple[Called, dict[str, Any]]:
        """`abs(f(x) - y) < eps`."""
        if isinstance(left, ast.Call) and self.dotted(left.func) in ("abs", "math.fabs") and len(left.args) == 1:
            difference = left.args[0]
            if isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub):
                first, second = difference.left, difference.right
                if not self.is_called(first, scope):
                    first, second = second, first
                tolerance = {"rel": 0.0, "abs": _bound(self.value(right, scope))}
                expected = _as_floats(self.value(second, scope))
                return _test(self.called(first, scope), expected=expected, tolerance=tolerance)
        raise NotData("an inequality leaves open what must come back")

    def isclose(self, test: ast.Call, scope: Scope) -> tuple[Called, dict[str, Any]]:
        if len(test.args) != 2:
            raise NotData("math.isclose takes two numbers")
        first, second = test.args
        if not self.is_called(first, scope):
            first, second = second, first
        given = self.keywords(test, {"rel_tol", "abs_tol"}, scope)
        tolerance = {"rel": _bound(given.get("rel_tol", 1e-9)), "abs": _bound(given.get("abs_tol", 0.0))}
        expected = _as_floats(self.value(second, scope))
        return _test(self.called(first, scope), expected=expected, tolerance=tolerance)

    def approx(self, left: ast.expr, right: ast.Call, scope: Scope) -> tuple[Called, dict[str, Any]]:
        """pytest.approx: 1e-6 of what is expected, or 1e-12; with `abs` alone, that alone."""
        if len(right.args) != 1:
            raise NotData("pytest.approx with bounds that are not named")
        given = self.keywords(right, {"rel", "abs", "nan_ok"}, scope)
        rel, abs_ = given.get("rel"), given.get("abs")
        tolerance = {
            "rel": _bound(rel if rel is not None else 1e-6 if abs_ is None else 0.0),
            "abs": _bound(1e-12 if abs_ is None else abs_),
        }
        expected = _as_floats(self.value(right.args[0], scope))
        rest: dict[str, Any] = {"nan_ok": True} if given.get("nan_ok") is True else {}
        if isinstance(expected, list | tuple):
            rest["compare"] = "json"  # a list is close to a tuple there, too
        return _test(self.called(left, scope), expected=expected, tolerance=tolerance, **rest)

    def keywords(self, call: ast.Call, known: set[str], scope: Scope) -> dict[str, Any]:
        for keyword in call.keywords:
            if keyword.arg not in known:
                raise NotData(f"{keyword.arg or '**'} is no bound that a suite can name")
        return {str(keyword.arg): self.value(keyword.value, scope) for keyword in call.keywords}

    # Exceptions

    def is_raises(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.dotted(node.func) == "pytest.raises"

    def raises_in(self, statement: ast.With, scope: Scope) -> tuple[Called, dict[str, Any]]:
        """`with pytest.raises(E): f(x)`."""
        context = statement.items[0].context_expr
        if len(statement.items) != 1 or not isinstance(context, ast.Call) or not self.is_raises(context):
            raise NotData(f"is {WORDS[ast.With]}")
        if len(statement.body) != 1 or not isinstance(statement.body[0], ast.Expr | ast.Assign):
            raise NotData("pytest.raises around something else than one call")
        if context.keywords:
            raise NotData("pytest.raises that looks at more than the exception's class")
        if len(context.args) != 1:
            raise NotData("pytest.raises around a call, and with one")
        return _test(self.called(statement.body[0].value, scope), raises=self.exception(context.args[0]))

    def raises_by_call(self, node: ast.expr, scope: Scope) -> tuple[Called, dict[str, Any]]:
        """`pytest.raises(E, f, x)`."""
        assert isinstance(node, ast.Call)
        if len(node.args) < 2:
            raise NotData("pytest.raises without a call")
        call = ast.Call(func=node.args[1], args=node.args[2:], keywords=node.keywords)
        return _test(self.called(call, scope), raises=self.exception(node.args[0]))

    def exception(self, node: ast.expr) -> str:
        name = self.dotted(node)
        found = getattr(builtins, name, None) if name else None
        if name in self.anywhere or not isinstance(found, type) or not issubclass(found, BaseException):
            raise NotData(f"{ast.unparse(node)[:60]} is no built-in exception")
        return found.__name__

    # Calls and values

    def dotted(self, node: ast.expr) -> str | None:
        """A name in full, as the file's imports have it."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return None

    def entry(self, node: ast.expr) -> tuple[str, str]:
        """The function that is called, as a suite names it, and with its module.

        Raises:
            NotData: It is none that can be under test.
        """
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
            made = node.value
            base = self.dotted(made.func)
            if base is not None and not made.args and not made.keywords:
                self.refuse_shadowed(made.func)
                return f"{base.rpartition('.')[2]}.{node.attr}", f"{base}.{node.attr}"
        self.refuse_shadowed(node)
        name = self.dotted(node)
        if name is None:
            raise NotData(f"calls {ast.unparse(node)[:60]}, which is no function's name")
        module, _, last = name.rpartition(".")
        if module.split(".")[0] in ("math", "pytest", "numpy", "np"):
            raise NotData(f"calls {name}, which is no function under test")
        if hasattr(builtins, name) and not self.is_bound(node):
            raise NotData(f"calls {name}, a built-in: name it as the entry point if it is under test")
        if isinstance(node, ast.Attribute) and module == ast.unparse(node.value) and not self.is_imported(node.value):
            raise NotData(f"calls a method of {module}, which is not made in the same line")
        return last, name

    def refuse_shadowed(self, node: ast.expr) -> None:
        """Raise where a name is not surely the function that it seems to be."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.shadowed:
            raise NotData(f"calls {node.id}, which the file binds anew: what it is then is not written out")

    def is_bound(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and (node.id in self.bound or node.id in self.aliases)

    def is_imported(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.aliases

    def is_called(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a call of something that can be under test, or a name for one."""
        if isinstance(node, ast.Name):
            return isinstance(scope.get(node.id), Called)
        if not isinstance(node, ast.Call):
            return False
        try:
            self.entry(node.func)
        except NotData:
            return False
        return True

    def is_target(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is such a call, or something around one."""
        return any(self.is_called(part, scope) for part in ast.walk(node) if isinstance(part, ast.expr))

    def called(self, node: ast.expr, scope: Scope) -> Called:
        """The call that an expression is.

        Raises:
            NotData: It is none, or an argument is not written out.
        """
        if isinstance(node, ast.Name):
            found = scope.get(node.id)
            if isinstance(found, Called):
                return found
        if not isinstance(node, ast.Call):
            raise NotData(f"holds {ast.unparse(node)[:60]} against something, which is no call")
        entry, full = self.entry(node.func)
        args: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args += list(self.value(argument.value, scope))
            else:
                args.append(self.value(argument, scope))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotData("keyword arguments by ** are not written out")
            kwargs[keyword.arg] = self.value(keyword.value, scope)
        return Called(entry, full, args, kwargs)

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression that is written out.

        Raises:
            NotData: It is not.
        """
        try:
            return self.literal(node, scope)
        except (TypeError, ValueError, ArithmeticError, MemoryError) as exc:
            raise NotData(f"{ast.unparse(node)[:60]} has no value: {exc}") from None

    def literal(self, node: ast.expr, scope: Scope) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) in PLAIN:
            return node.value
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and not any(isinstance(e, ast.Starred) for e in node.elts):
            kind = {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)]
            return kind(self.literal(element, scope) for element in node.elts)
        if isinstance(node, ast.Dict):
            keys = [self.literal(key, scope) if key is not None else _no_merge() for key in node.keys]
            return dict(zip(keys, (self.literal(value, scope) for value in node.values), strict=True))
        if isinstance(node, ast.UnaryOp):
            return UNARY[type(node.op)](self.literal(node.operand, scope))
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return BINARY[type(node.op)](self.literal(node.left, scope), self.literal(node.right, scope))
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return self.named(node, scope)
        raise NotData(f"{ast.unparse(node)[:60]} is not written out")

    def named(self, node: ast.Name | ast.Attribute | ast.Call, scope: Scope) -> Any:
        """A name that stands for a value, a constant of math, or a container made of values."""
        if isinstance(node, ast.Name):
            found = scope.get(node.id)
            if isinstance(found, Known):
                return self.read_once(node.id, found)
        if not isinstance(node, ast.Call):
            name = self.dotted(node)
            if name in CONSTANTS:
                return CONSTANTS[name]
        elif (name := self.dotted(node.func)) in MAKERS and name not in self.anywhere and not node.keywords:
            return MAKERS[str(name)](*(self.literal(argument, scope) for argument in node.args))
        raise NotData(f"{ast.unparse(node)[:60]} is not written out")

    def read_once(self, name: str, found: Known) -> Any:
        """A known value; one that a call can change is good for one use."""
        if not _is_constant(found.value):
            if id(found.value) in self.spent:
                raise NotData(f"uses {name} again, a value that a call may have changed: write it out")
            self.spent[id(found.value)] = found
        return found.value


def _test(called: Called, **expectation: Any) -> tuple[Called, dict[str, Any]]:
    """A test in the words of a suite, with what is called."""
    test: dict[str, Any] = {"args": called.args}
    if called.kwargs:
        test["kwargs"] = called.kwargs
    return called, test | expectation


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MAX_POWER_BITS:
        raise ValueError("too large a power")
    return base**exponent


def _no_merge() -> Any:
    raise NotData("a dict with ** in it is not written out")


def _check_plain(value: Any) -> None:
    """Only what the wire can carry: no range, no other object."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_plain(key)
            _check_plain(item)
    elif type(value) in (list, tuple, set, frozenset):
        for item in value:
            _check_plain(item)
    elif type(value) not in PLAIN:
        raise NotData(f"a {type(value).__name__} is no plain data")


def _is_constant(value: Any) -> bool:
    """Whether no call can change a value."""
    if type(value) in (tuple, frozenset):
        return all(map(_is_constant, value))
    return type(value) in PLAIN


def _as_floats(value: Any) -> Any:
    """Numbers as floats, so that a tolerance holds for them; what no float can hold stays."""
    if type(value) is int and abs(value) <= 1 << 53:
        return float(value)
    if type(value) in (list, tuple):
        return type(value)(map(_as_floats, value))
    if type(value) is dict:
        return {key: _as_floats(item) for key, item in value.items()}
    return value


def _bound(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise NotData("a bound that is no finite number from 0 up")
    return float(value)


def _sorts_as_multiset(expected: Any) -> bool:
    """Whether `sorted(f(x)) == expected` says no more than which members there are."""
    if not isinstance(expected, list) or not (
        {type(item) for item in expected} <= {int, float} or all(type(item) is str for item in expected)
    ):
        return False
    return expected == sorted(expected)


def _unpacked(target: ast.expr, value: Any) -> Scope:
    """What a loop's target binds."""
    if isinstance(target, ast.Name):
        return {target.id: Known(value)}
    if isinstance(target, ast.Tuple | ast.List):
        if not isinstance(value, list | tuple) or len(value) != len(target.elts):
            raise NotData("a loop whose values do not fit its names")
        return {
            name: known
            for element, item in zip(target.elts, value, strict=True)
            for name, known in _unpacked(element, item).items()
        }
    raise NotData("a loop that binds something else than names")


def _names(body: Sequence[ast.stmt]) -> Iterator[ast.Name]:
    for statement in body:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.Name))


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with its full name."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, f"{statement.module or ''}.{alias.name}".lstrip(".")
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            top = alias.name.split(".")[0]
            yield top, top


def _checked(tree: ast.Module) -> dict[str, set[str]]:
    """`check(name)` at the end of a file: what is checked."""
    found: dict[str, set[str]] = {}
    for statement in tree.body:
        if _is_check(statement):
            assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            assert isinstance(statement.value.args[0], ast.Name)
            found.setdefault("check", set()).add(statement.value.args[0].id)
    return found


def _parameters(arguments: ast.arguments) -> list[str]:
    """The names of all parameters, of every kind."""
    several = [arguments.vararg, arguments.kwarg]
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [each.arg for each in [*plain, *several] if each is not None]


def _defaulted(arguments: ast.arguments) -> Iterator[str]:
    """The parameters that need not be given, which no fixture fills."""
    plain = [*arguments.posonlyargs, *arguments.args]
    yield from (each.arg for each in plain[len(plain) - len(arguments.defaults) :])
    given = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from (each.arg for each, default in given if default is not None)
    yield from (each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _bound_names(*trees: ast.AST) -> Iterator[str]:
    """Every name that is bound or removed in some code, by whatever means, once for each time."""
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name for name, _ in _imported(node))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            yield node.rest
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names


def _import_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (name for name, _ in _imported(statement))


def _bound_anew(tree: ast.Module) -> set[str]:
    """Names at module level that are no function or import, or more than one, or that a function binds as global."""
    kinds: dict[str, set[str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            kinds.setdefault(statement.name, set()).add("here")
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for name, full in _imported(statement):
                kinds.setdefault(name, set()).add(full)
        else:
            for name in _bound_names(statement):
                kinds.setdefault(name, set()).update(("bound", "anew"))
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return declared | {name for name, found in kinds.items() if len(found) > 1}


def _leaves_early(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body may end the loop, or one round of it, before its last statement."""
    for statement in body:
        loop = isinstance(statement, ast.For | ast.While)
        ends = (ast.Return, ast.Raise) if loop else ENDS
        if any(isinstance(node, ends) for node in ast.walk(statement)):
            return True
    return False


def _is_false_assert(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and not node.test.value


def _is_check(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "check":
        return False
    return len(call.args) == 1 and isinstance(call.args[0], ast.Name)


def _is_param(row: ast.expr) -> bool:
    return isinstance(row, ast.Call) and ast.unparse(row.func) in ("pytest.param", "param")


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, `pass`, `...`: nothing that anybody would miss."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _kind(statement: ast.stmt) -> str:
    if isinstance(statement, ast.ClassDef):
        return f"the class {statement.name}"
    return WORDS.get(type(statement), "a statement")


def _sign(operator: ast.cmpop) -> str:
    signs: dict[type[ast.cmpop], str] = {ast.NotEq: "!=", ast.NotIn: "not in", ast.Gt: ">", ast.GtE: ">="}
    return signs[type(operator)]
