/**
 * @file The wrapper's surface: what the worker, the tests and the benches import.
 */
export { BUILDS, chooseBuild, detectFeatures, KINDS, obstacle, threadLimit, usableBuilds, withThreads } from "./builds.ts";
export type { Build, Choice, Features } from "./builds.ts";
export { ConfigHandle, fieldNames, MEMORY_ROLES } from "./config.ts";
export type { CoreConfig, MemoryPlan, MemoryRole, Mode } from "./config.ts";
export { Core } from "./core.ts";
export { messageOf, NotFiniteError, TabgptError } from "./errors.ts";
export { runOp } from "./op.ts";
export { maximumBytes } from "./memory.ts";
export { memoryFor, Planner } from "./planner.ts";
export type { Plan } from "./planner.ts";
export { Session } from "./session.ts";
export type { LossOptions, Sampling, Split, StepMetrics } from "./session.ts";
export { fit, memoryObstacle, WIDTHS } from "./width.ts";
export type { Fit, Width } from "./width.ts";
