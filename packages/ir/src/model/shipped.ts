/** Which of the schedules that come with the compiler count on a GPU. */
import { gpus, type Problem, shippedTuned, type Target, type Tuned } from "@tilewright/core";
import type { Machine } from "./machine.ts";
import { usualMachine } from "./machines.ts";

/**
 * The shipped entries of a backend for a problem's sizes, in the order of preference: all where no other GPU than the usual one is named, else those timed on as many
 * SMs, by which tiles fill waves. Other dtypes and layouts are among them: the backend says which are alike.
 */
export function shippedFor(
  backend: string,
  problem: Problem,
  target: Target,
  machine: Machine,
): readonly Tuned[] {
  const found = shippedTuned(backend, problem);
  if (found.length === 0 || machine.gpu === usualMachine(target).gpu) return found;
  return found.filter(({ entry }) => gpus.find(({ name }) => name === entry.gpu)?.sms === machine.sms);
}
