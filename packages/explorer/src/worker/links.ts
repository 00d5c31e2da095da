/** Which lines of PTX each statement of the last stage was made into. */
import type { Artifact } from "@tilewright/ir";
import type { Links } from "./compiling.ts";

/** Null where the backend does not say. */
export function linksOf(artifact: Artifact): Links | null {
  const ofPtx = artifact.lines();
  return ofPtx.some((line) => line > 0) ? { ofPtx } : null;
}
