/** Shared addresses of a cluster: (rank << 24) | offset, each block's own window under its rank. */

import type { Findings } from "../checkers/findings.ts";
import type { RuleId } from "../checkers/rules.ts";
import { type Execution, hex, type SharedPlace } from "./state.ts";

/** See `Machine.window`. */
export function resolveWindow(
  by: Execution,
  findings: Findings,
  address: number,
  size: number,
  align: number,
): SharedPlace | null {
  const rank = address >>> 24;
  const offset = address & 0xffffff;
  const { blocks } = by.warp.block.cluster;
  const block = blocks[rank];
  const fault = (rule: RuleId, message: () => string): null => {
    by.report(rule, message);
    if (findings.shows(rule)) return by.machine.stop();
    return null;
  };
  if (block === undefined)
    return fault(
      "H001",
      () => `shared address ${hex(address)} names block ${rank} of a cluster of ${blocks.length}`,
    );
  if (offset > block.sharedSize - size)
    return fault(
      "H001",
      () =>
        `${size} bytes at shared address ${hex(address)}; block ${rank} of the cluster has ${block.sharedSize} bytes`,
    );
  if ((offset & (align - 1)) !== 0)
    return fault("H004", () => `shared address ${hex(address)} is no multiple of ${align}`);
  if (block.exited)
    return fault("H043", () => `shared address ${hex(address)} lies in block ${rank}, which has exited`);
  return { block, at: block.sharedBase + offset };
}
