/**
 * Chosen lines of a text, in the manner of LLVM's FileCheck:
 * `CHECK: p` finds p after the last match; `NEXT: p` on the very next line; `NOT: p` nowhere before the following match (or the end);
 * `COUNT-n: p` exactly n lines from the last match to the end. `[[NAME:regex]]` captures, `[[NAME]]` repeats what was captured;
 * everything else is literal, runs of blanks match any blanks.
 */
export function fileCheck(text: string, script: string): void {
  const lines = text.split("\n");
  const captured = new Map<string, string>();
  let at = -1;
  let forbidden: string[] = [];
  const compile = (pattern: string): { regex: RegExp; names: readonly string[] } => {
    const names: string[] = [];
    const parts = pattern.trim().split(/(\[\[\w+(?::.*?)?\]\])/);
    const source = parts.map((part) => {
      const hole = /^\[\[(\w+)(?::(.*))?\]\]$/.exec(part);
      if (!hole) return literal(part).replace(/\s+/g, "\\s+");
      const [, name = "", regex] = hole;
      if (regex === undefined)
        return names.includes(name) ? `\\k<${name}>` : literal(captured.get(name) ?? "");
      names.push(name);
      return `(?<${name}>${regex})`;
    });
    return { regex: new RegExp(source.join("")), names };
  };
  const find = (pattern: string, from: number, to: number): number => {
    const { regex, names } = compile(pattern);
    for (let i = from; i < to; i++) {
      const match = regex.exec(lines[i] ?? "");
      if (!match) continue;
      for (const name of names) captured.set(name, match.groups?.[name] ?? "");
      return i;
    }
    return -1;
  };
  const settle = (until: number): void => {
    for (const pattern of forbidden) {
      const hit = find(pattern, at + 1, until);
      if (hit >= 0) throw new Error(`NOT: ${pattern}\nstands on line ${hit + 1}: ${lines[hit]}`);
    }
    forbidden = [];
  };
  const rules: Readonly<Record<string, (pattern: string) => void>> = {
    CHECK: (pattern) => {
      const hit = find(pattern, at + 1, lines.length);
      if (hit < 0) throw new Error(`CHECK: ${pattern}\nis nowhere after line ${at + 1}: ${lines[at] ?? ""}`);
      settle(hit);
      at = hit;
    },
    NEXT: (pattern) => {
      if (find(pattern, at + 1, at + 2) < 0)
        throw new Error(`NEXT: ${pattern}\nis not line ${at + 2}: ${lines[at + 1] ?? ""}`);
      at += 1;
    },
    NOT: (pattern) => void forbidden.push(pattern),
    COUNT: (pattern) => {
      const [wanted = "", ...rest] = pattern.split(" ");
      const { regex } = compile(rest.join(" "));
      const count = lines.slice(at + 1).filter((line) => regex.test(line)).length;
      if (count !== Number(wanted)) throw new Error(`COUNT-${pattern}: found ${count}`);
    },
  };
  for (const line of script.split("\n").map((l) => l.trim())) {
    if (line === "") continue;
    const [, kind = "", count, pattern = ""] = /^(CHECK|NEXT|NOT|COUNT)(?:-(\d+))?: (.*)$/.exec(line) ?? [];
    const rule = rules[kind];
    if (!rule) throw new Error(`not a check: ${line}`);
    rule(count === undefined ? pattern : `${count} ${pattern}`);
  }
  settle(lines.length);
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
