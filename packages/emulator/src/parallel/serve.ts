/** A thread's side of `launchParallel`. */
import { EmulatedDevice } from "../emulator.ts";
import { loadProgram, type Program } from "../load/module.ts";
import type { LaunchPort, RangeReply, RangeRequest, RangeResult } from "./ports.ts";

/** Modules that a serving thread keeps decoded and compiled. */
const keptPrograms = 16;

/**
 * Serve a device of another thread (`createEmulator({ threads })`): what comes over the port are parts of its launches. Returns at
 * once; the port keeps on answering.
 */
export function serveLaunches(port: LaunchPort): void {
  let device: EmulatedDevice | null = null;
  const programs = new Map<string, Program>();
  const answer = (request: RangeRequest): RangeResult | null => {
    let program = programs.get(request.text);
    if (program === undefined) {
      const loaded = loadProgram(request.text, request.fmad);
      if (!loaded.ok) return null;
      program = loaded.value;
      if (programs.size === keptPrograms) programs.clear();
      programs.set(request.text, program);
    }
    const { residentBlocks, memoryLimit } = request;
    device ??= new EmulatedDevice({ memoryLimit, ...(residentBlocks === null ? {} : { residentBlocks }) });
    return device.runPart(program, request);
  };
  port.onmessage = ({ data }) => {
    const request = data as RangeRequest;
    let result: RangeResult | null = null;
    try {
      result = answer(request);
    } catch {
      // A fault of the emulator's own shows again, with its text, when the launch is run in one piece.
      device = null;
    }
    const moved = result === null ? [] : [result.heap.buffer, result.shadow.buffer];
    port.postMessage({ id: request.id, result } satisfies RangeReply, moved);
  };
}
