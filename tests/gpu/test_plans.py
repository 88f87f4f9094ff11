"""The plans that the core makes for a GPU, read as data: legal, and as large as they say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import gpu_variants
import pytest
import write_plans
from remote import ROOT
from tabgpt import _core, layout, shaders
from tabgpt.backends.native import core_config
from tabgpt.config import ModelConfig, TrainConfig, preset, preset_names

MiB = 1 << 20
BINDING, BUFFER = 128 * MiB, 256 * MiB  # WebGPU's default limits
USUAL = ModelConfig(vocab_size=65, ctx=16, n_layer=2, n_head=4, d_model=32, dropout=0.1)


def gpu(
    model: ModelConfig,
    mode: str = "train",
    binding: int = BINDING,
    buffer: int = BUFFER,
    variants: str = "",
    **train: Any,
) -> _core.Gpu:
    return _core.Gpu(core_config(model, TrainConfig(**train)), mode, binding, buffer, variants)


def plan(*args: Any, **options: Any) -> dict[str, Any]:
    return json.loads(gpu(*args, **options).plan())


def of_preset(name: str, mode: str) -> dict[str, Any]:
    recipe = preset(name)
    model = recipe.model(65)
    return json.loads(_core.Gpu(core_config(model, recipe.train), mode, 1 << 40, 1 << 40).plan())


def faults(made: dict[str, Any], buffers: list[dict[str, Any]], limit: int) -> list[str]:
    """What WebGPU would refuse in the programs, by label."""
    found = []
    for name, commands in made["programs"].items():
        for command in commands:
            if "pipeline" not in command:
                ends = command.get("clear") or command["copy"]
                if "copy" in command and ends[0] == ends[2]:
                    found.append(f"{name}: a copy within one buffer")
                if ends[-1] % 4:
                    found.append(f"{name}: {ends[-1]} bytes are not whole words")
                continue
            label = f"{name}, {command['label']}"
            uses: dict[int, list[str]] = defaultdict(list)
            modes = command["modes"]
            if len(modes) != len(command["bindings"]):
                found.append(f"{label}: {len(command['bindings'])} bindings for {len(modes)}")
            for (buffer, offset, size), mode in zip(command["bindings"], modes, strict=False):
                uses[buffer].append(mode)
                if offset % 256 or size % 4 or size == 0:
                    found.append(f"{label}: {size} bytes at {offset}")
                if offset + size > buffers[buffer]["bytes"]:
                    found.append(f"{label}: past the end of {buffers[buffer]['name']}")
                if size > limit:
                    found.append(f"{label}: binds {size} bytes")
                if mode == "uniform" and "uniform" not in buffers[buffer]["usage"]:
                    found.append(f"{label}: {buffers[buffer]['name']} is no uniform buffer")
            for buffer, kinds in uses.items():
                written = kinds.count("read_write")
                if written > 1 or (written and len(kinds) > 1):
                    found.append(f"{label}: {buffers[buffer]['name']} is bound as {kinds}")
            if sum(mode != "uniform" for mode in modes) > 8:
                found.append(f"{label}: more than 8 storage buffers")
            if not all(1 <= size <= 65535 for size in command["grid"]):
                found.append(f"{label}: grid {command['grid']}")
    return found


def with_modes(made: dict[str, Any], pipelines: list[dict[str, Any]]) -> dict[str, Any]:
    for commands in made["programs"].values():
        for command in commands:
            if "pipeline" in command:
                command["modes"] = pipelines[command["pipeline"]]["bindings"]
    return made


def check(made: dict[str, Any], limit: int = BINDING) -> None:
    assert not faults(with_modes(made, made["pipelines"]), made["buffers"], limit)
    for pipeline in made["pipelines"]:
        kernel = shaders.kernel(pipeline["kernel"])
        shaders.check_access(kernel, pipeline["bindings"])
        assert tuple(pipeline["constants"]) == kernel.overrides
    for name, tensor in made["tensors"].items():
        size = 4
        for axis in tensor["shape"]:
            size *= axis
        assert tensor["offset"] + size <= made["buffers"][tensor["buffer"]]["bytes"], name


@pytest.mark.parametrize("mode", ["infer", "train", "probe"])
@pytest.mark.parametrize("name", preset_names())
def test_plan_is_legal(name: str, mode: str) -> None:
    check(of_preset(name, mode), 1 << 40)


ODD = {
    "one of everything": (ModelConfig(2, 1, 1, 1, 1, 1), {"batch_size": 1}),
    "dropout, accumulation": (USUAL, {"batch_size": 3, "grad_accum": 2}),
    "many chunks of the head": (ModelConfig(5000, 128, 1, 1, 8), {"batch_size": 20}),
    **{choice: (USUAL, {"variants": choice}) for choice in gpu_variants.NOT_DEFAULT},
}


@pytest.mark.parametrize("mode", ["infer", "train", "probe"])
@pytest.mark.parametrize("name", ODD)
def test_odd_plans_are_legal(name: str, mode: str) -> None:
    model, options = ODD[name]
    check(plan(model, mode, **options))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 16), (7, 16), (1, 13)])
def test_plan_for_another_batch_is_legal(shape: tuple[int, int]) -> None:
    made = gpu(USUAL, "probe", batch_size=8)
    whole, part = json.loads(made.plan()), json.loads(made.programs(*shape))
    assert not faults(with_modes(part, whole["pipelines"]), whole["buffers"], BINDING)
    assert set(part["programs"]) < set(whole["programs"])
    words, buffer = part["words"], whole["buffers"][part["words"]["buffer"]]
    assert words["offset"] >= whole["words"]["offset"] + 4 * len(whole["words"]["data"])
    assert words["offset"] + 4 * len(words["data"]) <= buffer["bytes"]
    assert part["tensors"]["losses"]["shape"] == list(shape)


def test_arenas_are_cut_where_a_limit_is_passed() -> None:
    """Between tensors; each piece in a buffer of its own, and all of it updated."""
    limit = 36 << 10
    made = plan(USUAL, binding=limit, buffer=limit, batch_size=1)
    check(made, limit)
    pieces = [b for b in made["buffers"] if b["role"] == "parameters"]
    assert len(pieces) > 3
    assert all(piece["bytes"] <= limit for piece in pieces)
    whole = plan(USUAL, batch_size=1)
    one = [b["bytes"] for b in whole["buffers"] if b["role"] == "parameters"]
    assert one == [sum(piece["bytes"] for piece in pieces)]
    kernels = [p["kernel"] for p in made["pipelines"]]
    updates = [c for c in made["programs"]["update"] if kernels[c["pipeline"]] == "adamw"]
    updated = sum(update["bindings"][4][2] for update in updates)
    assert updated == one[0]


def test_memory_is_what_the_buffers_take() -> None:
    for mode in ("infer", "train", "probe"):
        made = gpu(USUAL, mode, batch_size=8)
        roles: Counter[str] = Counter()
        for buffer in json.loads(made.plan())["buffers"]:
            roles[buffer["role"]] += buffer["bytes"]
        memory = made.memory()
        assert memory.pop("total") == sum(roles.values())
        assert {role: size for role, size in memory.items() if size} == dict(roles)


@pytest.mark.parametrize("name", preset_names())
def test_colouring_costs_little(name: str) -> None:
    """Activations in several buffers, where the CPU has one: at most a tenth more."""
    recipe = preset(name)
    config = core_config(recipe.model(65), recipe.train)
    cpu = _core.memory(config, "train", 1)["activations"]
    assert _core.Gpu(config, "train", 1 << 40, 1 << 40).memory()["activations"] < 1.1 * cpu


@pytest.mark.parametrize("variants", ["", *gpu_variants.NOT_DEFAULT])
def test_memory_of_a_token_does_not_grow_with_the_context(variants: str) -> None:
    """No [T,T] buffer: activations of as many tokens take the same for any length of window."""
    sizes = {}
    for ctx in (256, 1024, 4096):
        model = ModelConfig(65, ctx, 2, 4, 64)
        limits = {"binding": 1 << 40, "buffer": 1 << 40}
        memory = gpu(model, batch_size=4096 // ctx, variants=variants, **limits).memory()
        sizes[ctx] = memory["activations"] + memory["workspace"]
    assert max(sizes.values()) < 1.01 * min(sizes.values()), sizes


def test_tensors_have_the_names_and_shapes_of_the_oracle() -> None:
    listed = plan(USUAL, "probe", batch_size=3)["tensors"]
    shapes = {name: tuple(tensor["shape"]) for name, tensor in listed.items()}
    for tensor in layout.tensors(USUAL):
        for role in ("", "grad:", "m:", "v:"):
            assert shapes[role + tensor.name] == tensor.shape
    for name, shape in layout.activations(USUAL, 3, 16).items():
        assert shapes[name] == shape
    for name, shape in layout.activation_gradients(USUAL, 3, 16).items():
        assert shapes[f"grad:{name}"] == shape


@pytest.mark.parametrize(
    ("limits", "batch", "field"),
    [
        ({"binding": 64 << 10}, 64, "batch_size"),
        ({"buffer": 200 << 10}, 64, "batch_size"),
        ({"binding": 10 << 10}, 1, "d_model"),
    ],
)
def test_refusal_names_limit_need_and_what_fits(
    limits: dict[str, int], batch: int, field: str
) -> None:
    with pytest.raises(_core.TabgptError) as refused:
        gpu(USUAL, batch_size=batch, **limits)
    text = str(refused.value)
    assert "maxStorageBufferBindingSize" in text or "maxBufferSize" in text
    assert str(next(iter(limits.values()))) in text
    assert f"the largest {field} that fits is " in text
    largest, width = int(text.rpartition(" ")[2]), USUAL.n_head

    def made(value: int) -> _core.Gpu:
        if field == "batch_size":
            return gpu(USUAL, batch_size=value, **limits)
        narrow = ModelConfig(65, 16, 2, 4, value, dropout=0.1)
        return gpu(narrow, batch_size=batch, **limits)

    made(largest)
    with pytest.raises(_core.TabgptError):
        made(largest + (1 if field == "batch_size" else width))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_fits_and_its_largest_batch_is_told(name: str) -> None:
    """Under WebGPU's default limits: one more sequence than the refusal says is refused."""
    recipe = preset(name)
    model, usual = recipe.model(65), recipe.train.batch_size

    def made(batch: int) -> _core.Gpu:
        return gpu(model, batch_size=batch)

    made(usual)
    with pytest.raises(_core.TabgptError, match=r"needs \d+, and the device's max\w+ is \d+") as e:
        made(1 << 16)
    text = str(e.value)
    assert "the largest batch_size that fits is " in text
    largest = int(text.rpartition(" ")[2])
    assert largest >= usual
    made(largest)
    with pytest.raises(_core.TabgptError):
        made(largest + 1)


def test_a_tensor_over_the_binding_limit_is_refused_by_name() -> None:
    recipe = preset("behemoth")
    with pytest.raises(
        _core.TabgptError,
        match=r"'transformer.wte.weight' needs \d+, and the device's maxStorageBufferBindingSize "
        r"is 134217728; the largest d_model that fits is \d+",
    ):
        gpu(recipe.model(50257), batch_size=recipe.train.batch_size)


def test_refusal_where_nothing_fits() -> None:
    with pytest.raises(_core.TabgptError, match="no smaller batch_size, ctx or d_model alone fits"):
        gpu(USUAL, binding=128, buffer=128)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(_core.TabgptError, match="maxBufferSize is 0 bytes"):
        gpu(USUAL, buffer=0)


def test_variants_are_a_default_for_each_family_and_others() -> None:
    families = {variant.family for variant in gpu_variants.LISTED}
    assert families == {"matmul", "attention"}
    for family in families:
        listed = [v for v in gpu_variants.LISTED if v.family == family]
        assert len({v.name for v in listed}) == len(listed)
        assert [v.training for v in listed if v.default] == [True]


def test_a_choice_of_kernels_is_in_the_plan() -> None:
    """Each training variant changes its family's kernels and no other's."""

    def kernels(choice: str) -> set[str]:
        made = plan(USUAL, variants=choice)
        return {p["kernel"] for p in made["pipelines"]}

    usual = kernels("")
    for variant in gpu_variants.LISTED:
        if variant.choice not in gpu_variants.TRAINED:
            continue
        changed = kernels(variant.choice) ^ usual
        prefixes = {"matmul": "matmul_", "attention": ("attention_", "flash_")}
        assert bool(changed) != variant.default
        assert all(name.startswith(prefixes[variant.family]) for name in changed)
    both = kernels(" attention=plain  matmul=naive ")
    assert {"matmul_naive", "attention_forward"} <= both
    assert not {"matmul_tiled", "flash_forward"} & both


def offered(family: str) -> str:
    return ", ".join(v.name for v in gpu_variants.LISTED if v.family == family and v.training)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("matmul=fast", f"unknown matmul 'fast'; there are {offered('matmul')}"),
        ("attention=", f"unknown attention ''; there are {offered('attention')}"),
        ("matmul=blocked8", "the matmul 'blocked8' is for benches alone; train with"),
        ("kernel=naive", "unknown word 'kernel' in a choice of GPU kernels"),
        ("naive", "unknown word 'naive' in a choice of GPU kernels"),
        ("maker=amd", "unknown word 'maker' in .*; there are matmul=, .*, feature= and vendor="),
    ],
)
def test_an_unknown_kernel_is_refused(choice: str, said: str) -> None:
    with pytest.raises(_core.TabgptError, match=said):
        gpu(USUAL, variants=choice)


def test_a_kernel_is_refused_where_its_feature_is_missing() -> None:
    operation = _core.GpuOp("matmul NN 64 64 64")
    with pytest.raises(_core.TabgptError, match="'f16' needs the WebGPU feature 'shader-f16'"):
        operation.plan("matmul=f16 feature=subgroups", BINDING, BUFFER)
    made = json.loads(operation.plan("matmul=f16 feature=shader-f16", BINDING, BUFFER))
    assert [p["kernel"] for p in made["pipelines"]] == ["matmul_f16"]


def test_packing_is_part_of_the_product_that_needs_it() -> None:
    """So that its time is told with it."""
    made = json.loads(_core.GpuOp("matmul TN 70 33 66").plan("matmul=f16_packed", BINDING, BUFFER))
    kernels = [made["pipelines"][entry["pipeline"]]["kernel"] for entry in made["programs"]["run"]]
    assert kernels == ["pack_f16", "pack_f16", "matmul_f16_packed"]


def parts(*sizes: int, variants: str = "") -> int:
    """Of K, in which a product is summed."""
    operation = _core.GpuOp("matmul TN {} {} {}".format(*sizes))
    commands = json.loads(operation.plan(variants, 1 << 40, 1 << 40))["programs"]["run"]
    return commands[0]["grid"][2]


def test_a_product_of_few_tiles_is_summed_in_parts() -> None:
    """Of K, so that a GPU has 64 workgroups; and not in parts of less than 256."""
    assert parts(64, 511, 64) == 1
    assert parts(64, 1024, 64) == 4
    assert parts(384, 1 << 14, 384) == 2
    assert parts(384, 1 << 14, 384, variants="matmul=tiled") == 1
    assert parts(512, 1 << 14, 512) == 1


@pytest.mark.parametrize("vendor", gpu_variants.VENDORS)
def test_every_vendors_plan_is_legal_and_fills_its_gpu(vendor: str) -> None:
    """With workgroups, of a product that is deep enough; a choice's own kernel stays."""
    words = f"vendor={vendor}"
    grid = 12 * parts(256, 1 << 14, 192, variants=words)  # 12 tiles
    assert (
        grid
        >= {"nvidia": 170, "amd": 96, "intel": 32, "apple": 40, "qualcomm": 6, "arm": 24}[vendor]
        > grid - 12
    )
    made = plan(USUAL, variants=words, batch_size=64)
    assert not faults(with_modes(made, made["pipelines"]), made["buffers"], BINDING)
    chosen = plan(USUAL, variants=f"matmul=naive {words}", batch_size=64)
    assert "matmul_naive" in {p["kernel"] for p in chosen["pipelines"]}


def test_a_vendor_without_constants_is_none_and_the_last_one_counts() -> None:
    usual = plan(USUAL)
    for words in ("vendor=google", "vendor=", "vendor=nvidia vendor=google"):
        assert plan(USUAL, variants=words) == usual
    deep = (256, 1 << 14, 192)
    assert parts(*deep, variants="vendor=google vendor=nvidia") > parts(*deep) == 6


@pytest.mark.parametrize("name", write_plans.PLANS)
def test_plan_is_the_one_checked_in(name: str) -> None:
    """A change of plan shows in review: `python tests/write_plans.py` writes it."""
    assert write_plans.file_of(name).read_text() == write_plans.text(name)


@pytest.mark.parametrize(
    ("shader", "old", "new", "message"),
    [
        (
            "layernorm_backward",
            "override DROPOUT: u32",
            "override DROPOUT",
            "write 'override NAME: u32 =",
        ),
        ("add_partials", "@binding(2)", "@binding(3)", "binding 3; the next one is 2"),
        ("adamw", "n: u32,", "n: bool,", "the field 'n: bool' is not of the form"),
        ("kv_store", "include step", "include steps", "there is no file shaders/steps.wgsl"),
    ],
)
def test_a_bad_header_stops_the_build(
    tmp_path: Path, shader: str, old: str, new: str, message: str
) -> None:
    for part in ("cpp", "shaders"):
        shutil.copytree(ROOT / part, tmp_path / part)
    for file in ("pyproject.toml", "reference/tabgpt/presets.json"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    source = tmp_path / f"shaders/{shader}.wgsl"
    before = source.read_text()
    assert before.count(old) == 1
    source.write_text(before.replace(old, new))
    line = before[: before.index(old)].count("\n") + 1
    cmake = Path(sys.executable).parent / "cmake"
    command = [cmake, "-S", tmp_path / "cpp", "-B", tmp_path / "build", "-DTABGPT_PYTHON=OFF"]
    done = subprocess.run(command, capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"shaders/{shader}.wgsl:{line}: " in said
    assert message in said
