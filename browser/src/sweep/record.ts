/**
 * @file The sweep's record, as bench/schema.json has it: what ran, on what, with every raw sample.
 */
import type { AdapterFacts, ClockFacts, Row } from "./protocol.ts";

export interface Sweep {
  adapter: AdapterFacts;
  clock: ClockFacts;
  rows: readonly Row[];
  stopped: boolean;
}

/** What the page knows of the machine. */
export interface Host {
  browser: string;
  cores: number;
  system: string;
  commit: string;
  date: Date;
}

export function verdict({ rows, stopped }: Sweep): { ok: boolean; why: string } {
  const measured = rows.filter(({ skipped }) => skipped === "");
  const wrong = measured.filter(({ ok }) => !ok);
  const skipped = rows.length - measured.length;
  const said = wrong.map(({ case: what, variant }) => `${variant} of ${what}`).join(", ");
  const figures = `${measured.length - wrong.length} of ${measured.length} results within their bound, ${skipped} skipped`;
  return {
    ok: wrong.length === 0 && measured.length > 0,
    why: `${figures}${said ? `; wrong: ${said}` : ""}${stopped ? "; stopped before its end" : ""}`,
  };
}

export function recordOf(sweep: Sweep, host: Host): object {
  const { adapter, clock, rows } = sweep;
  return {
    schema: 1,
    what: "kernels",
    command: "the page /bench",
    commit: host.commit,
    date: host.date.toISOString().slice(0, 10),
    machine: {
      cores: host.cores,
      system: host.system,
      browser: host.browser,
      adapter: adapter.identity,
      software_adapter: adapter.software,
      limits: adapter.limits,
      features: adapter.features,
    },
    clock: { wall: "performance.now", wall_quantum_s: clock.wallQuantum, gpu: clock.gpu, gpu_quantum_s: clock.gpuQuantum },
    results: rows,
    verdict: verdict(sweep),
  };
}
