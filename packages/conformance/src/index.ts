/** Public surface of `@tilewright/conformance`. */
export { assemble, hasPtxas } from "./assemble.ts";
export { boundProgram, machineProgram, plainProblem } from "./bound.ts";
export { build, firstOf, must, scheduleOf } from "./build.ts";
export { type Case, checkCase, type Oracles } from "./check.ts";
export { type CaseData, caseData, type DataKind, type RuntimeScalars } from "./data.ts";
export { type Fault, type Planted, plant, programFaults } from "./faults.ts";
export { fileCheck } from "./fileCheck.ts";
export { type GatedScales, gatedScales, scaledExperts, scaledQuantized } from "./gatedScales.ts";
export { type HandEdit, handEdits, handEditsOf } from "./handEdits.ts";
export { differing, judge, type Stored, sameBytes } from "./judge.ts";
export { type Run, type RunOptions, Session } from "./launch.ts";
export { machineCode, type WarpgroupCode, warpgroupCode } from "./machineCode.ts";
export {
  type DTypes,
  nameOf,
  pick,
  problemOf,
  type RandomProblemOptions,
  randomOperand,
  randomProblem,
  targetOf,
} from "./random.ts";
export { type Repeated, repetitionsOnGpu } from "./repetitions.ts";
export { plantRings } from "./ringFaults.ts";
export { type SpaceOptions, scheduleSpace } from "./space.ts";
export * from "./suite.ts";
export { problemTable } from "./table.ts";
export type { Row } from "./tableRows.ts";
