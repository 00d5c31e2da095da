/** Give everything of the machine that the program uses its place, and begin the stage `machine`. */
import type { Pass } from "./pass.ts";

/** Ends every backend's list: what it returns is what lowering translates. */
export const allocate: Pass = {
  name: "allocate",
  summary: "Shared memory, barriers and tensor memory get their places",
  from: "bound",
  to: "machine",
  run: (program) => ({ ...program, stage: "machine" }),
};
