/** Completion scripts for shells, from the commands themselves. */
import { targets } from "@tilewright/core";
import { wrap } from "../output/wrap.ts";
import type { HelpSource } from "./help.ts";
import { type Slot, spell } from "./parse.ts";

export const shells = ["bash", "zsh", "fish"] as const;
/** Columns of a line of a script, without what stands around its words. */
const LINE = 48;

type Shell = (typeof shells)[number];

/** Words that a flag's value can be; empty where it can be anything. */
const valuesOf = ({ key, meta: { words } }: Slot): readonly string[] =>
  key === "arch" ? targets.map(({ arch }) => arch) : (words ?? []);

const flagsOf = ({
  slots,
}: HelpSource): readonly { readonly slot: Slot; readonly names: readonly string[] }[] =>
  slots.flatMap((slot) =>
    slot.names.length === 0
      ? []
      : [
          {
            slot,
            names: [
              ...slot.names.map((name) => spell(name, slot.meta.longLetters)),
              ...(slot.meta.negatable ? slot.names.map((name) => `--no-${name}`) : []),
            ],
          },
        ],
  );

/** Words in double quotes, over as many lines as they take. */
const quoted = (words: readonly string[]): string =>
  `"${wrap(words.join(" "), LINE, "").replaceAll("\n", " \\\n")}"`;

function bash(commands: readonly HelpSource[]): string {
  const values = commands.flatMap((command) =>
    flagsOf(command).flatMap(({ slot, names }) => {
      const words = valuesOf(slot);
      const keys = names.map((name) => `"${command.name} ${name}"`).join("|");
      return words.length === 0 ? [] : [`    ${keys}) words=${quoted(words)} ;;`];
    }),
  );
  const flags = commands.map(
    (command) =>
      `    ${command.name}) words=${quoted([...flagsOf(command).flatMap(({ names }) => names), "--help"])} ;;`,
  );
  return `# goes to ~/.local/share/bash-completion/completions/tilewright
_tilewright() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
  local command=\${COMP_WORDS[1]} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quoted([...commands.map(({ name }) => name), "help", "--help", "--version"])} -- "$cur"))
    return
  fi
  case "$command $prev" in
${values.join("\n")}
  esac
  if [ -z "$words" ] && [ "\${cur#-}" != "$cur" ]; then case $command in
${flags.join("\n")}
  esac; fi
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); fi
}
complete -o default -F _tilewright tilewright
`;
}

const zsh = (commands: readonly HelpSource[]): string => `#compdef tilewright
# tilewright completion zsh > "\${fpath[1]}/_tilewright"
autoload -U +X bashcompinit && bashcompinit
${bash(commands).split("\n").slice(1).join("\n")}`;

const single = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

function fish(commands: readonly HelpSource[]): string {
  const lines = commands.flatMap((command) => [
    `complete -c tilewright -n __fish_use_subcommand -f -a ${command.name} -d ${single(command.summary)}`,
    ...flagsOf(command).map(({ slot, names }) => {
      const spelled = names.map((name) =>
        name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
      );
      const words = valuesOf(slot);
      const value =
        slot.meta.hint === null ? "" : words.length === 0 ? " -r" : ` -x -a ${single(words.join(" "))}`;
      return `complete -c tilewright -n ${single(`__fish_seen_subcommand_from ${command.name}`)} ${spelled.join(" ")}${value} -d ${single(slot.meta.summary)}`;
    }),
  ]);
  return `# tilewright completion fish > ~/.config/fish/completions/tilewright.fish\n${lines.join("\n")}\n`;
}

const scripts: Readonly<Record<Shell, (commands: readonly HelpSource[]) => string>> = { bash, zsh, fish };

/** The script that a shell sources. */
export const completionFor = (shell: Shell, commands: readonly HelpSource[]): string =>
  scripts[shell](commands);
