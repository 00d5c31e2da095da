/** Public surface of `@tilewright/codegen`, from the whole to the parts. */
export { lowerActivation } from "./activations.ts";
export { CannotLower } from "./cannotLower.ts";
export { blocksApart, clusterPlace, clusterRank } from "./clusters.ts";
export { Code, type Pred, type Reg } from "./code.ts";
export { comparisons } from "./conditions.ts";
export { Context } from "./context.ts";
export * from "./copy.ts";
export { lowerCopy, routeOf } from "./copyRoutes.ts";
export type { Budget, Engine, Holding, Lowering, RegisterType, Statements, StmtOf } from "./engine.ts";
export { fragmentHolding } from "./engine.ts";
export { lowerEpilogue } from "./epilogue.ts";
export { fillOnce } from "./fills.ts";
export {
  cast,
  clamped,
  type Kind,
  loadElements,
  servedFormats,
  storeElements,
  valueRegister,
  widened,
  widenRun,
} from "./formats.ts";
export {
  arrayAddress,
  axisBound,
  axisIndex,
  type Bound,
  batchIndex,
  type GlobalArray,
  globalArray,
  pointer,
} from "./globalAddress.ts";
export { type LoweredModule, lowerToModuleWith, lowerWith } from "./lower.ts";
export * from "./pairs.ts";
export {
  barrierAt,
  ofSlot,
  type Pipeline,
  pipelineOf,
  pipelineOfView,
  placeOf,
  slotAddress,
  smemBase,
} from "./pipelines.ts";
export {
  countedRasterFault,
  countedRules,
  countedStreamKFault,
  type Refuse,
  refuseBatch,
  refuseOutputs,
  refuseSteps,
  refuseSymbolic,
  refuseTwoLevel,
  scaledExperts,
  targetVerdict,
  unsupported,
  verdictOn,
} from "./refusals.ts";
export { groupAlong, type OwnedTile, ownedTile, ownerOf, stagedRun } from "./registers.ts";
export { firstOf, lowerRole, placeIn } from "./roles.ts";
export type { LoopState } from "./scopes.ts";
export { smemStart } from "./setup.ts";
export { sharedAddress } from "./sharedAddress.ts";
export { mapShared, type RingBarriers, type SharedMap, SMEM } from "./smem.ts";
export { lowerReduction } from "./splitReduction.ts";
export { lowerStmts } from "./statements.ts";
export { type Element, StepChain } from "./steps.ts";
export { mapAddress } from "./tensorMaps.ts";
export {
  type DistributedStep,
  distributedSteps,
  NOWHERE,
  ownedPosition,
  type ThreadCoord,
  type ThreadPosition,
} from "./threads.ts";
export { Values } from "./values.ts";
export { elementGuard, globalAddress } from "./viewAddress.ts";
export { walkOrder } from "./walk.ts";
export { widenPair } from "./widenPair.ts";
export * from "./words.ts";
