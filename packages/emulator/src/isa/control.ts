/** Branches and ends: PTX ISA 9.0, chapters 9.7.12 and 9.7.19. Calls are inlined by the loader. */
import type { Row, Table } from "./row.ts";

const exit =
  (trap: boolean): Row =>
  (d) => {
    d.flag("uni");
    return { kind: "exit", trap };
  };

export const controlTable: Table = {
  bra: (d) => {
    const uniform = d.flag("uni");
    return { kind: "branch", label: d.label(0), target: -1, uniform };
  },
  "brx.idx": (d) => {
    d.flag("uni");
    const index = d.use(0, "int");
    return { kind: "indexed-branch", index, labels: d.branchTargets(1), targets: [] };
  },
  ret: exit(false),
  exit: exit(false),
  trap: exit(true),
  brkpt: () => ({ kind: "lane", emit: () => "" }),
};
