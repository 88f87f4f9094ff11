#!/usr/bin/env bash
# Everything that the owner of a GPU is asked for, in under five minutes: parity with the native core, the
# kernel sweep, 200 steps of nanogpt-baby with the kernels that are fastest here, attention's memory.
#
#   make native              once, from a fresh checkout
#   bench/on_gpu.sh          leaves the folder gpu-records: send it as README says
#   bench/on_gpu.sh --small  the same in small sizes, for a machine without a GPU
#
# OUT: another folder, which must not be there yet.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" TABGPT_CACHE="${TABGPT_CACHE:-$PWD/.cache}"
out="${OUT:-gpu-records}"
[[ ! -e $out ]] || { echo "$out is there already: move it away, or set OUT" >&2; exit 1; }

small=() sweep=(--experimental) train=(--preset nanogpt-baby --steps 200 --eval-interval 100 --eval-batches 5)
case "${1:-}" in
  "") ;;
  --small)
    small=(--small)
    sweep=(--quick --most 128 --group cube --group attention)
    train=(--corpus LICENSE --preset tiny --ctx 16 --d-model 16 --n-head 2 --batch 2 --steps 20 --warmup-steps 2 --eval-interval 20 --eval-batches 1)
    ;;
  *) echo "usage: bench/on_gpu.sh [--small]" >&2; exit 2 ;;
esac

mkdir -p "$out"
began=$SECONDS
echo "== parity"
python bench/on_gpu.py parity --out "$out"
echo "== sweep"
tabgpt bench kernels "${sweep[@]}" --out "$out/kernels.json"
echo "== training"
tabgpt train --backend wgpu --tune "${train[@]}" --sample-interval 0 --out "$out/run"
python bench/on_gpu.py training --out "$out"
echo "== attention"
python bench/on_gpu.py attention --out "$out" "${small[@]}"
rm -f "$out"/run/*.safetensors # what was learnt is not asked for
echo "all of it in $((SECONDS - began)) s: $out"
[[ ${#small[@]} -gt 0 ]] || python bench/validate.py "$out/kernels.json"
