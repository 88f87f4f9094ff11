"""One-term mistakes for tests/mutations.py: a text that occurs once in a file, and its successor.

Each changes one term of the mathematics and still compiles. When the code around
an anchor changes, the script says which anchor no longer occurs exactly once.
"""

from __future__ import annotations

from typing import NamedTuple

from mutants_flash import FLASH_MUTANTS
from mutants_gpu import GPU_MUTANTS


class Mutant(NamedTuple):
    what: str
    file: str
    old: str
    new: str

    @property
    def kind(self) -> str:
        return {"cpp": "core", "reference": "oracle", "shaders": "gpu"}[self.file.split("/")[0]]


def _core(path: str, what: str, old: str, new: str) -> Mutant:
    return Mutant(what, f"cpp/src/{path}", old, new)


def _oracle(path: str, what: str, old: str, new: str) -> Mutant:
    return Mutant(what, f"reference/tabgpt/{path}", old, new)


MUTANTS = [
    # -- core: gradients --
    _core(
        "backward.cpp",
        "no gradient for a linear layer's bias",
        "kernels::bias_backward(m.pool, m.workspace, m.dp(bias), dy, R, N);",
        "",
    ),
    _core(
        "backward.cpp",
        "weight gradients are not accumulated over micro-batches",
        "m.dp(weight), {.accumulate = add}",
        "m.dp(weight), {.accumulate = false}",
    ),
    _core(
        "backward.cpp",
        "the MLP's residual dropout goes back by attention's mask",
        "Site::mlp_residual, layer",
        "Site::attention_residual, layer",
    ),
    _core(
        "backward.cpp",
        "dropout of the embedding is left out going back",
        "m.dropout(batch, Site::embedding, 0)",
        "{}",
    ),
    _core(
        "head.cpp",
        "the head's gradient replaces wte's",
        "m.dp(m.layout.wte), {.accumulate = add}",
        "m.dp(m.layout.wte), {.accumulate = false}",
    ),
    _core(
        "kernels/layernorm.cpp",
        "LayerNorm's dx lacks the mean's part",
        "(g - mean_g - normal * mean_gx)",
        "(g - normal * mean_gx)",
    ),
    _core(
        "kernels/layernorm.cpp",
        "LayerNorm's dx lacks the variance's part",
        "- normal * mean_gx)",
        ")",
    ),
    _core(
        "kernels/math.hpp",
        "tanh GELU's slope lacks a factor of 1 - sigmoid",
        "x * s * (s * e)",
        "x * s * s",
    ),
    _core(
        "kernels/math.hpp",
        "tanh GELU's slope has its cubic term once, not three times",
        "splat(3 * two_k * 0.044715f)",
        "splat(two_k * 0.044715f)",
    ),
    _core(
        "kernels/math.hpp",
        "erf GELU's slope lacks x times the density",
        "madd(x * e, splat(0.3989422804f), phi)",
        "phi",
    ),
    _core(
        "kernels/attention_backward.cpp",
        "dS lacks the row sum of dO O",
        "(load(dsk) * factor - mean)",
        "(load(dsk) * factor)",
    ),
    _core(
        "kernels/attention_backward.cpp",
        "dS lacks dropout's factor",
        "(load(dsk) * factor - mean)",
        "(load(dsk) - mean)",
    ),
    _core(
        "kernels/attention_backward.cpp",
        "dV without dropout's factor",
        "store(pk, probability * factor)",
        "store(pk, probability)",
    ),
    _core(
        "kernels/attention_backward.cpp",
        "dQ is not scaled by 1/sqrt(D)",
        "smaller(BQ, T - q0), scale)",
        "smaller(BQ, T - q0), 1.0f)",
    ),
    _core(
        "kernels/cross_entropy.cpp",
        "dlogits lacks the one-hot target",
        "row[targets[r]] -= scale;",
        "",
    ),
    _core(
        "kernels/embedding.cpp",
        "wpe's gradient takes each row for the one before it",
        "dwpe[t * C + i] += dx[(b * T + t) * C + i]",
        "dwpe[t * C + i] += dx[b * T * C + i]",
    ),
    # -- core: forward --
    _core(
        "kernels/attention.cpp",
        "online softmax does not rescale the running sum",
        "const vf correction = exp(before - top);",
        "const vf correction = splat(1.0f);",
    ),
    _core(
        "kernels/attention.cpp",
        "a query does not see its own key",
        "hidden(k, v + ahead)",
        "hidden(k + 1, v + ahead)",
    ),
    _core(
        "kernels/layernorm.cpp",
        "LayerNorm's eps is 1e-6",
        "constexpr float eps = 1e-5f;",
        "constexpr float eps = 1e-6f;",
    ),
    _core(
        "kernels/gemm.cpp",
        "the bias of a column tile is the first tile's",
        "load_n(e.bias + column + j, n)",
        "load_n(e.bias + j, n)",
    ),
    _core(
        "forward.cpp",
        "every micro-batch has the first one's masks",
        "batch.micro, layer",
        "0, layer",
    ),
    _core(
        "decode.cpp",
        "a cached token's key is stored one place early",
        "(h * cache.ctx + position) * D",
        "(h * cache.ctx + position - (position > 0)) * D",
    ),
    # -- core: optimizer, randomness, sampling --
    _core(
        "train.cpp",
        "gradients are summed over micro-batches, not averaged",
        "1.0 / static_cast<double>(B * T * n_micro)",
        "1.0 / static_cast<double>(B * T)",
    ),
    _core(
        "train.cpp",
        "a step that is not finite is applied",
        "if (finite) update(norm);",
        "update(norm);",
    ),
    _core(
        "train.cpp",
        "biases decay too",
        "apply(decayed, layout_.total_floats, false);",
        "apply(decayed, layout_.total_floats, true);",
    ),
    _core("optimizer.cpp", "clipping without 1e-6 beside the norm", "(norm + 1e-6)", "norm"),
    _core(
        "optimizer.cpp",
        "the second moment is corrected by beta1",
        "1.0 - std::pow(config.beta2, t)",
        "1.0 - std::pow(config.beta1, t)",
    ),
    _core(
        "optimizer.cpp",
        "bias correction counts steps from 0",
        "static_cast<double>(step) + 1",
        "static_cast<double>(step) + 0",
    ),
    _core(
        "optimizer.cpp",
        "warm-up reaches lr a step early",
        "static_cast<double>(config.warmup_steps + 1)",
        "static_cast<double>(config.warmup_steps)",
    ),
    _core("kernels/adamw.cpp", "no weight decay", "* keep - step", "- step"),
    _core(
        "kernels/adamw.cpp",
        "no eps",
        "madd(sqrt(square), root2, eps)",
        "madd(sqrt(square), root2, splat(0.0f))",
    ),
    _core(
        "kernels/adamw.cpp",
        "moments of gradients that are not clipped",
        "load_n(g + i, count) * grad_scale",
        "load_n(g + i, count)",
    ),
    _core("philox.hpp", "a round lacks the second key", "^ c3 ^ k1", "^ c3"),
    _core(
        "kernels/masks.hpp",
        "a mask starts at a whole block",
        "static_cast<size_t>(first % 4)",
        "0 * static_cast<size_t>(first)",
    ),
    _core(
        "batches.cpp", "the last window is never drawn", "part.count - T;", "part.count - T - 1;"
    ),
    _core(
        "batches.cpp",
        "the short window at a split's end is left out",
        "active_ = next_ < whole;",
        "active_ = seeded ? next_ < whole : next_ + rows_ <= whole;",
    ),
    _core("sampler.cpp", "of equal logits the highest id stands first", ": a < b", ": a > b"),
    _core(
        "sampler.cpp",
        "top-p keeps one token more",
        "n_kept = j + 1;",
        "n_kept = std::min(j + 2, n_kept);",
    ),
    _core("generate.cpp", "a full window drops its oldest half", "n_window_ / 4", "n_window_ / 2"),
    # -- the oracle --
    _oracle(
        "ops.py", "LayerNorm's dx lacks the mean's part", " - dnorm.mean(-1, keepdims=True)", ""
    ),
    _oracle(
        "ops.py",
        "LayerNorm's dx lacks the variance's part",
        " - norm * (dnorm * norm).mean(-1, keepdims=True)",
        "",
    ),
    _oracle("ops.py", "LayerNorm's eps is 1e-6", "LN_EPS = 1e-5", "LN_EPS = 1e-6"),
    _oracle(
        "ops.py",
        "tanh GELU's slope has its cubic term once, not three times",
        "(1 + 3 * _TANH_CUBIC * x * x)",
        "(1 + _TANH_CUBIC * x * x)",
    ),
    _oracle("ops.py", "GELU's slope lacks the factor x", "+ x * density", "+ density"),
    _oracle("ops.py", "dS lacks the row sum of dO O", " - (do * o).sum(-1, keepdims=True)", ""),
    _oracle(
        "ops.py",
        "dP lacks dropout's factor",
        "(do @ v.swapaxes(-1, -2)) * factor",
        "(do @ v.swapaxes(-1, -2))",
    ),
    _oracle("ops.py", "dS is not scaled", "dscores /= sqrt(C // n_head)", "dscores /= 1"),
    _oracle(
        "ops.py",
        "scores are not scaled",
        "q @ k.swapaxes(-1, -2) / sqrt(D)",
        "q @ k.swapaxes(-1, -2)",
    ),
    _oracle(
        "ops.py",
        "wpe's gradient is the first sequence's",
        "dwpe[:T] = dx.sum(0)",
        "dwpe[:T] = dx[0]",
    ),
    _oracle("ops.py", "dlogits lacks the one-hot target", "targets] -= 1", "targets] -= 0"),
    _oracle(
        "ops.py",
        "a bias's gradient is the first row's",
        "x2.T @ dy2, dy2.sum(0)",
        "x2.T @ dy2, dy2[0]",
    ),
    _oracle(
        "model.py",
        "the MLP's branch replaces the residual gradient",
        'dx = dx + layernorm(f"{h}.ln_2"',
        'dx = layernorm(f"{h}.ln_2"',
    ),
    _oracle(
        "model.py", "the head's gradient replaces the embedding's", "dwte + dlogits", "dlogits"
    ),
    _oracle(
        "model.py",
        "the MLP's residual dropout is left out going back",
        "dbranch = drop(dx, i, ops.MLP_RESIDUAL)",
        "dbranch = dx",
    ),
    _oracle(
        "model.py",
        "dropout of the embedding is left out going back",
        "dx = drop(dx, 0, ops.EMBEDDING)",
        "dx = dx",
    ),
    _oracle(
        "optim.py", "the second moment averages gradients", "(1 - beta2) * g * g", "(1 - beta2) * g"
    ),
    _oracle(
        "optim.py",
        "bias correction counts steps from 0",
        "1 - beta2 ** (step + 1)",
        "1 - beta2 ** step if step else 1",
    ),
    _oracle("optim.py", "clipping without 1e-6 beside the norm", "(norm + 1e-6)", "norm"),
    _oracle("optim.py", "the cosine ends at 0", "return min_lr + 0.5", "return 0.5"),
    _oracle("philox.py", "a round lacks the first key", " ^ np.uint64(k0)", ""),
    _oracle(
        "philox.py", "normals from u, not 1 - u", "np.log(1 - u[:, 0])", "np.log(u[:, 0] + 2**-25)"
    ),
    _oracle("sampling.py", "a full window drops one token", "max(1, ctx // 4)", "1"),
    _oracle(
        "sampling.py",
        "of equal logits the highest id stands first",
        'np.argsort(-logits, kind="stable")',
        'len(logits) - 1 - np.argsort(-logits[::-1], kind="stable")',
    ),
    _oracle(
        "flash.py",
        "the running sum is not rescaled",
        "total = rescale * total +",
        "total = total +",
    ),
    _oracle(
        "flash.py",
        "rows of dropout's factors are one element apart",
        "row * np.uint64(length) +",
        "row +",
    ),
    _oracle(
        "flash.py", "tiles on the diagonal are skipped", "i.stop <= j.start", "i.start <= j.start"
    ),
    # -- shaders --
    *(
        Mutant(what, f"shaders/{file}", old, new)
        for file, what, old, new in [*GPU_MUTANTS, *FLASH_MUTANTS]
    ),
]
