/** Public surface of `@tilewright/emulator`. */
export type {
  CheckName,
  Counters,
  DevicePointer,
  Emulator,
  Finding,
  KernelInfo,
  LaunchConfig,
  LaunchReport,
  LoadedModule,
  MemoryRange,
  Order,
  Phases,
  SharedAccesses,
  Waits,
} from "./api.ts";
export { type RuleId, rules } from "./checkers/rules.ts";
export { createEmulator, type EmulatorOptions, serveLaunches } from "./emulator.ts";
export type { Switch } from "./machine/interleave.ts";
export type { LaunchPort } from "./parallel/ports.ts";
export { addPhases } from "./parallel/split.ts";
export type { SearchFailure, SearchOptions, SearchReport, SwitchNote } from "./search.ts";
