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
    summary: "a script that completes commands, flags and their values: bash, zsh, fish",
    about: "Prints the script on stdout; its first line says where it goes.",
    args: z.strictObject({ shell: choiceArgument("the shell that reads it", shells, "SHELL") }),
    positionals: ["shell"],
    examples: [
      { what: "in this bash", line: "completion bash > tilewright.bash && source tilewright.bash" },
      { what: "in every fish", line: "completion fish > ~/.config/fish/completions/tilewright.fish" },
    ],
    run(session, { shell }) {
      const script = completionFor(shell, [...others, completion, man]);
      session.result({ shell, script }, () => script, "verbatim");
      return exitCodes.ok;
    },
  });
  const man = defineCommand({
    name: "man",
    summary: "the manual page, for man(1)",
    about: "Prints tilewright(1) as roff on stdout.",
    args: z.strictObject({}),
    examples: [{ what: "read it", line: "man > tilewright.1 && man -l tilewright.1" }],
    run(session) {
      const page = manPage([...others, completion, man]);
      session.result({ page }, () => page, "verbatim");
      return exitCodes.ok;
    },
  });
  return [completion, man];
}
