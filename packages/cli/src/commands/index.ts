/** All commands. */
import { chooseDevice } from "@tilewright/runtime";
import { systemPorts } from "../bench/ports.ts";
import type { Command } from "../kit/command.ts";
import { benchCommand } from "./bench.ts";
import { check } from "./check.ts";
import { compile } from "./compile.ts";
import { demo } from "./demo.ts";
import { doctor } from "./doctor.ts";
import { emulate } from "./emulate.ts";
import { explain } from "./explain.ts";
import { explore } from "./explore.ts";
import { ladderCommand } from "./ladder.ts";
import { plan } from "./plan.ts";
import { run } from "./run.ts";
import { schema } from "./schema.ts";
import { shellCommands } from "./shell.ts";
import { targetsCommand } from "./targets.ts";
import { tuneCommand } from "./tune.ts";
import { tuneWorkerCommand } from "./tune-worker.ts";
import { tunedCommand } from "./tuned.ts";

const own: readonly Command[] = [
  demo,
  compile,
  run,
  benchCommand(systemPorts),
  plan,
  ladderCommand({ ...systemPorts, choose: chooseDevice }),
  emulate,
  check,
  explain,
  explore,
  tuneCommand(systemPorts),
  tuneWorkerCommand(systemPorts),
  tunedCommand,
  targetsCommand,
  schema,
  doctor,
];

export const commands: readonly Command[] = [...own, ...shellCommands(own)];
