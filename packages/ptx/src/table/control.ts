/** Control flow, and what changes or waits for the machine (PTX ISA 9.0 §9.7.12, §9.7.19). */
import { family, HOPPER_AND_BLACKWELL, type InstructionRow } from "./row.ts";

export const controlRows = [
  ...family({ effect: "control", since: [1, 0, 10] }, [
    ["bra uni?", "label"],
    ["brx.idx uni?", "u32 targets", [6, 0, 30]],
    ["call uni?", "callee"],
    ["call uni?", "callee list"],
    ["call uni?", "r:u64 list prototype", [2, 1, 20]],
    ["call uni?", "list callee"],
    ["call uni?", "list callee list"],
    ["call uni?", "list r:u64 list prototype", [2, 1, 20]],
    ["ret uni?", ""],
    ["exit", ""],
  ]),
  ...family({ effect: "system", since: [1, 0, 10] }, [
    ["trap", ""],
    ["brkpt", "", [1, 0, 11]],
  ]),
  ...family({ effect: "hint", since: [1, 4, 10] }, [
    ["pmevent mask?", "imm"],
    ["nanosleep u32", "u32", [6, 3, 70]],
  ]),
  ...family({ effect: "system", since: [8, 0, 90], only: HOPPER_AND_BLACKWELL }, [
    ["setmaxnreg inc|dec sync aligned u32", "imm:24:256:8"],
  ]),
  ...family({ effect: "wait", since: [7, 8, 90] }, [["griddepcontrol launch_dependents|wait", ""]]),
] as const satisfies readonly InstructionRow[];
