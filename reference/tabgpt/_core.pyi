"""The C++ core (cpp/bindings/python.cpp): float32, one source with the WebAssembly builds."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

class TabgptError(Exception):
    """What the core refuses; the text names the value, the limit and the way out."""

def version() -> str: ...
def isa() -> str:
    """The kernels in use: "avx2", "neon" or "generic"."""

def has_threads() -> bool: ...
def fields() -> list[str]:
    """Names of a Config's fields: vocab_size, and presets.json's groups model and train."""

def memory(config: Config, mode: str, threads: int, n_tokens: int = 0) -> dict[str, int]:
    """Bytes by role, and "total", that a session will hold; nothing is allocated."""

def op(
    name: str,
    params: Sequence[float],
    tensors: Sequence[NDArray[np.float32] | NDArray[np.uint32] | None],
    threads: int = 1,
) -> None:
    """Runs one kernel on the arrays, in place; cpp/src/ops.cpp lists names, params and tensors."""

class Config:
    """Every hyper-parameter the core needs, checked."""

    def __init__(self, fields: Mapping[str, float | str]) -> None: ...
    @property
    def n_parameters(self) -> int: ...
    def learning_rate(self, step: int) -> float:
        """Of a 0-based optimizer step."""

def gpu_variants() -> str:
    """JSON: the kernels that Gpu's `variants` may name."""

class Gpu:
    """The core's half of training on a GPU: a plan, and what each pass uploads and reads.

    backends/wgpu.py runs the programs; cpp/src/gpu/plan.hpp says in which order.
    """

    def __init__(
        self,
        config: Config,
        mode: str,
        max_binding_bytes: float,
        max_buffer_bytes: float,
        variants: str = "",
    ) -> None: ...
    def plan(self) -> str:
        """JSON: buffers, tensors, pipelines, words, programs."""

    def programs(self, batch: int, length: int) -> str:
        """JSON: tensors, words and programs for batches of another shape."""

    def memory(self) -> dict[str, int]:
        """Bytes of the plan's buffers by role, and "total"."""

    def inputs(self) -> bytes:
        """What to write to the buffer "inputs" after one of the fill functions."""

    def initial_values(self, parameter: str, out: NDArray[np.float32]) -> None: ...
    def weights_changed(self) -> None: ...
    def set_tokens(self, tokens: ArrayLike) -> None: ...

    step_number: int
    def fill_step(self, micro: int) -> None: ...
    def end_step(self) -> None: ...
    def read_stats(self, step: int, stats: NDArray[np.float32]) -> None:
        """The metrics of a 0-based step from the tensor "stats"."""

    def metric(self, name: str) -> float: ...
    def fill_batch(
        self,
        tokens: ArrayLike,
        targets: ArrayLike,
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> None: ...
    def mean_loss(self, losses: NDArray[np.float32]) -> float: ...
    def evaluate_begin(self, split: str, n_batches: int = 0) -> None: ...
    def evaluate_fill(self) -> None: ...
    def evaluate_next(self, losses: NDArray[np.float32]) -> bool:
        """False once metric("loss") holds the mean."""

    def generate_begin(
        self,
        prompt: ArrayLike,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> None: ...
    def generate_fill(self) -> bool:
        """True: run "prefill" and "decode"; False: "decode"."""

    def generate_next(self, logits: NDArray[np.float32]) -> int: ...

class GpuOp:
    """One operation for the kernel sweep: "matmul NN M K N", "attention forward B H T D"."""

    def __init__(self, operation: str) -> None: ...
    def plan(self, variants: str, max_binding_bytes: float, max_buffer_bytes: float) -> str:
        """JSON as Gpu.plan's, with "inputs", "results", "flops", "bytes"."""

    def input(self, name: str, out: NDArray[np.float32]) -> None:
        """Values of one of "inputs", as many as the plan's tensor has."""

    def check(self, variants: str, name: str, got: NDArray[np.float32]) -> float:
        """Largest error of a result as a share of its bound; inf where one is not finite."""

def step_flops(config: Config) -> float:
    """Floating-point operations of one optimizer step's products."""

class Session:
    """A model in memory. One thread at a time may call it; passes release the GIL.

    mode "infer" holds parameters; "train" adds gradients and AdamW's moments; "probe"
    also keeps every activation and activation gradient of the last pass to be read.
    """

    def __init__(self, config: Config, mode: str, threads: int) -> None: ...
    def close(self) -> None:
        """Lets the memory go, once no view of a tensor lives. Safe to call twice."""

    @property
    def threads(self) -> int: ...
    def thread_tiles(self, thread: int) -> float:
        """Tiles of work that a thread has run."""

    def init_weights(self) -> None:
        """First weights from the config's seed; moments zero, step number 0."""

    def set_tokens(self, tokens: ArrayLike) -> None:
        """Copies the corpus [n] of ids below vocab_size and splits it, validation last."""

    def names(self) -> list[str]: ...
    def tensor(self, name: str) -> NDArray[np.float32]:
        """A live view that keeps the session's memory: writing changes the session."""

    step_number: int
    def step(self) -> None:
        """One optimizer step on the training split; see metric()."""

    def metric(self, name: str) -> float:
        """Of the last step: "loss", "lr", "grad_norm", "finite", "tokens"; of a pass: "loss"."""

    def loss(
        self,
        tokens: ArrayLike,
        targets: ArrayLike,
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> float:
        """Mean cross-entropy of [B,T] ids; train applies the dropout of (step, micro).

        B * T may be up to the config's batch_size * ctx, and T up to ctx.
        """

    def loss_and_grads(
        self,
        tokens: ArrayLike,
        targets: ArrayLike,
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> float:
        """The same, and the gradients in the tensors "grad:*"."""

    def logits(self, tokens: ArrayLike) -> NDArray[np.float32]:
        """[B,T] ids -> [B,T,V]; any B, T up to ctx."""

    def evaluate_begin(self, split: str, n_batches: int = 0) -> None: ...
    def evaluate_next(self) -> bool:
        """One batch; False once metric("loss") holds the mean."""

    def evaluate(self, split: str, n_batches: int = 0) -> float:
        """Mean loss over "train" or "val": whole, or n_batches seeded batches."""

    def generate_begin(
        self,
        prompt: ArrayLike,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> None: ...
    def generate_next(self) -> int:
        """The next token; after a step in between, with the new weights."""
