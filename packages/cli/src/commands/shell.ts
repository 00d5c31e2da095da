/** `tilewright completion` and `tilewright man`: what a shell and man(1) read, from the commands themselves. */
import { z } from "zod";
import { type Command, defineCommand } from "../kit/command.ts";
import { completionFor, shells } from "../kit/completion.ts";
import { exitCodes } from "../kit/exit.ts";
import { choiceArgument } from "../kit/flags.ts";
import { manPage } from "../kit/man.ts";

/** The two commands; `others`: those that they speak of. */
export function shellCommands(others: readonly Command[]): readonly Command[] {
  const completion = defineCommand({
    name: "completion",
    args: z.strictObject({ shell: choiceArgument("the shell that reads it", shells, "SHELL") }),
    positionals: ["shell"],
    run(session, { shell }) {
      const script = completionFor(shell, [...others, completion, man]);
      session.result({ shell, script }, () => script, "verbatim");
      return exitCodes.ok;
    },
  });
  const man = defineCommand({
    name: "man",
    args: z.strictObject({}),
    run(session) {
      const page = manPage([...others, completion, man]);
      session.result({ page }, () => page, "verbatim");
      return exitCodes.ok;
    },
  });
  return [completion, man];
}
