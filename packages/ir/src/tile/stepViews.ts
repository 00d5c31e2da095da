/** What an epilogue reads beside its accumulators. */
import { add } from "./expr.ts";
import type { Epilogue, View } from "./types.ts";

/** C, and the inputs of steps that come out of tiles. */
export const broughtViews = (stmt: Epilogue): readonly View[] => [
  ...(stmt.c === null ? [] : [stmt.c]),
  ...(stmt.inputs ?? []).map(({ view }) => view),
];

/** Where the second sums of a gated epilogue begin in its accumulator: behind the first ones. */
export const upOrigin = ({ origin, extent }: View): View["origin"] => [origin[0], add(origin[1], extent[1])];
