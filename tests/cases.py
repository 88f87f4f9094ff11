"""One list of operation cases with three uses: parity test, gradient test, bench sweep.

A `Case` (tests/case.py) is one operation at one size. It makes its own float32 inputs, knows the
oracle's answer in float64, and owns its tolerance: an elementwise bound derived
from the operation's own sums (tests/bounds.py), never one flat number.

To add an operation:
1. write it in reference/tabgpt/ops.py, forward and backward, complex-safe;
2. write its kernel, and its line in `tabgpt_op`'s table (cpp/src/ops.cpp);
3. subclass `Case` in a tests/case_*.py: `op` is the table's name, `inputs`, `expected`, `bound`,
   `call` (the table's parameters and tensors), and `primal` when the operation is
   a gradient (what it is the gradient of);
4. append sizes to `CASES`: 1, odd, prime, and as large as the models use;
5. write its shader (shaders/) and say in tests/kernel_calls.py how it is dispatched; sizes around
   its tiles go to tests/gpu_cases.py.
Parity on every backend, the gradient check and the bench sweep then run it.
"""

from __future__ import annotations

from case import Case
from case_attention import AttentionBackward, AttentionDecode, AttentionForward
from case_dense import (
    BiasBackward,
    DropoutApply,
    GeluBackward,
    GeluForward,
    LayernormBackward,
    LayernormForward,
    Matmul,
)
from case_ends import (
    AdamW,
    CrossEntropyBackward,
    CrossEntropyForward,
    EmbeddingBackward,
    EmbeddingForward,
    Normals,
    Philox,
    SumOfSquares,
)
from tabgpt import philox

_MATMUL_SIZES = [
    *[(1, 1, 1), (1, 7, 5), (13, 1, 17), (3, 5, 1), (31, 37, 29), (64, 48, 32)],
    *[(65, 129, 67), (127, 131, 257), (192, 384, 128), (11, 13, 2048), (384, 384, 384)],
    *[(1, 333, 301), (2, 133, 97), (3, 70, 40), (4, 259, 129)],  # a few rows: not packed
]

CASES: list[Case] = [
    *[Matmul(trans, *size) for trans in ("NN", "NT", "TN") for size in _MATMUL_SIZES],
    *[
        Matmul("NN", *size, epilogue)
        for size in ((1, 1, 1), (2, 131, 67), (5, 3, 2), (37, 131, 67), (96, 128, 64))
        for epilogue in (
            "bias",
            "bias+gelu_tanh",
            "bias+gelu_erf",
            "bias+residual",
            "bias+dropout+residual",
            "accumulate",
        )
    ],
    *[
        Matmul("TN", *size, "accumulate")
        for size in ((1, 1, 1), (4, 129, 65), (31, 37, 29), (65, 129, 131))
    ],
    Matmul("NT", 3, 131, 67, "accumulate"),
    *[BiasBackward(M, N) for M, N in ((1, 1), (7, 3), (131, 37), (1024, 384))],
    *[
        kind(R, C)
        for kind in (LayernormForward, LayernormBackward)
        for R, C in ((1, 1), (3, 1), (1, 5), (7, 13), (67, 48), (131, 257), (768, 128))
    ],
    *[
        kind(n, activation)
        for kind in (GeluForward, GeluBackward)
        for n in (1, 7, 1009, 65536)
        for activation in ("gelu_tanh", "gelu_erf")
    ],
    *[DropoutApply(n, p) for n in (1, 3, 1009, 65537) for p in (0.0, 0.1, 0.5)],
    *[
        kind(*size, p)
        for kind in (AttentionForward, AttentionBackward)
        for size in (
            *[(1, 1, 1, 1), (2, 1, 3, 5), (1, 3, 1, 2), (2, 13, 3, 7), (1, 37, 2, 16)],
            *[(3, 64, 3, 32), (1, 131, 2, 64), (1, 65, 1, 128), (2, 128, 4, 32)],
        )
        for p in (0.0, 0.2)
    ],
    *[AttentionDecode(*s) for s in ((1, 1, 1, 1), (1, 8, 3, 5), (37, 64, 4, 32), (67, 67, 1, 128))],
    *[
        EmbeddingForward(*s)
        for s in ((1, 1, 1, 1), (2, 7, 5, 3), (3, 64, 48, 65), (1, 1, 33, 65, 13))
    ],
    EmbeddingForward(2, 7, 5, 3, p=0.5),
    EmbeddingForward(4, 64, 128, 65, p=0.1),
    *[
        EmbeddingBackward(*s)
        for s in ((1, 1, 1, 1), (2, 7, 5, 3), (3, 64, 48, 65), (8, 64, 128, 256))
    ],
    *[
        kind(R, V)
        for kind in (CrossEntropyForward, CrossEntropyBackward)
        for R, V in ((1, 1), (1, 2), (7, 3), (131, 65), (64, 257), (3, 5003))
    ],
    *[SumOfSquares(n) for n in (1, 7, 1009, 1000003)],
    *[
        AdamW(n, step, beta2, weight_decay)
        for n in (1, 7, 1009)
        for step, beta2, weight_decay in ((0, 0.95, 0.1), (9, 0.99, 0.0), (999, 0.999, 0.1))
    ],
    AdamW(65537, 9, 0.95, 0.1, grad_scale=0.37),
    Philox(0, 0, 0, 0, 0, 0),
    Philox(2**32 - 1, 5, 41, philox.stream(philox.DROPOUT, 255, 1023, 3), 3000000019, 0),
    *[Normals(n, seed) for n, seed in ((1, 0), (3, 1), (4099, 2**32 - 1))],
]
