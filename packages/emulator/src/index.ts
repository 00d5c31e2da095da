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
export { createEmulator, type EmulatorOptions, emulatedMemoryBytes } from "./emulator.ts";
export type { Switch } from "./machine/interleave.ts";
export type { LaunchPort } from "./parallel/ports.ts";
export { serveLaunches } from "./parallel/serve.ts";
export { addPhases } from "./parallel/split.ts";
export type { SearchFailure, SearchOptions, SearchReport, SwitchNote } from "./search.ts";
export { type ChromeEvent, type ChromeTrace, chromeTrace } from "./trace/chrome.ts";
export type { Awaited, BarrierPlace, Engine, TraceEvent, TraceSink } from "./trace/events.ts";
export {
  type BarrierTrack,
  type BlockTimeline,
  collectTrace,
  type FindingMark,
  type Operation,
  type Slice,
  type SlotTrack,
  type Timeline,
  timelineOf,
  type Wait,
  type WarpTrack,
} from "./trace/timeline.ts";
