"""Which GPU computes, and a device of it with limits asked for by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import BackendError

try:
    import wgpu
except ImportError as error:
    raise BackendError(
        f"the wgpu backend needs the package wgpu ({error}): install it with "
        f"`pip install 'tabgpt[gpu]'`, or use the backend \"native\""
    ) from None

BINDING, BUFFER = "max-storage-buffer-binding-size", "max-buffer-size"

DEFAULT_LIMITS = {
    BINDING: 128 << 20,
    BUFFER: 256 << 20,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-compute-workgroup-storage-size": 16 << 10,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535,
}
"""What WebGPU promises everywhere. wgpu's own default is all that the adapter has, which would hide
a plan that other devices refuse."""

_FEATURES = {"subgroup": "subgroups"}
"""WebGPU's names for wgpu-native's own."""

VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x106B: "apple",
    0x5143: "qualcomm",
    0x13B5: "arm",
}
"""WebGPU's names by PCI's numbers; wgpu-native names the driver instead."""

_ORDER = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown", "CPU")


@dataclass(frozen=True)
class Adapter:
    """One that wgpu found."""

    handle: Any

    @property
    def software(self) -> bool:
        """Computes on the CPU: right, and slow."""
        return bool(self.handle.info["adapter_type"] == "CPU")

    @property
    def name(self) -> str:
        """For people: the device, what drives it, and whether it is software."""
        info = self.handle.info
        kind = ", software" if self.software else ""
        return f"{info['device'] or info['description']} ({info['backend_type']}{kind})"

    @property
    def vendor(self) -> str:
        """As WebGPU names it; "" for others. Metal tells no number: its devices' names begin so."""
        info = self.handle.info
        first = info["device"].lower().replace("(", " ").split()[:1]
        named = first[0] if first and first[0] in VENDORS.values() else ""
        return VENDORS.get(info["vendor_id"], named)

    def told(self, variants: str, features: Sequence[str]) -> str:
        """A choice of kernels as the core reads it, on this GPU with these features.

        A vendor that the choice names itself counts instead.
        """
        vendor = [f"vendor={self.vendor}"] if self.vendor else []
        return " ".join([*vendor, *(f"feature={name}" for name in features), variants]).strip()

    def limit(self, name: str) -> int:
        return int(self.handle.limits[name])

    @property
    def features(self) -> set[str]:
        """By WebGPU's names."""
        return {_FEATURES.get(name, name) for name in self.handle.features}

    def device(self, limits: dict[str, int], features: Sequence[str] = ()) -> Any:
        """A device with WebGPU's default limits, `limits` before them; BackendError if refused."""
        own_names = {name: own for own, name in _FEATURES.items()}
        try:
            return self.handle.request_device_sync(
                required_limits=DEFAULT_LIMITS | limits,
                required_features=[own_names.get(name, name) for name in features],
            )
        except Exception as error:
            raise BackendError(f"{self.name} gives no device: {error}") from error


def find_adapter() -> Adapter:
    """The best there is, hardware first; BackendError with the way to get one."""
    found = [Adapter(handle) for handle in wgpu.gpu.enumerate_adapters_sync()]
    usable = [a for a in found if a.handle.info["backend_type"] != "OpenGL"]
    if not usable:
        raise BackendError(
            "the wgpu backend finds no GPU adapter: install your GPU's Vulkan driver, or Mesa's "
            "software driver (the package mesa-vulkan-drivers, version 25 or newer), or use the "
            'backend "native"'
        )
    return min(usable, key=lambda a: _ORDER.index(a.handle.info["adapter_type"]))
