/** What a launch takes: grids, parameters, tensor maps and the workspace, from the statements of a program. */
export { blocksOfTile, clusterExtents, clusterSize, problemsOf } from "./counts.ts";
export { groupMapsOf } from "./groupMaps.ts";
export {
  type Launches,
  type LaunchHints,
  launchesOf,
  noHints,
  placeParam,
  specOf,
} from "./kernels.ts";
export { GROUP_TABLE, sizeDType, WORKSPACE } from "./parameters.ts";
export { COUNTER_LINE, inOnePlace, registerTileBytes } from "./partialTiles.ts";
export {
  gathersRows,
  loadBoxes,
  MAP_BYTES,
  mapName,
  readersOf,
  type StoreGroups,
} from "./tensorMaps.ts";
export { RESULT_BYTES } from "./workspace.ts";
