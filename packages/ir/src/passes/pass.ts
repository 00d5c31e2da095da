/** A pass: one named step from program to program. One pass per file, named for its function. */

import type { Target } from "@tilewright/core";
import type { Stage, TileProgram } from "../tile/types.ts";

export interface Pass {
  /** The function's name, as `--print-passes` shows it. */
  readonly name: string;
  /** One sentence: what it makes explicit. */
  readonly summary: string;
  /** Stage of the programs it takes. */
  readonly from: Stage;
  /** Stage of what it returns; equals `from` unless this pass completes the stage. */
  readonly to: Stage;
  /** What it returns is verified behind the next pass, which completes it. */
  readonly unfinished?: true;
  /** It runs on given programs of the last stage too: what their text leaves out, it declares. */
  readonly completes?: true;
  /** Pure. Returns the same object when it has nothing to do. */
  run(program: TileProgram, target: Target): TileProgram;
}
