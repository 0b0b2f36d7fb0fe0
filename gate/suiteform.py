"""The form of a SuiteSpec: which keys there are and what each may hold.

These models are the single source of the JSON Schema and of the checks that concern one
key alone; what ties keys together is in `gate.suite`.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from gate import model
from gate.compare import builtin_exception
from gate.places import Path, shown

TEXT_COMPARATORS = ("lines", "tokens", "exact")
VALUE_COMPARATORS = ("json", "python", "strict", "unordered", "set")
EXPECTATIONS = ("expected", "any_of", "raises", "stdout")
PROJECTIONS = ("set", "tuple", "list", "int", "bool", "is_not_none")
MAX_ROUND = 100  # rounding an integer to -10**9 digits would never end

_FLOOD = 20
_MAX_ID_CHARS = 128
_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*"
_DEFAULTS = model.Limits()

Problem = tuple[Path, str]


def _refusal(what: str) -> PydanticCustomError:
    return PydanticCustomError("gate", "{what}", {"what": what})


def is_name(text: str) -> bool:
    """Whether a text is an identifier just as Python will look it up."""
    return text.isidentifier() and unicodedata.normalize("NFKC", text) == text


def _check_version(value: object) -> object:
    if type(value) is not int or value != 1:
        raise _refusal(f"must be 1, the only version there is, not {shown(value)}")
    return value


def _check_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _refusal("holds half a surrogate pair, which no file can hold: remove it") from None
    return text


def _check_program(text: str) -> str:
    if not text.strip():
        raise _refusal("is empty: write a program, or remove it")
    return text


def _check_task_id(text: str) -> str:
    if len(text) > _MAX_ID_CHARS:
        raise _refusal(f"longer than {_MAX_ID_CHARS} characters: shorten it")
    if not re.fullmatch(_ID, text) or ".." in text:
        raise _refusal(f"{shown(text)} is no task id: write letters, digits and ._- in parts joined by /, without ..")
    if any(part.endswith(".py") for part in text.split("/")[:-1]):
        raise _refusal(f"{shown(text)} names a folder like a program file: only the last part may end in .py")
    return text


def _check_entry_point(text: str) -> str:
    parts = text.split(".")
    if len(parts) > 2 or not all(map(is_name, parts)):
        raise _refusal(f"{shown(text)} is no entry point: write a function's name, or Class.method")
    for part in parts:
        if keyword.iskeyword(part) or (part.startswith("__") and part.endswith("__")):
            raise _refusal(f"{shown(part)} is a word of Python's own: write the name of a function or a method")
    return text


def _check_exception(name: str) -> str:
    if builtin_exception(name) is None:
        raise _refusal(f"unknown {shown(name)} (known: the built-in exceptions, as ValueError)")
    return name


def _check_names(kwargs: dict[str, Any]) -> dict[str, Any]:
    for name in kwargs:
        if not is_name(name):
            raise _refusal(f"{shown(name)} is no name of a parameter: write an identifier")
    return kwargs


def _check_projection(value: object) -> object:
    if isinstance(value, str) and value in PROJECTIONS:
        return value
    if isinstance(value, dict) and value.keys() == {"round"}:
        digits = value["round"]
        if type(digits) is int and abs(digits) <= MAX_ROUND:
            return value
        raise _refusal(f"round takes an integer from -{MAX_ROUND} to {MAX_ROUND}, not {shown(digits)}")
    raise _refusal(f"unknown {shown(value)} (known: {', '.join(PROJECTIONS)}, {{round: n}})")


_PROJECTION_SCHEMA = {
    "anyOf": [
        {"enum": list(PROJECTIONS)},
        {
            "type": "object",
            "properties": {"round": {"type": "integer", "minimum": -MAX_ROUND, "maximum": MAX_ROUND}},
            "required": ["round"],
            "additionalProperties": False,
        },
    ]
}

Text = Annotated[str, AfterValidator(_check_text)]
Program = Annotated[Text, AfterValidator(_check_program), Field(json_schema_extra={"minLength": 1})]
TaskId = Annotated[
    str,
    AfterValidator(_check_task_id),
    Field(json_schema_extra={"pattern": f"^{_ID}$", "maxLength": _MAX_ID_CHARS}),
]
Version = Annotated[int, BeforeValidator(_check_version), WithJsonSchema({"const": 1})]
Comparator = Literal["json", "python", "strict", "unordered", "set", "lines", "tokens", "exact"]
Projection = Annotated[Any, AfterValidator(_check_projection), WithJsonSchema(_PROJECTION_SCHEMA)]
Seconds = Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)]
Closeness = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _absent() -> Any:
    """The value of a key that is not there; `model_fields_set` tells it from null."""
    return None


class _Closed(BaseModel):
    """An object with a closed list of keys, each of its exact type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_flood(cls, fields: Any) -> Any:
        # One error a key is for people; for a million keys it would be a gigabyte.
        if isinstance(fields, dict) and len(fields) > len(cls.model_fields) + _FLOOD:
            raise _refusal(f"has {len(fields)} keys (known: {', '.join(cls.model_fields)})")
        return fields


class LimitsForm(_Closed):
    """What one candidate may use; `wall_s` and `cpu_s` hold for loading and again for each call."""

    wall_s: Seconds = _DEFAULTS.wall_s
    cpu_s: Seconds = _DEFAULTS.cpu_s
    memory_mb: int = Field(default=_DEFAULTS.memory_mb, ge=16, le=8192)
    output_kb: int = Field(default=_DEFAULTS.output_kb, ge=1, le=65536)
    total_cpu_s: float = Field(default=_DEFAULTS.total_cpu_s, gt=0, le=600, allow_inf_nan=False)


class ToleranceForm(_Closed):
    """Closeness of floats, as `math.isclose` has it; at least one of the two."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    rel: Closeness = 0.0
    abs: Closeness = 0.0

    @model_validator(mode="after")
    def _not_empty(self) -> ToleranceForm:
        if not self.model_fields_set:
            raise _refusal("is empty: write rel, abs, or both")
        return self


class TestForm(_Closed):
    """One call (args, kwargs) or run (stdin), and exactly one expectation."""

    __test__ = False  # for pytest: a form, no test class
    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [key]} for key in EXPECTATIONS]})

    args: list[Any] = Field(default_factory=list, description="Positional arguments, tagged JSON.")
    kwargs: Annotated[dict[str, Any], AfterValidator(_check_names)] = Field(
        default_factory=dict, description="Keyword arguments, tagged JSON by name."
    )
    expected: Any = Field(default_factory=_absent, description="The right answer, tagged JSON; null is one.")
    any_of: list[Any] = Field(default_factory=_absent, min_length=1, description="Several right answers.")
    raises: Annotated[str, AfterValidator(_check_exception)] = Field(
        default_factory=_absent, description="A built-in exception's name, matched along the MRO."
    )
    stdin: Text = Field(default="", description="What the program reads.")
    stdout: Text = Field(default_factory=_absent, description="What the program must print.")
    compare: Comparator = Field(default_factory=_absent, description="Overrides the suite's comparator.")
    tolerance: ToleranceForm = Field(default_factory=_absent)
    nan_ok: bool = Field(default=False, description="Whether NaN equals NaN.")
    project: Projection = Field(default_factory=_absent, description="Applied to the result before comparing.")


class HeadForm(_Closed):
    """A suite without its tests."""

    version: Version
    task: TaskId
    prompt: Text = ""
    entry_point: Annotated[str, AfterValidator(_check_entry_point)] = Field(
        default_factory=_absent,
        description="A function's name or Class.method; absent for a program on stdin and stdout.",
    )
    compare: Comparator = Field(
        default_factory=_absent, description="For every test; json for calls and lines for programs unless given."
    )
    limits: LimitsForm = Field(default_factory=LimitsForm)
    reference: Program = Field(default_factory=_absent, description="A program that must pass; for gate check.")
    must_fail: list[Program] = Field(default_factory=list, description="Programs that must be refused; for gate check.")


class SuiteForm(HeadForm):
    """What must hold for one task: data, never code."""

    tests: list[TestForm] = Field(
        description="The visible tests: these decide. Empty only on a line of a bank that has hidden tests."
    )
    hidden: list[TestForm] = Field(default_factory=list, description="The ground truth: measures, never decides.")


Form = TypeVar("Form", bound=BaseModel)
_TYPES = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
_PARTS: dict[str, type[_Closed]] = {"limits": LimitsForm, "tolerance": ToleranceForm}


def fill(form: type[Form], fields: object, path: Path) -> tuple[Form | None, list[Problem]]:
    """Check one object by its form.

    Returns:
        The filled form, or None and what is wrong, with paths that start with `path`.
    """
    try:
        return form.model_validate(fields), []
    except ValidationError as exc:
        return None, [_problem(form, error, path) for error in exc.errors(include_url=False)]


def _problem(form: type[BaseModel], error: ErrorDetails, path: Path) -> Problem:
    place = tuple(step for step in error["loc"] if step != "[key]")
    kind, message = error["type"], error["msg"].removeprefix("Input ")
    if kind == "gate":
        what = message
    elif kind == "missing":
        what = "is missing: write it"
    elif kind == "extra_forbidden":
        known = _PARTS[str(place[0])] if len(place) > 1 else form
        what = f"unknown key (known: {', '.join(_keys(known))})"
    elif kind == "literal_error":
        what = f"unknown {shown(error['input'])} (known: {', '.join(get_args(Comparator))})"
    elif kind == "too_short":
        what = "is empty: write at least one answer"
    elif kind in _TYPES:
        what = f"should be {_TYPES[kind]}, not {shown(error['input'])}"
    else:
        what = f"{message}, not {shown(error['input'])}"
    return (*path, *place), what


def _keys(form: type[BaseModel]) -> tuple[str, ...]:
    return tuple(SuiteForm.model_fields if form is HeadForm else form.model_fields)


def suite_json_schema() -> dict[str, Any]:
    """The JSON Schema of a SuiteSpec, made from the models that check it."""
    schema = SuiteForm.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "SuiteSpec", **untitled(schema)}


def untitled(schema: Any) -> Any:
    """A schema without the titles that only repeat a key or a class."""
    if isinstance(schema, list):
        return [untitled(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: untitled(part) for key, part in schema.items() if key != "title" or not isinstance(part, str)}
