"""The verbs and their options. What a verb does stands in a module of its own, loaded when it is used."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from gate.cli import exits
from gate.errors import GateError, SpecError

LOCK = "bank.lock"

app = typer.Typer(
    name="gate",
    help="The acceptance gate for code that language models write: execution instead of opinion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
image_app = typer.Typer(help="The image that candidates run in.", no_args_is_help=True)
app.add_typer(image_app, name="image")
import_app = typer.Typer(help="Tests that others wrote, as suites and banks.", no_args_is_help=True)
app.add_typer(import_app, name="import")


class Isolation(StrEnum):
    """The boundaries that candidates can run in."""

    container = "container"
    cell = "cell"


class Prelude(StrEnum):
    """What can be put before each program."""

    typing = "typing"


Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Boundary = Annotated[Isolation, typer.Option("--isolation", help="Where candidates run.")]
Runtime = Annotated[str | None, typer.Option("--runtime", help="The OCI runtime: runc, crun, runsc, …")]
Bind = Annotated[
    Path | None,
    typer.Option("--bind", metavar="FILE", help="Only the suites that this lock of yours binds; see check --lock."),
]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=256, help="Tasks at a time.")]


def run() -> None:
    """Run the command line; errors of ours become one sentence and their exit code."""
    try:
        app()
    except (GateError, BaseExceptionGroup) as exc:
        error = first_of_ours(exc)
        if error is None:
            raise
        print(f"gate: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(exits.STOPPED) from None
    except SystemExit as exc:
        if _was_interrupted(exc):  # typer says nothing; a verb that goes on later has said so itself
            print("gate: stopped", file=sys.stderr)
        raise


def _was_interrupted(exc: BaseException | None) -> bool:
    """Whether Ctrl-C is what an exception comes from."""
    while exc is not None and not isinstance(exc, KeyboardInterrupt):
        exc = exc.__cause__ or exc.__context__
    return exc is not None


def first_of_ours(exc: BaseException) -> GateError | None:
    """The first error of ours in an exception that may be a group; None where there is another in it."""
    if not isinstance(exc, BaseExceptionGroup):
        return exc if isinstance(exc, GateError) else None
    found = [first_of_ours(each) for each in exc.exceptions]
    return None if None in found else found[0]


@app.command("run", epilog="Example: gate run humaneval --source samples:candidates.jsonl --out runs/first")
def run_command(
    bank: Annotated[
        str | None, typer.Argument(metavar="BANK", help="A file, a folder or a bundled bank's name.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="Candidates: openai, command:'PROG ARGS', samples:FILE|FOLDER or scripted:FILE.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="For openai: the model, as the server knows it.")] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="For openai: the server, up to /v1; the key is OPENAI_API_KEY.")
    ] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="For openai; default 0.8.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="For openai; default: the server's.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="For openai: the longest answer; default 2048.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The seed of draw 0; draw k has seed + k; default 0.")
    ] = None,
    max_connections: Annotated[
        int | None,
        typer.Option("--max-connections", min=1, max=256, help="Requests at a time, fewer while told 429; default 8."),
    ] = None,
    request_timeout: Annotated[
        float | None,
        typer.Option("--request-timeout", min=0.1, max=3600, help="Seconds for one request; default 120."),
    ] = None,
    system: Annotated[
        Path | None, typer.Option("--system", metavar="FILE", help="The system message; an empty file for none.")
    ] = None,
    template: Annotated[
        Path | None, typer.Option("--template", metavar="FILE", help="The user message, as a Jinja2 template.")
    ] = None,
    show_tests: Annotated[
        bool | None, typer.Option("--show-tests", help="Show the visible tests to the model; hidden ones never.")
    ] = None,
    prelude: Annotated[Prelude | None, typer.Option("--prelude", help="Put names before each program: typing.")] = None,
    price_in: Annotated[
        float | None, typer.Option("--price-in", metavar="USD", help="For a million tokens of prompts.")
    ] = None,
    price_out: Annotated[
        float | None, typer.Option("--price-out", metavar="USD", help="For a million tokens of answers.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="A YAML table of prices, by model.")
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", metavar="USD", help="Stop before the run costs more.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", min=1, metavar="N", help="Stop before it takes more tokens.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Keep answers, and take those that are kept.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option("--draws", min=1, max=5, help="Candidates a task at most; default 5.")
    ] = None,
    full_pool: Annotated[
        bool | None, typer.Option("--full-pool", help="Go on drawing after a pass, for replays.")
    ] = None,
    isolation: Annotated[Isolation | None, typer.Option("--isolation", help="Where candidates run.")] = None,
    runtime: Runtime = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run directory; default: a new one in runs/.")] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Go on with a run; its options come from it.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first so many tasks only.")] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="This task only; repeatable.")] = None,
    jobs: Jobs = None,
    infra_budget: Annotated[
        str | None, typer.Option("--infra-budget", help="Share of tasks that our own world may fail; default 1%.")
    ] = None,
    require_sound: Annotated[
        bool, typer.Option("--require-sound", help="Draw nothing where `gate check` finds a suite weak or invalid.")
    ] = False,
    bind: Bind = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every decision and fault.")] = False,
    json: Json = False,
) -> None:
    """Draw until a candidate passes, or refuse: the gate over a whole bank."""
    from gate.cli import run as verb

    if resume is not None and out is not None:
        raise SpecError("--out: a resumed run stays where it is: leave --out away")
    price_in, price_out = verb.prices_of(price_in, price_out, prices, model, resume)
    bound = verb.Bound(
        draws=draws,
        full_pool=full_pool,
        isolation=None if isolation is None else isolation.value,
        runtime=runtime,
        limit=limit,
        tasks=None if not task else tuple(task),
        infra_budget=None if infra_budget is None else verb.parse_share(infra_budget),
        model=model,
        base_url=base_url,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        seed=seed,
        price_in=price_in,
        price_out=price_out,
        cache=None if cache is None else str(cache.absolute()),
        system=None if system is None else verb.option_text(system, "--system"),
        template=None if template is None else verb.option_text(template, "--template"),
        show_tests=show_tests,
        prelude=None if prelude is None else prelude.value,
    )
    options = verb.RunOptions(
        bank=bank,
        source=source,
        bound=bound,
        bind=bind,
        resume=resume,
        out=out,
        jobs=jobs,
        max_connections=max_connections,
        require_sound=require_sound,
        request_timeout_s=request_timeout,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        quiet=quiet,
        verbose=verbose,
        json=json,
    )
    if dry_run:
        from gate.cli.dry_run import dry_run as ask

        raise typer.Exit(ask(options))
    raise typer.Exit(verb.run(options))


@app.command("replay", epilog="Example: gate replay samples.jsonl --bank humaneval --out runs/replayed")
def replay_command(
    pools: Annotated[
        list[Path],
        typer.Argument(metavar="POOL…", help="Samples files, folders or runs with --full-pool; several are one pool."),
    ],
    bank: Annotated[str, typer.Option("--bank", help="A file, a folder or a bundled bank's name.")],
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws", min=1, max=1000, help="Draws a task; default 5; more is research, not the gate's rule."
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="M:R", help="A rule of your own, my.module:rule, beside the others.")
    ] = None,
    isolation: Annotated[Isolation | None, typer.Option("--isolation", help="Where candidates run.")] = None,
    runtime: Runtime = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Its directory; the same again goes on there; default: in runs/.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first so many tasks only.")] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="This task only; repeatable.")] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, max=256, help="Draws at a time, of one task or of several.")
    ] = None,
    infra_budget: Annotated[
        str | None, typer.Option("--infra-budget", help="Share of tasks that our own world may fail; default 1%.")
    ] = None,
    bind: Bind = None,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every task.")] = False,
    json: Json = False,
) -> None:
    """Judge saved pools offline and recompute every rule over them; no model is asked."""
    from gate.cli import replay as verb
    from gate.cli.run import parse_share

    bound = verb.ReplayBound(
        draws=draws,
        isolation=None if isolation is None else isolation.value,
        runtime=runtime,
        limit=limit,
        tasks=None if not task else tuple(task),
        infra_budget=None if infra_budget is None else parse_share(infra_budget),
    )
    options = verb.ReplayOptions(
        pools=tuple(pools),
        bank=bank,
        bound=bound,
        rule=rule,
        bind=bind,
        out=out,
        jobs=jobs,
        quiet=quiet,
        verbose=verbose,
        json=json,
    )
    raise typer.Exit(verb.replay(options))


@app.command("compare", epilog="Example: gate compare runs/replayed runs/replayed:majority")
def compare_command(
    first: Annotated[str, typer.Argument(metavar="A", help="A run, a replay, or REPLAY:RULE (default: first_pass).")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same, on the same tasks.")],
    json: Json = False,
) -> None:
    """Two runs or two rules on the same tasks: who is right where, and what that shows."""
    from gate.cli import compare as verb

    raise typer.Exit(verb.compare(first, second, as_json=json))


@app.command("show", epilog="Example: gate show runs/first HumanEval/0")
def show_command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One task, in full.")] = None,
    json: Json = False,
) -> None:
    """What happened: a line for each task, or one task in full."""
    from gate.cli import show as verb

    raise typer.Exit(verb.show(run_dir, task, as_json=json))


@app.command("report", epilog="Example: gate report runs/first -o report.html -o slides.png")
def report_command(
    run_dirs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|REPLAY…", help="Directories of runs, or of replays; several side by side."),
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Where to write it; the name's end says as what: .md .html .json .xml (JUnit) .csv .svg .png .jsonl "
            "(a line a draw) eval_results.json (EvalPlus). Repeatable.",
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="M:R", help="The rule of your own that a replay was made with.")
    ] = None,
    json: Json = False,
) -> None:
    """Make again what derives from a run's ledger, and print its report; or write it in a format of your choice."""
    from gate.cli import report as verb

    raise typer.Exit(verb.report(run_dirs, out or [], rule=rule, as_json=json))


@app.command("attack", epilog="Example: gate attack --out experiments/mine")
def attack_command(
    bank: Annotated[str, typer.Option("--bank", help="A file, a folder or a bundled bank's name.")] = "humaneval",
    pool: Annotated[
        Path | None, typer.Option("--pool", metavar="SAMPLES", help="Real candidates; else those of the bundled bank.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="The first N tasks alone.")] = None,
    chosen: Annotated[
        list[str] | None, typer.Option("--attack", metavar="NAME", help="This attack alone. Repeatable.")
    ] = None,
    gauges: Annotated[
        list[str] | None, typer.Option("--gauge", metavar="NAME", help="code, code_process or data. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="A folder for attack.json, ATTACK.md; else in runs/.")
    ] = None,
    jobs: Jobs = None,
    runtime: Runtime = None,
    json: Json = False,
) -> None:
    """Attack the gauge: which attacks get through where a suite is code, and where it is data."""
    from gate.cli import attack as verb

    raise typer.Exit(
        verb.attack(
            bank,
            pool=pool,
            limit=limit,
            chosen=chosen or [],
            gauges=gauges or [],
            out=out,
            jobs=jobs,
            runtime=runtime,
            as_json=json,
        )
    )


@app.command("view", epilog="Example: gate view runs")
def view_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with runs and replays in it.")] = Path("."),
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port on this machine; 0 for a free one.")] = 0,
) -> None:
    """All runs and replays of a folder as pages, on this machine alone; they follow runs that are going on."""
    from gate.cli import view as verb

    raise typer.Exit(verb.view(folder, port=port))


@app.command("verify", epilog="Example: gate verify runs/first --rejudge 20")
def verify_command(
    run_dir: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|REPORT|LOCK",
            help="The directory of a run or a replay; a report that was made of one; or a lock, with --bank.",
        ),
    ],
    run: Annotated[
        list[Path] | None,
        typer.Option("--run", metavar="DIR", help="The run that a report is about, if it was moved. Repeatable."),
    ] = None,
    rejudge: Annotated[
        int, typer.Option("--rejudge", metavar="N", min=0, help="Execute N verdicts anew, drawn by lot.")
    ] = 0,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="M:R", help="The rule of your own that a replay was made with.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="SHA", help="The ledger's head as you know it from elsewhere.")
    ] = None,
    bind: Annotated[
        Path | None, typer.Option("--bind", metavar="FILE", help="The lock that its suites must be bound by.")
    ] = None,
    bank: Annotated[
        str | None, typer.Option("--bank", metavar="BANK", help="The bank that a lock is held against.")
    ] = None,
    json: Json = False,
) -> None:
    """Derive every claim of a run again: verdicts, decisions, counts, reports."""
    from gate.cli import verify as verb

    raise typer.Exit(
        verb.verify(run_dir, head=head, as_json=json, rejudge=rejudge, rule=rule, lock=bind, bank=bank, runs=run or ())
    )


@app.command("clean", epilog="Example: gate clean --dry-run")
def clean_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Also those whose owner may still live, or lived elsewhere.")
    ] = False,
    json: Json = False,
) -> None:
    """Remove containers that dead gates left behind."""
    from gate.cli import clean as verb

    raise typer.Exit(verb.clean(dry_run=dry_run, everything=all_, as_json=json))


@app.command("test", epilog="Example: gate test suites/mine.yaml candidate.py")
def test_command(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="A suite: YAML or JSON.")],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="A program: one Python file.")],
    isolation: Boundary = Isolation.container,
    runtime: Runtime = None,
    json: Json = False,
) -> None:
    """Hold one program against one suite: the verdict, and the first failing test."""
    from gate.cli import try_one as verb

    raise typer.Exit(verb.try_one(suite, candidate, isolation=isolation.value, runtime=runtime, as_json=json))


class _Check(TyperCommand):
    """`--lock` alone stands for the usual name: an option whose value may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spelled: list[str] = []
        for place, word in enumerate(args):
            bare = word == "--lock" and (place + 1 == len(args) or args[place + 1].startswith("-"))
            spelled += [word, LOCK] if bare else [word]
        return super().parse_args(ctx, spelled)


@app.command("check", cls=_Check, epilog="Example: gate check suites/mine.yaml --lock")
def check_command(
    banks: Annotated[list[str], typer.Argument(metavar="BANK|SUITE…", help="Files, folders or bundled banks.")],
    isolation: Annotated[
        Isolation | None,
        typer.Option("--isolation", help="Where programs run; default: container, for mutants cell where it holds."),
    ] = None,
    runtime: Runtime = None,
    jobs: Jobs = None,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Which small changes of each reference do its tests notice?")
    ] = False,
    most: Annotated[
        int | None,
        typer.Option("--most", min=1, max=1000, help="With --mutants: so many for each reference; default 20."),
    ] = None,
    lock: Annotated[
        Path | None,
        typer.Option(
            "--lock",
            metavar="[FILE]",
            help=f"Bind the bank: write the digests of its suites, for your repository; default: {LOCK}.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Is the gauge sound: schema, reference passes, must_fail refused, programs that know nothing refused."""
    from gate.cli import check as verb

    if most is not None and not mutants:
        raise SpecError("--most: says how many mutants to try: give --mutants, too")
    raise typer.Exit(
        verb.check(
            banks,
            isolation=None if isolation is None else isolation.value,
            runtime=runtime,
            jobs=jobs,
            as_json=json,
            lock=lock,
            most_mutants=(most or 20) if mutants else None,
        )
    )


@app.command("init", epilog="Example: gate init mine")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; nothing is overwritten.")],
) -> None:
    """Write a starter suite with comments, and a program to try on it."""
    from gate.cli import init as verb

    raise typer.Exit(verb.init(folder))


@app.command("demo", epilog="Example: gate demo")
def demo_command(
    out: Annotated[Path | None, typer.Option("--out", help="The run directory; default: a new one in runs/.")] = None,
    isolation: Boundary = Isolation.container,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """The main job on real saved candidates: HumanEval, five by code-davinci-002 a task."""
    from gate.cli import demo as verb

    raise typer.Exit(verb.demo(out=out, isolation=isolation.value, jobs=jobs, quiet=quiet))


@app.command("doctor", epilog="Example: gate doctor")
def doctor_command(runtime: Runtime = None, json: Json = False) -> None:
    """What works here and what does not, and what to do about it."""
    from gate.cli import doctor as verb

    raise typer.Exit(verb.doctor(runtime=runtime, as_json=json))


@app.command("banks", epilog="Example: gate banks")
def banks_command(json: Json = False) -> None:
    """The bundled banks."""
    from gate.cli import banks as verb

    raise typer.Exit(verb.banks(as_json=json))


@app.command("schema", epilog="Example: gate schema suite > suite.schema.json")
def schema_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which one; none: list the names.")] = None,
) -> None:
    """The JSON Schema of a format."""
    from gate.cli import schema as verb

    raise typer.Exit(verb.schema(name))


@app.command("version", epilog="Example: gate version --json")
def version_command(json: Json = False) -> None:
    """Which version this is."""
    from gate.cli import printing
    from gate.version import gate_version

    if json:
        printing.print_json({"schema": "gate.version/1", "version": gate_version()})
    else:
        print(f"gate {gate_version()}")


@image_app.command("build", epilog="Example: gate image build --base python:3.12-slim")
def image_build_command(
    base: Annotated[
        str | None,
        typer.Option("--base", help="public, local or an image; default: public if it can be had, else local."),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Build the image where it is not current; says which base it chose."""
    from gate.cli import image as verb

    raise typer.Exit(verb.build(base=base, quiet=quiet, as_json=json))


@import_app.command("asserts", epilog="Example: gate import asserts tests/test_words.py -o suites/words.yaml")
def import_asserts_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.py", help="Asserts, pytest functions, or a check(candidate).")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="SUITE", help="The suite's file; default: stdout.")
    ] = None,
    entry_point: Annotated[
        str | None, typer.Option("--entry-point", metavar="NAME", help="The function under test, if it is not plain.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The task's id; default: the file's name.")] = None,
    runtime: Runtime = None,
    json: Json = False,
) -> None:
    """Asserts on literals become a suite; the rest is listed. The file is parsed in the sandbox and never run."""
    from gate.cli import import_asserts as verb

    raise typer.Exit(
        verb.import_asserts(file, out=out, entry_point=entry_point, task=task, runtime=runtime, as_json=json)
    )


Rows = Annotated[Path, typer.Argument(metavar="FILE", help="The benchmark's rows: .jsonl, .jsonl.gz or .json.")]
BankOut = Annotated[Path, typer.Option("-o", "--out", metavar="BANK", help="A .jsonl or .jsonl.gz file.")]
Visible = Annotated[
    int | None,
    typer.Option("--visible", min=1, help="So many tests of each task decide, the others are hidden; default: all."),
]


@import_app.command("livecodebench", epilog="Example: gate import livecodebench test.jsonl -o lcb.jsonl.gz")
def import_livecodebench_command(file: Rows, out: BankOut, json: Json = False) -> None:
    """LiveCodeBench: public test cases decide, private ones are hidden. Nothing is unpickled."""
    from gate.cli import import_bank as verb

    raise typer.Exit(verb.import_bank("livecodebench", file, out=out, visible=None, as_json=json))


@import_app.command("apps", epilog="Example: gate import apps test.jsonl -o apps.jsonl.gz --visible 3")
def import_apps_command(file: Rows, out: BankOut, visible: Visible = None, json: Json = False) -> None:
    """APPS: input_output, of functions and of programs."""
    from gate.cli import import_bank as verb

    raise typer.Exit(verb.import_bank("apps", file, out=out, visible=visible, as_json=json))


@import_app.command("commonoj", epilog="Example: gate import commonoj rows.jsonl -o oj.jsonl.gz --visible 3")
def import_commonoj_command(file: Rows, out: BankOut, visible: Visible = None, json: Json = False) -> None:
    """CommonOJ of SandboxFusion: programs on standard input and output."""
    from gate.cli import import_bank as verb

    raise typer.Exit(verb.import_bank("commonoj", file, out=out, visible=visible, as_json=json))
