/** Control flow, and what changes or waits for the machine (PTX ISA 9.0 §9.7.12, §9.7.19). */
import { family, HOPPER_AND_BLACKWELL, type InstructionRow } from "./row.ts";

export const controlRows = [
  { opcode: "bra", mods: "uni?", args: ["label"], since: [1, 0, 10], effect: "control" },
  { opcode: "brx.idx", mods: "uni?", args: ["u32", "targets"], since: [6, 0, 30], effect: "control" },
  ...family({ opcode: "call", effect: "control", since: [1, 0, 10] }, [
    ["uni?", ["callee"]],
    ["uni?", ["callee", "list"]],
    ["uni?", ["r:u64", "list", "prototype"], { since: [2, 1, 20] }],
    ["uni?", ["list", "callee"]],
    ["uni?", ["list", "callee", "list"]],
    ["uni?", ["list", "r:u64", "list", "prototype"], { since: [2, 1, 20] }],
  ]),
  { opcode: "ret", mods: "uni?", args: [], since: [1, 0, 10], effect: "control" },
  { opcode: "exit", mods: "", args: [], since: [1, 0, 10], effect: "control" },
  { opcode: "trap", mods: "", args: [], since: [1, 0, 10], effect: "system" },
  { opcode: "brkpt", mods: "", args: [], since: [1, 0, 11], effect: "system" },
  { opcode: "pmevent", mods: "mask?", args: ["imm"], since: [1, 4, 10], effect: "hint" },
  { opcode: "nanosleep", mods: "u32", args: ["u32"], since: [6, 3, 70], effect: "hint" },
  {
    opcode: "setmaxnreg",
    mods: "inc|dec sync aligned u32",
    args: ["imm:24:256:8"],
    since: [8, 0, 90],
    only: HOPPER_AND_BLACKWELL,
    effect: "system",
  },
  { opcode: "griddepcontrol", mods: "launch_dependents|wait", args: [], since: [7, 8, 90], effect: "wait" },
] as const satisfies readonly InstructionRow[];
