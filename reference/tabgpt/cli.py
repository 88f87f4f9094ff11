"""The `tabgpt` command. Each subcommand parses, calls the package, and prints."""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import layout
from .backends import BACKENDS
from .cli_bench import app as bench_app
from .cli_options import given_fields, with_fields
from .config import DEFAULT_PRESET, ModelConfig, TrainConfig, preset, preset_names, preset_title
from .errors import BackendError, ConfigError, TabgptError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train a GPT from scratch, here or in a browser tab (`tabgpt lab`).\n\n"
    "A first run: `tabgpt train --preset tiny --out run`, then `tabgpt sample run`.",
)

app.add_typer(bench_app, name="bench", rich_help_panel="The lab")

Checkpoint = Annotated[
    Path,
    typer.Argument(
        help="A run's folder, a .safetensors file, or what transformers saved.", show_default=False
    ),
]
BACKEND_HELP = (
    "native: the C++ core, float32. numpy: the oracle, float64 and slow. wgpu: a GPU, by the "
    "programs that the tab runs."
)


def _backend(shown: str | bool = True) -> Any:
    return typer.Option(help=BACKEND_HELP, metavar="|".join(BACKENDS), show_default=shown)


def _corpus(text: str, shown: str) -> Any:
    return typer.Option(help=text, metavar="FILE", show_default=shown)


Backend = Annotated[str, _backend()]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads of the native backend; the result does not depend on it.",
        metavar="N",
        show_default="the processors there are",
    ),
]


@app.command(rich_help_panel="Training")
@with_fields("model", "train", "run")
def train(
    corpus: Annotated[
        Path | None,
        _corpus("UTF-8 text to train on; the last tenth validates.", "nine plays of Shakespeare"),
    ] = None,
    preset_name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="Where every hyper-parameter starts; `tabgpt presets` lists them.",
            metavar="NAME",
            show_default=DEFAULT_PRESET,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run's folder: checkpoint, metrics.jsonl.",
            metavar="DIR",
            show_default="runs/PRESET",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a run that is in --out already.", metavar=""),
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the run in this folder, exactly where its checkpoint stands.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    extend_to: Annotated[
        int | None,
        typer.Option(
            help="With --resume: another last step, although the schedule then changes.",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    backend: Annotated[
        str | None,
        _backend("native, or the resumed run's"),
    ] = None,
    threads: Threads = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="With --backend wgpu: measure which kernels are fastest on this GPU, once, and "
            "train with those.",
            metavar="",
        ),
    ] = False,
    **given: Any,
) -> None:
    """Train a model on a text.

    Ctrl-C saves and says how to go on; a killed run loses what came after its last
    autosave. The folder opens with transformers' GPT2LMHeadModel.from_pretrained.

    Example: tabgpt train --corpus book.txt --preset small --steps 3000 --out runs/book
    """
    from .cli_train import resume_run, start_run, watch

    values = given_fields(given)
    if resume is None:
        if extend_to is not None:
            raise ConfigError("--extend-to changes the last step of a run: give it with --resume")
        run = start_run(
            corpus, preset_name, values, out, overwrite, backend or "native", threads, tune
        )
    else:
        if preset_name is not None or out is not None or overwrite:
            raise ConfigError(
                "--resume goes on with the run as it is, in its own folder: leave out --preset, "
                "--out and --overwrite"
            )
        run = resume_run(resume, corpus, values, extend_to, backend, threads, tune)
    raise typer.Exit(watch(run))


@app.command(rich_help_panel="Using a model")
@with_fields("sample")
def sample(
    checkpoint: Checkpoint,
    prompt: Annotated[
        str, typer.Option(help="The text to go on from.", show_default="a new line")
    ] = "",
    ids: Annotated[
        str | None,
        typer.Option(
            help='The prompt as token ids, e.g. "15 2 8"; prints ids. For models whose '
            "tokenizer is not known here.",
            show_default=False,
        ),
    ] = None,
    stop: Annotated[
        str, typer.Option(help="End before this text appears.", show_default=False)
    ] = "",
    backend: Backend = "native",
    threads: Threads = None,
    **given: Any,
) -> None:
    """Write text with a trained model.

    Example: tabgpt sample runs/small --prompt "ROMEO:" --temperature 0.7 --seed 3
    """
    from .api import decode_stream, load

    values = given_fields(given)
    if "sample_seed" in values:
        values["seed"] = values.pop("sample_seed")
    model = load(checkpoint, backend, threads)
    if ids is not None:
        if prompt or stop:
            raise ConfigError(
                "--ids gives token ids, which hold no text: leave out --prompt and --stop"
            )
        try:
            numbers = [int(part) for part in ids.replace(",", " ").split()]
        except ValueError:
            raise ConfigError(f'--ids is {ids!r}; give whole numbers, e.g. "15 2 8"') from None
        print(*numbers, *model.stream(numbers, **values))
        return
    model.tokenizer.decoder()  # a model without a tokenizer says so before it works
    stream = model.stream(prompt, **values)
    print(prompt, end="", flush=True)
    for piece in decode_stream(model.tokenizer, stream, stop):
        print(piece, end="", flush=True)
    print()


@app.command("eval", rich_help_panel="Using a model")
def evaluate(
    checkpoint: Checkpoint,
    corpus: Annotated[
        Path | None,
        _corpus("The text, split as in training.", "the one it was trained on"),
    ] = None,
    split: Annotated[str, typer.Option(help="Which part.", metavar="val|train")] = "val",
    batches: Annotated[
        int, typer.Option(help="Seeded batches; 0 is the whole split.", metavar="N")
    ] = 0,
    backend: Backend = "native",
    threads: Threads = None,
) -> None:
    """Measure a model's loss on a text.

    Example: tabgpt eval runs/small
    """
    from .train import evaluate_checkpoint

    loss, n_tokens = evaluate_checkpoint(checkpoint, corpus, split, batches, backend, threads)
    what = f"{batches} batches" if batches else "the whole split"
    print(
        f"{split}_loss {loss:.6f}  ({what} of {n_tokens:,} tokens; "
        f"perplexity {math.exp(min(loss, 700.0)):.4g}, {loss / math.log(2):.4f} bits a token)"
    )


@app.command(rich_help_panel="Using a model")
def info(checkpoint: Checkpoint) -> None:
    """Say what a checkpoint holds: model, tokenizer, run, corpus."""
    from . import checkpoint as checkpoints

    about = checkpoints.load(checkpoint)
    parameters = sum(array.size for array in about.tensors.values())
    dtypes = sorted({str(array.dtype) for array in about.tensors.values()})
    rows: dict[str, Any] = {"parameters": f"{parameters:,} ({', '.join(dtypes)})"}
    rows |= about.config.to_dict()
    rows["tokenizer"] = about.tokenizer.to_json()
    if about.train is not None:
        rows |= {"step": f"{about.step} of {about.train.steps}", "tokens_seen": about.tokens_seen}
        rows |= {key: value for key, value in about.train.to_dict().items() if key != "steps"}
    rows |= {f"corpus {key}": value for key, value in (about.corpus or {}).items()}
    rows["trained by"] = about.backend or "not known"
    rows["memory"] = _memory(about.config, about.train)
    _print_rows(rows)


@app.command(rich_help_panel="Training")
def presets(
    name: Annotated[
        str | None, typer.Argument(help="One preset in full.", show_default="list them all")
    ] = None,
) -> None:
    """List the presets, or every hyper-parameter of one."""
    if name is not None:
        _print_rows(preset(name).values)
        return
    print(f"{'preset':<14}{'layers/heads/d_model/ctx':<26}{'batch':>6}{'steps':>7}{'lr':>8}"
          f"{'parameters':>13}  title")  # fmt: skip
    vocab_size = 65
    for entry in preset_names():
        recipe = preset(entry)
        model, run = recipe.model(vocab_size), recipe.train
        shape = f"{model.n_layer}/{model.n_head}/{model.d_model}/{model.ctx}"
        parameters = sum(math.prod(t.shape) for t in layout.tensors(model))
        print(f"{entry:<14}{shape:<26}{run.batch_size:>6}{run.steps:>7}{run.lr:>8g}"
              f"{parameters:>13,}  {preset_title(entry)}")  # fmt: skip
    print(
        f"\nParameters with a vocabulary of {vocab_size}. `tabgpt presets NAME` shows all of one."
    )


@app.command(rich_help_panel="Training")
def corpus(
    name: Annotated[
        str, typer.Argument(help="shakespeare: the default. tinyshakespeare: downloaded.")
    ] = "shakespeare",
) -> None:
    """Make or download a corpus, check its hash, and print where it is."""
    from . import corpus as corpora

    makers = {"shakespeare": corpora.default_corpus, "tinyshakespeare": corpora.tinyshakespeare}
    if name not in makers:
        raise ConfigError(f"unknown corpus {name!r}; there are: {', '.join(makers)}")
    text = corpora.read_corpus(makers[name]())
    print(f"{text.path}\n{len(text.raw):,} bytes, sha256 {text.sha256}")


@app.command(rich_help_panel="The lab")
def lab(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than loopback is seen by others.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="Port to listen on.", min=0, max=65535, show_default="8127, or a free one"
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open a browser too.", metavar="")
    ] = False,
    site: Annotated[
        Path | None,
        typer.Option(help="Folder of the built site.", show_default="the package's own"),
    ] = None,
) -> None:
    """Serve the lab: the page that trains a GPT in a browser tab. Nothing leaves the tab."""
    from .serve import serve

    serve(host, port, open_browser, site)


def _memory(config: ModelConfig, train: TrainConfig | None) -> str:
    from .backends import default_threads

    try:
        from .backends.native import planned_gpu_memory, planned_memory
    except BackendError as error:
        return f"not known: {error}"

    def mib(mode: str, plan: TrainConfig) -> str:
        cpu = planned_memory(config, plan, mode, default_threads())["total"]
        gpu = planned_gpu_memory(config, plan, mode)["total"]
        return f"{cpu / 2**20:,.1f} MiB (on a GPU {gpu / 2**20:,.1f})"

    training = f", {mib('train', train)} to train it" if train is not None else ""
    return f"{mib('infer', train or TrainConfig(batch_size=1))} to use it{training}"


def _print_rows(rows: dict[str, Any]) -> None:
    width = max(map(len, rows)) + 2
    for key, value in rows.items():
        print(f"{key:<{width}}{value}")


def main() -> None:
    """The entry point: errors of the family become one line and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # bytes of a prompt that are not UTF-8 come out as they went in
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        app()
    except TabgptError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError as error:
        print(f"error: not enough memory: {error}; choose a smaller preset", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # `tabgpt sample run | head`
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
