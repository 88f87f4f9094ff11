"""What the kernels promise beyond a case of tests/cases.py, under both compilers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from bounds import EPS, Array, Arrays
from case import SITE, normal
from case_attention import AttentionBackward, AttentionForward
from case_dense import DropoutApply, GeluBackward, LayernormBackward, Matmul
from case_ends import AdamW, CrossEntropyBackward, EmbeddingBackward, EmbeddingForward
from kernel_calls import (
    CLIP,
    FINITE,
    LOSS_SUM,
    NORM,
    NOT_FINITE,
    SQUARES_CHUNK,
    STATS,
    calls,
    norm_of,
)
from kernel_runner import Dispatch, Kernels, elements, folded, unwritten
from tabgpt import ops, philox, shaders
from wgsl_bounds import QUOTIENT, SQRT, sum_of_squares


def stats_of(kernels: Kernels, x: Array, losses: Array, clip: float = 0.0) -> Array:
    """What a step leaves in stats: sum_losses, square_sums and norm."""
    tensors = {
        "x": x,
        "losses": losses,
        "partials": unwritten(-(-x.size // SQUARES_CHUNK)),
        "stats": np.zeros(STATS, np.float32),
    }
    bound = {"losses": "losses", "stats": "stats"}
    losses_first = Dispatch("sum_losses", (1, 1, 1), {"n": losses.size}, bound)
    dispatches = [losses_first, *norm_of("x", x.size, clip)]
    return kernels.run(tensors, dispatches, ["stats"])["stats"]


def random(*shape: int, scale: float = 1.0) -> Array:
    return normal(np.random.default_rng(5), *shape, scale=scale)


# -- losses, norm, clipping, the flag --


@pytest.mark.parametrize("n", [1, 255, 257, 5000])
def test_losses_are_summed_onto_what_is_there(kernels: Kernels, n: int) -> None:
    losses = abs(random(n))
    stats = np.array([3.5, 0, 0, 0, 0], np.float32)
    run = Dispatch("sum_losses", (1, 1, 1), {"n": n}, {"losses": "losses", "stats": "stats"})
    got = kernels.run({"losses": losses, "stats": stats}, [run], ["stats"])["stats"]
    total = losses.astype(np.float64).sum() + 3.5
    assert abs(got[LOSS_SUM] - total) <= (n / 256 + 10) * EPS * total
    assert got[NOT_FINITE] == 0


@pytest.mark.parametrize("clip", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("n", [7, 4097, 300001])
def test_norm_and_clip_factor_are_torchs(kernels: Kernels, n: int, clip: float) -> None:
    x = random(n, scale=0.01)
    got = stats_of(kernels, x, np.ones(3, np.float32), clip)
    norm = np.sqrt((x.astype(np.float64) ** 2).sum())
    relative = sum_of_squares(n) / 2 + SQRT
    assert abs(got[NORM] - norm) <= relative * norm
    factor = min(1.0, clip / (norm + 1e-6)) if clip else 1.0
    assert abs(got[CLIP] - factor) <= (relative + QUOTIENT + EPS) * factor
    assert got[FINITE] == 1


@pytest.mark.parametrize("clip", [0.1])
def test_clipping_adds_1e_6_to_a_small_norm(kernels: Kernels, clip: float) -> None:
    """PyTorch's clip_grad_norm_; at a norm of 1e-6 it halves the factor."""
    got = stats_of(kernels, np.full(1, 1e-6, np.float32), np.ones(1, np.float32), clip * 1e-5)
    assert got[CLIP] == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1, 4095, 4096, 8999])
def test_one_gradient_that_is_not_finite_lowers_the_flag(
    kernels: Kernels, bad: float, where: int
) -> None:
    x = random(9000)
    x[where] = bad
    assert stats_of(kernels, x, np.ones(3, np.float32))[FINITE] == 0


def test_a_square_that_overflows_lowers_the_flag(kernels: Kernels) -> None:
    x = random(9000)
    x[17] = 1e25
    assert stats_of(kernels, x, np.ones(3, np.float32))[FINITE] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("where", [0, 300])
def test_one_loss_that_is_not_finite_lowers_the_flag(
    kernels: Kernels, bad: float, where: int
) -> None:
    losses = abs(random(301))
    losses[where] = bad
    got = stats_of(kernels, random(10), losses)
    assert got[NOT_FINITE] == 1
    assert got[FINITE] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", [0, 64, 130])
def test_a_logit_that_is_not_finite_is_not_a_plausible_loss(
    kernels: Kernels, bad: float, where: int
) -> None:
    """Whatever a driver makes of NaN in exp and max."""
    case = CrossEntropyBackward(3, 131)
    call = next(calls(case))
    call.tensors["logits"][1, where] = bad
    losses = kernels.run(call.tensors, call.dispatches, ["losses"])["losses"]
    assert losses[1] == -1
    assert (losses[[0, 2]] > 0).all()
    assert stats_of(kernels, random(10), losses)[FINITE] == 0


def test_adamw_changes_nothing_without_the_flag(kernels: Kernels) -> None:
    case = AdamW(1009, 9, 0.95, 0.1)
    call = next(calls(case))
    call.tensors["stats"][FINITE] = 0
    got = kernels.run(call.tensors, call.dispatches, ["p", "m", "v"])
    for name, value in got.items():
        assert (value == call.tensors[name]).all(), name


def test_tensors_that_do_not_decay_keep_their_size(kernels: Kernels) -> None:
    """With gradient and moments zero, only the decay moves a parameter."""
    case = AdamW(257, 9, 0.95, 0.1)
    call = next(calls(case))
    for name in ("g", "m", "v"):
        call.tensors[name] = np.zeros_like(call.tensors[name])
    decayed = kernels.run(call.tensors, call.dispatches, ["p"])["p"]
    run = call.dispatches[0]
    smaller = call.tensors["p"] * np.float32(run.step["keep"])
    assert (decayed == smaller).all()
    for n in (0, 100):
        params = {**run.params, "decayed": n}
        kept = Dispatch("adamw", run.grid, params, run.tensors, step=run.step)
        got = kernels.run(call.tensors, [kept], ["p"])["p"]
        assert (got[:n] == smaller[:n]).all()
        assert (got[n:] == call.tensors["p"][n:]).all()


def test_gradients_that_follow_each_other_are_summed_in_one_pass(kernels: Kernels) -> None:
    """Two of 65 elements, 128 apart in the arena; what lies between them stays."""
    partials, before = random(3, 2, 65), random(193)
    params = {"n": 130, "chunks": 3, "stride": 130, "first": 0, "width": 65, "apart": 128}
    bound = {"partials": "partials", "out": "out"}
    run = Dispatch("add_partials", elements(130, 64), params, bound)
    got = kernels.run({"partials": partials, "out": before}, [run], ["out"])["out"]
    sums = partials[0] + partials[1] + partials[2]
    want = before.copy()
    want[:65] += sums[0]
    want[128:] += sums[1]
    assert (got == want).all()


def test_a_masked_gradient_is_the_gradient_and_its_mask(kernels: Kernels) -> None:
    """Of the branch behind a layer norm's input: dropout's backward, bit for bit."""
    case = LayernormBackward(13, 42)
    masked = [call for call in calls(case) if "masked" in call.tensors]
    assert len(masked) == 3
    for call in masked:
        got = kernels.run(call.tensors, call.dispatches, [call.outputs["dx"], "masked"])
        drop = DropoutApply(13 * 42, 0.5)
        alone = next(calls(drop))
        B = np.zeros_like(alone.tensors["B"])
        B[:, -1] = got[call.outputs["dx"]].reshape(-1)
        want = kernels.run(alone.tensors | {"B": B}, alone.dispatches, ["out"])["out"].reshape(-1)
        assert 0 < (want == 0).sum() < want.size
        assert (got["masked"].reshape(-1) == want).all()


def test_gelu_backward_keeps_the_gradient_it_had(kernels: Kernels) -> None:
    """A product's epilogue leaves what comes before the slope, where "probe" asks for it."""
    case = GeluBackward(257, "gelu_tanh")
    keeping = [call for call in calls(case) if call.variant.endswith("keeping")]
    assert len(keeping) > 4
    for call in keeping:
        kept = kernels.run(call.tensors, call.dispatches, ["before"])["before"]
        assert (kept == case.inputs()["dout"]).all(), call.variant


# -- rows that do not count, dropout's switch, wide indices --


def test_rows_past_the_vocabulary_count_for_nothing(kernels: Kernels) -> None:
    """A target of 2^32 - 1 masks its row: a shorter batch runs on the plan of a longer one."""
    call = next(calls(CrossEntropyBackward(5, 67)))
    whole = kernels.run(call.tensors, call.dispatches, ["logits", "losses"])
    call.tensors["targets"][2] = 0xFFFFFFFF
    call.tensors["targets"][3] = 67
    got = kernels.run(call.tensors, call.dispatches, ["logits", "losses"])
    assert (got["losses"][2:4] == 0).all() and (got["logits"][2:4] == 0).all()
    for row in (0, 1, 4):
        assert got["losses"][row] == whole["losses"][row]
        assert (got["logits"][row] == whole["logits"][row]).all()


def test_without_training_dropout_lets_all_through(kernels: Kernels) -> None:
    cases = [
        (DropoutApply(257, 0.5), DropoutApply(257, 0.0), "out"),
        (AttentionForward(1, 9, 2, 8, 0.5), AttentionForward(1, 9, 2, 8, 0.0), "out"),
        (EmbeddingForward(2, 7, 5, 3, p=0.5), EmbeddingForward(2, 7, 5, 3), "out"),
    ]
    for case, plain, output in cases:
        for call, other in zip(calls(case), calls(plain), strict=True):
            off = [
                Dispatch(d.kernel, d.grid, d.params, d.tensors, d.constants, {**d.step, "train": 0})
                for d in call.dispatches
            ]
            got = kernels.run(call.tensors, off, [output])[output]
            written = call.outputs.values()
            shared = {k: v for k, v in call.tensors.items() if k not in written}
            want = kernels.run(other.tensors | shared, other.dispatches, [output])[output]
            assert (got == want).all(), f"{case.name} {call.variant}"


WIDE = """
//! include step.wgsl
//! include philox.wgsl
struct Params { row: u32, columns: u32, column: u32, site: u32, threshold: u32, scale: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<uniform> step: Step;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<storage, read_write> fours: array<f32>;  // and the three after
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
  let index = wide_index(p.row, p.columns, p.column + i);
  out[i] = dropout_factor(index, step, p.site, p.threshold, p.scale);
  let four = dropout_factors(index, step, p.site, p.threshold, p.scale);
  fours[4u * i] = four.x;
  fours[4u * i + 1u] = four.y;
  fours[4u * i + 2u] = four.z;
  fours[4u * i + 3u] = four.w;
}
"""


@pytest.mark.parametrize(
    ("row", "columns", "column"),
    [
        *[(0, 7, 0), (65535, 65537, 0), (70000, 65000, 11), (2**20 + 3, 2**12, 2**12 - 32)],
        (4, 2**30 - 1, 0),  # element 2^32 - 4: every offset in a block on both sides of the carry
    ],
)
def test_masks_go_on_past_32_bits(kernels: Kernels, row: int, columns: int, column: int) -> None:
    """Element row * columns + column of B H T^2 passes 2^32; the carry must reach the high word."""
    d = ops.Dropout(0.3, seed=7, step=3, micro=2)
    c3 = philox.stream(philox.DROPOUT, d.micro, *SITE)
    numbers = {"site": c3 & 0xFFFF, "threshold": int(d.p * 2**32), "scale": 2.0}
    run = Dispatch(
        "wide",
        (1, 1, 1),
        {"row": row, "columns": columns, "column": column, **numbers},
        {"out": "out", "fours": "fours"},
        step={"seed": d.seed, "step": d.step, "micro": d.micro, "train": 1},
        code=WIDE,
    )
    tensors = {"out": unwritten(64), "fours": unwritten(64, 4)}
    got = kernels.run(tensors, [run], ["out", "fours"])
    index = np.arange(67, dtype=np.uint64) + np.uint64(row * columns + column)
    words = philox.bits_at(d.seed, index, d.step, c3)
    wanted = np.where(words >= numbers["threshold"], 2.0, 0.0)
    assert (got["out"] == wanted[:64]).all()
    assert (got["fours"] == np.lib.stride_tricks.sliding_window_view(wanted, 4)).all()


# -- generation --


@pytest.mark.parametrize("position", [0, 5, 8])
def test_keys_and_values_go_to_their_positions(kernels: Kernels, position: int) -> None:
    """Row r to position + r; rows past ctx are left out, other positions keep what they hold."""
    rows, H, D, ctx = 4, 3, 5, 10
    qkv = random(rows, 3, H, D)
    before = random(2, H, ctx, D, scale=9)
    tensors: Arrays = {"qkv": qkv, "k": before[0], "v": before[1]}
    params = {"rows": rows, "heads": H, "head_dim": D, "ctx": ctx}
    bound = {"qkv": "qkv", "k_cache": "k", "v_cache": "v"}
    step = {"position": position}
    run = Dispatch("kv_store", elements(rows * H * D), params, bound, step=step)
    got = kernels.run(tensors, [run], ["k", "v"])
    for part, name in ((1, "k"), (2, "v")):
        want = before[part - 1].copy()
        n = min(rows, ctx - position)
        want[:, position : position + n] = qkv[:n, part].swapaxes(0, 1)
        assert (got[name] == want).all()


# -- features, grids, places, repetition --


def test_no_kernel_goes_unseen_for_want_of_a_feature(kernels: Kernels) -> None:
    assert kernels.features >= set(shaders.FEATURES.values())


FOLDED = [
    LayernormBackward(7, 13),
    AttentionForward(2, 13, 3, 7, 0.2),
    AttentionBackward(2, 13, 3, 7, 0.2),
    CrossEntropyBackward(7, 3),
    Matmul("NT", 33, 65, 132, "bias+dropout+residual"),
    EmbeddingForward(3, 64, 48, 65),
    EmbeddingBackward(3, 64, 48, 65),
    AdamW(1009, 9, 0.99, 0.0),
]

NOT_FOLDED = re.compile("layernorm_params|add_partials|matmul_(?!split)")


@pytest.mark.parametrize("case", FOLDED, ids=lambda case: case.name)
def test_a_folded_grid_gives_the_same_bits(kernels: Kernels, case) -> None:
    """As over 65,535 workgroups would be: two in x, the others in y, some past the end."""
    for call in calls(case):
        outputs = list(call.outputs.values())
        straight = kernels.run(call.tensors, call.dispatches, outputs)
        narrow = [
            Dispatch(d.kernel, folded(d.grid[0], 2), d.params, d.tensors, d.constants, d.step)
            if not NOT_FOLDED.match(d.kernel)
            else d
            for d in call.dispatches
        ]
        if narrow == call.dispatches:
            assert all(d.grid[0] < 3 or NOT_FOLDED.match(d.kernel) for d in call.dispatches)
            continue
        got = kernels.run(call.tensors, narrow, outputs)
        for name in outputs:
            assert (got[name] == straight[name]).all(), f"{call.variant} {name}"


EXACT = [
    Matmul("TN", 65, 129, 131, "accumulate"),
    AttentionForward(1, 131, 2, 64, 0.2),
    AttentionBackward(1, 131, 2, 64, 0.2),
    LayernormBackward(131, 257),
    EmbeddingBackward(8, 64, 128, 256),
    CrossEntropyBackward(131, 65),
]


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_two_runs_are_bit_identical(kernels: Kernels, case) -> None:
    for call in calls(case):
        outputs = list(call.outputs.values())
        first = kernels.run(call.tensors, call.dispatches, outputs)
        second = kernels.run(call.tensors, call.dispatches, outputs)
        for name in outputs:
            assert (first[name] == second[name]).all(), name


@pytest.mark.parametrize("case", EXACT[:4], ids=lambda case: case.name)
def test_no_kernel_writes_past_its_tensor(kernels: Kernels, case) -> None:
    """Each written tensor lies in a longer one; what follows it stays."""
    for call in calls(case):
        outputs = list(call.outputs.values())
        longer = {
            name: np.concatenate([value.reshape(-1), np.full(300, 7, np.float32)])
            if name in outputs
            else value
            for name, value in call.tensors.items()
        }
        got = kernels.run(longer, call.dispatches, outputs)
        for name in outputs:
            assert (got[name][-300:] == 7).all(), name
