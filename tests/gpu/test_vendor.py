"""What wgpu-py's host tells the core of the GPU's maker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gpu_variants
import pytest

adapter = pytest.importorskip("tabgpt.gpu.adapter", reason="the extra gpu has wgpu")


def of(vendor_id: int, device: str = "") -> Any:
    info = {"vendor_id": vendor_id, "device": device, "vendor": "a driver", "description": ""}
    info |= {"backend_type": "Vulkan", "adapter_type": "DiscreteGPU"}
    return adapter.Adapter(SimpleNamespace(info=info))


@pytest.mark.parametrize(
    ("vendor_id", "device", "vendor"),
    [
        (0x10DE, "NVIDIA GeForce RTX 4090", "nvidia"),
        (0x1002, "AMD Radeon RX 7900 XTX (RADV NAVI31)", "amd"),
        (0, "Apple M2", "apple"),
        (0, "Intel(R) UHD Graphics 630", "intel"),
        (0x10005, "llvmpipe (LLVM 15.0.6, 256 bits)", ""),
        (0, "", ""),
    ],
)
def test_the_vendor_has_webgpus_name(vendor_id: int, device: str, vendor: str) -> None:
    assert of(vendor_id, device).vendor == vendor


def test_every_vendor_with_constants_is_known_by_its_number() -> None:
    assert sorted(adapter.VENDORS.values()) == sorted(gpu_variants.VENDORS)


def test_the_core_is_told_before_it_is_told_of_a_choice() -> None:
    told = of(0x10DE).told("matmul=vec4 vendor=arm", ["subgroups"])
    assert told == "vendor=nvidia feature=subgroups matmul=vec4 vendor=arm"
    assert of(0).told("", []) == ""


def test_a_session_and_a_sweep_plan_for_the_adapters_vendor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither opens a device: the plan is caught on its way to the core."""
    from tabgpt.backends import wgpu
    from tabgpt.config import ModelConfig, TrainConfig
    from tabgpt.sweep.stage import Stage

    seen: list[str] = []

    def gpu(*arguments: Any) -> Any:
        seen.append(arguments[-1])
        raise wgpu._core.TabgptError("enough")

    found = of(0x5143)
    found.handle.features, found.handle.limits = set(), dict(adapter.DEFAULT_LIMITS)
    monkeypatch.setattr(wgpu, "find_adapter", lambda: found)
    monkeypatch.setattr(wgpu, "_core", SimpleNamespace(**{**vars(wgpu._core), "Gpu": gpu}))
    model = ModelConfig(vocab_size=3, ctx=4, n_layer=1, n_head=1, d_model=8)
    with pytest.raises(Exception, match="enough"):
        wgpu.WgpuSession(model, TrainConfig(batch_size=1), mode="train")
    assert set(seen) == {"vendor=qualcomm"}
    stage = SimpleNamespace(adapter=found, features=["subgroups"])
    chosen = Stage.choice(stage, {"matmul": "vec4"})  # type: ignore[arg-type]
    assert chosen == "vendor=qualcomm feature=subgroups matmul=vec4"
