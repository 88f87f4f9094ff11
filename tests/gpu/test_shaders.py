"""What can be said of the shaders without computing: limits, contracts, canonical form."""

from __future__ import annotations

import re

import pytest
from tabgpt import shaders
from tabgpt.errors import BackendError

KERNELS = shaders.names()
MAX_STORAGE_BUFFERS = 8
MAX_INVOCATIONS = 256
MAX_WORKGROUP_BYTES = 16 * 1024
BYTES = {"f16": 2, "f32": 4, "vec4<f16>": 8, "vec4<f32>": 16}
NEEDS = {
    "matmul_f16": ("f16",),
    "matmul_tiled_f16": ("f16",),
    "matmul_subgroup": ("subgroups",),
}
"""What some devices lack. All other kernels run everywhere."""
OVERRIDES = {
    *("TRANS", "BIAS", "GELU", "KEEP_PRE_GELU", "RESIDUAL", "ACCUMULATE"),
    *("SPLIT", "DROPOUT", "BACKWARD", "SLOPE"),
}
"""Kinds of a computation. A problem's size is never one: the number of pipelines would explode."""


def workgroup_bytes(code: str) -> int:
    """Of all workgroup arrays; AssertionError for one that is not array<type, number or const>."""
    aliases = dict(re.findall(r"^alias (\w+) = (.*);", code, re.M))
    constants = dict(re.findall(r"^const (\w+): u32 = (\d+)u;", code, re.M))
    declared = re.findall(r"^var<workgroup> \w+: (.*);", code, re.M)
    assert len(declared) == code.count("var<workgroup>"), "a workgroup variable stands elsewhere"
    total = 0
    for kind in declared:
        array = re.fullmatch(r"array<(.*), (\w+)>", kind)
        assert array, f"{kind} is not array<type, N>"
        total += BYTES[aliases.get(array[1], array[1])] * int(constants.get(array[2], array[2]))
    return total


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_keeps_to_what_every_device_has(name: str) -> None:
    kernel = shaders.kernel(name)
    storage = [binding for binding, mode in kernel.bindings if mode != "uniform"]
    assert len(storage) <= MAX_STORAGE_BUFFERS
    invocations = 1
    for size in kernel.workgroup:
        invocations *= size
    assert invocations <= MAX_INVOCATIONS
    assert workgroup_bytes(kernel.code) <= MAX_WORKGROUP_BYTES


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_in_canonical_form(name: str) -> None:
    kernel = shaders.kernel(name)
    assert kernel.bindings[0] == ("p", "uniform")
    assert [b for b, mode in kernel.bindings if mode == "uniform"] in (["p"], ["p", "step"])
    assert set(kernel.overrides) <= OVERRIDES
    text = shaders.text(name)
    assert text.startswith("// "), "the file begins by saying what it computes"
    assert re.search("[Gg]rid", text), "the file says its grid"


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_needs_no_unnamed_extension_and_no_luck(name: str) -> None:
    """Built-in exp, log and tanh are too inexact (math.wgsl); no infinity is written as such."""
    assert shaders.kernel(name).extensions == NEEDS.get(name, ())
    bare = re.sub(r"//.*", "", shaders.expand(shaders.text(name)))
    for pattern in (r"\benable\b", r"\brequires\b", "atomic", r"\b(exp|log|tanh)\(", r"<f32>\(0x"):
        assert not re.search(pattern, bare), f"{name}.wgsl has {pattern}"


def test_every_include_is_used() -> None:
    """And no include looks like a kernel."""
    files = {file.stem: file.read_text() for file in shaders.folder().glob("*.wgsl")}
    included = {
        name for text in files.values() for name in re.findall(r"include (\w+)\.wgsl", text)
    }
    assert included == set(files) - set(KERNELS)


@pytest.mark.parametrize("name", KERNELS)
def test_a_changed_access_mode_is_named(name: str) -> None:
    """Each binding in turn, in a copy: the plan that was made for the original is refused."""
    kernel = shaders.kernel(name)
    planned = [mode for _, mode in kernel.bindings]
    shaders.check_access(kernel, planned)
    for binding, mode in kernel.bindings:
        if mode == "uniform":
            continue
        other = {"read": "read_write", "read_write": "read"}[mode]
        before, after = f"<storage, {mode}> {binding}:", f"<storage, {other}> {binding}:"
        assert kernel.code.count(before) == 1
        copy = shaders.read(name, kernel.code.replace(before, after))
        with pytest.raises(BackendError, match=rf"{name}.wgsl declares '{binding}' as {other}"):
            shaders.check_access(copy, planned)


def test_a_plan_with_too_few_bindings_is_named() -> None:
    with pytest.raises(
        BackendError, match=r"add_partials.wgsl has 3 bindings, the plan gives it 2"
    ):
        shaders.check_access(shaders.kernel("add_partials"), ["uniform", "read"])


def test_an_extension_is_enabled_where_the_compiler_wants_it() -> None:
    """Tint must hear of both; Naga has subgroups unasked, and refuses their name."""
    half, subgroup = shaders.kernel("matmul_f16"), shaders.kernel("matmul_subgroup")
    assert half.code.startswith("enable f16;\n//") and half.for_tint() == half.code
    assert subgroup.code.startswith("//")
    assert subgroup.for_tint() == "enable subgroups;\n" + subgroup.code
    other = shaders.text("add_partials") + "//! enable chance\n"
    with pytest.raises(BackendError, match=r"add_partials.wgsl enables 'chance', not one of"):
        shaders.read("add_partials", shaders.expand(other))


def test_declarations_out_of_form_are_named() -> None:
    code = shaders.kernel("embedding_wpe").code
    loose = code.replace("@group(0) @binding(1)", "@binding(1) @group(0)")
    with pytest.raises(BackendError, match="1 of 3 bindings are not in canonical form"):
        shaders.read("embedding_wpe", loose)
    gap = code.replace("@binding(2)", "@binding(3)")
    with pytest.raises(BackendError, match=r"binding 3 \(dwpe\) stands where 2 is due"):
        shaders.read("embedding_wpe", gap)
    with pytest.raises(BackendError, match=r"no shader 'missing\.wgsl'"):
        shaders.kernel("missing")
