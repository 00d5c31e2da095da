/** The shared passes, in the order in which they run from `nest` to `bound`. Backends list those they use. */
export { bindEdges } from "./bindEdges.ts";
export { bindLayouts, tileAccesses } from "./bindLayouts.ts";
export { bindOwnership } from "./bindOwnership.ts";
export { bindRaster } from "./bindRaster.ts";
export { elideGuards } from "./elideGuards.ts";
export { loadFragments } from "./loadFragments.ts";
export { loadMatrices } from "./loadMatrices.ts";
export { orderWalk } from "./orderWalk.ts";
export type { Pass } from "./pass.ts";
export { peelDrain } from "./peelDrain.ts";
export { pipelineRing } from "./pipelineRing.ts";
export { rotateFragments } from "./rotateFragments.ts";
export { spreadCopies } from "./spreadCopies.ts";
export { stageOperands } from "./stageOperands.ts";
export { vectorise } from "./vectorise.ts";
