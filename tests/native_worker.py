"""Serves the native core to pytest, as tests/wasm/runner.ts serves a WASM build.

TABGPT_ISA decides between the AVX2 and the generic kernels before the first one runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from tabgpt import _core

SOURCE: BinaryIO = sys.stdin.buffer
SINK: BinaryIO = sys.stdout.buffer

sessions: dict[int, _core.Session] = {}


def ids(data: bytes, *shape: int) -> np.ndarray:
    return np.frombuffer(data, np.uint32).reshape(shape or (-1,))


def about(args: dict[str, Any], data: list[bytes]) -> Any:
    return {
        "isa": _core.isa(),
        "version": _core.version(),
        "hasThreads": int(_core.has_threads()),
    }


def op(args: dict[str, Any], data: list[bytes]) -> list[np.ndarray]:
    tensors = [np.frombuffer(item, np.float32).copy() for item in data]
    given = [tensor if tensor.size else None for tensor in tensors]
    _core.op(args["name"], args["params"], given, args["threads"])
    return tensors


def open_session(args: dict[str, Any], data: list[bytes]) -> int:
    session = _core.Session(_core.Config(args["config"]), args["mode"], args["threads"])
    if data:
        session.set_tokens(ids(data[0]))
    sessions[len(sessions) + 1] = session
    return len(sessions)


def step(session: _core.Session) -> dict[str, Any]:
    session.step()
    metrics = {name: session.metric(name) for name in ("loss", "lr", "grad_norm")}
    return {name: str(value) for name, value in metrics.items()} | {
        "lr": metrics["lr"],
        "finite": session.metric("finite") == 1,
    }


def on_session(call: str, session: _core.Session, args: dict[str, Any], data: list[bytes]) -> Any:
    match call:
        case "close":
            return session.close()
        case "names":
            return session.names()
        case "get":
            return [session.tensor(args["name"]).copy()]
        case "set":
            tensor = session.tensor(args["name"])
            tensor[...] = np.frombuffer(data[0], np.float32).reshape(tensor.shape)
        case "init_weights":
            session.init_weights()
        case "step":
            return step(session)
        case "step_number":
            return session.step_number
        case "set_step_number":
            session.step_number = args["step"]
        case "tiles":
            return [session.thread_tiles(i) for i in range(session.threads)]
        case "loss" | "loss_and_grads":
            x, y = (ids(item, args["batch"], args["length"]) for item in data)
            return str(getattr(session, call)(x, y, args["train"], args["step"], args["micro"]))
        case "logits":
            return [session.logits(ids(data[0], args["batch"], args["length"]))]
        case "evaluate":
            return str(session.evaluate(args["split"], args["batches"]))
        case "generate":
            sampling = {"top_k": "topK", "top_p": "topP"}
            options = {k: args["sampling"][sampling.get(k, k)] for k in
                       ("temperature", "top_k", "top_p", "seed")}  # fmt: skip
            session.generate_begin(ids(data[0]), **options)
            return [session.generate_next() for _ in range(args["count"])]
        case _:
            raise ValueError(f"tests/native_worker.py knows no call {call!r}")


def serve(call: str, args: dict[str, Any], data: list[bytes]) -> Any:
    match call:
        case "about":
            return about(args, data)
        case "fields":
            return _core.fields()
        case "op":
            return op(args, data)
        case "memory":
            config = _core.Config(args["config"])
            return _core.memory(config, args["mode"], args["threads"], args["tokens"])
        case "learning_rates":
            config = _core.Config(args["config"])
            return [config.learning_rate(step) for step in args["steps"]]
        case "open":
            return open_session(args, data)
        case _:
            return on_session(call, sessions[args["session"]], args, data)


def main(serve: Callable[[str, dict[str, Any], list[bytes]], Any]) -> None:
    """Answers one request after the other with what `serve` returns, until the wire is closed."""
    while line := SOURCE.readline():
        request = json.loads(line)
        data = [SOURCE.read(n) for n in request["bytes"]]
        arrays: list[np.ndarray] = []
        try:
            result = serve(request["call"], request["args"], data)
            if isinstance(result, list) and result and isinstance(result[0], np.ndarray):
                arrays, result = result, None
            headers = [{"dtype": "float32", "shape": array.shape} for array in arrays]
            reply = {"result": result, "arrays": headers}
        except Exception as error:
            reply = {"error": str(error)}
        SINK.write(json.dumps(reply).encode() + b"\n")
        for array in arrays:
            SINK.write(array.tobytes())
        SINK.flush()


if __name__ == "__main__":
    main(serve)
