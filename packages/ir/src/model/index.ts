export {
  type Calibrated,
  type Calibration,
  calibrate,
  calibratedNames,
  type TimedKernel,
  withConstants,
} from "./calibrate.ts";
export { type LaunchCounts, launchCounts } from "./counts.ts";
export { epilogueWork } from "./epilogue.ts";
export { type ModelKernel, plainKernel } from "./kernel.ts";
export { type Engine, engines, type Machine } from "./machine.ts";
export { constantsOf, machineOf, machines, type UsedConstant, usualMachine } from "./machines.ts";
export { type Neighbour, neighbourhood, neighbourOf, residualBy } from "./neighbours.ts";
export { kernelOf } from "./ofProgram.ts";
export { type Cause, causes, leastTime, type Prediction, predict } from "./predict.ts";
export { predictProgram } from "./program/predict.ts";
export {
  informed,
  isInformed,
  residualRange,
  residualTerms,
  residualValues,
  routeOf,
  termRange,
  within,
} from "./residuals.ts";
export { type BoundedTile, inOrder, kernelBound, tileBound } from "./search.ts";
export { shippedFor } from "./shipped.ts";
export { epilogueLoadOf, type SourceMatrix, sourceMatrices } from "./source.ts";
export { traitNames, traitsOf } from "./traits.ts";
export { packTrees, type Tree, type TreeData, treesOf } from "./trees.ts";
