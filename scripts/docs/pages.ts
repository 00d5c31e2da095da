/** Pages that follow from the code: passes with their diffs, schedule fields, the support matrix, the command line. Made when the site is built. */
import { type DType, defineProblem, dtypeNames, findTarget, targets } from "@tilewright/core";
import { type Artifact, type Backend, printSchedule, unifiedDiff } from "@tilewright/ir";
import { backends, type Context, compiler, main } from "tilewright";
import { root } from "../lib/files.ts";
import { epiloguePage, escaped, manifestPage, topics } from "./reference.ts";
import { measuredOf } from "./worth.ts";

/** Text of a page by its path in the site. */
export type Pages = ReadonlyMap<string, string>;

/** Small enough that a diff can be read, with a size that does not divide. */
const size = { m: 300, n: 192, k: 128 };

const must = <T>(result: { ok: true; value: T } | { ok: false; error: unknown }): T => {
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  return result.value;
};

/** The kernel that a backend is best shown with. */
function showcase({ id, showcase: { arch, dtype } }: Backend): Artifact {
  const problem = must(defineProblem({ ...size, dtype: dtype as DType, b: { layout: "col" } }));
  return must(compiler.compile({ problem, target: must(findTarget(arch)), backend: id }));
}

interface PassUse {
  readonly summary: string;
  readonly uses: readonly {
    readonly backend: string;
    readonly arch: string;
    readonly stages: string;
    readonly diff: string;
  }[];
}

/** Every pass of every backend, in the order in which they first run. */
function passes(): ReadonlyMap<string, PassUse> {
  const found = new Map<string, PassUse>();
  for (const backend of backends) {
    const { trace } = showcase(backend);
    trace.forEach(({ pass, summary, changed, program, text }, i) => {
      const before = trace[i - 1];
      if (before === undefined) return;
      const diff = changed ? unifiedDiff(before.text(), text()) : "";
      const from = before.program.stage;
      const stages = from === program.stage ? from : `${from} to ${program.stage}`;
      const use = { backend: backend.id, arch: backend.showcase.arch, stages, diff };
      found.set(pass, { summary, uses: [...(found.get(pass)?.uses ?? []), use] });
    });
  }
  return found;
}

function passPage(name: string, { summary, uses }: PassUse): string {
  const sections = uses.map(({ backend, arch, stages, diff }) =>
    diff === ""
      ? `## ${backend}\n\nStage ${stages}. Nothing to do for the kernel shown here: ${size.m} x ${size.n} x ${size.k} on ${arch}.\n`
      : `## ${backend}\n\nStage ${stages}, ${size.m} x ${size.n} x ${size.k} on ${arch}.\n\n\`\`\`diff\n${diff.trimEnd()}\n\`\`\`\n`,
  );
  return `# ${name}\n\n${escaped(summary)}.\n\nThe diffs are those of \`tilewright compile --print-passes\`.\n\n${sections.join("\n")}`;
}

/** Targets that a backend makes code for: `sm_80 and later` where no later one is left out. */
function architecturesOf(backend: Backend): string {
  const served = targets.map((target) => backend.supports(target).ok);
  const first = served.indexOf(true);
  const names = targets.filter((_, i) => served[i]).map(({ arch }) => arch);
  return names.length > 3 && served.slice(first).every(Boolean) ? `${names[0]} and later` : names.join(", ");
}

function fieldPage(field: string): string {
  const users = backends.flatMap((backend) => {
    const found = backend.schedule.fields.find(({ name }) => name === field);
    return found === undefined ? [] : [{ backend, field: found }];
  });
  const rows = users.map(
    ({ backend, field: { syntax, default: value, off, print } }) =>
      `| ${backend.id} | ${architecturesOf(backend)} | \`${syntax.replaceAll("|", "\\|")}\` | \`${print(value)}\` | ${off === null ? "" : `\`${print(off)}\``} |`,
  );
  const summaries = new Map<string, readonly string[]>();
  for (const { backend, field } of users)
    summaries.set(field.summary, [...(summaries.get(field.summary) ?? []), backend.id]);
  const about =
    summaries.size === 1
      ? [...summaries.keys()].map((summary) => `What it does: ${escaped(summary)}.`)
      : [...summaries].map(([summary, ids]) => `* ${ids.join(", ")}: ${escaped(summary)}`);
  const steps = backends.flatMap((backend) =>
    (backend.ladders ?? []).flatMap((ladder) =>
      ladder.steps
        .filter(({ change }) => change.split(/\s+/).some((word) => word.startsWith(`${field}=`)))
        .map(
          ({ name, summary, change }) =>
            `| ${backend.id} | ${ladder.name} | ${escaped(name)} | \`${change.replaceAll("|", "\\|")}\` | ${escaped(summary)} |`,
        ),
    ),
  );
  const measured = measuredOf(field).map(
    ({ page, heading, table }) => `From [${escaped(heading)}](../../perf/${page}):\n\n${table.join("\n")}\n`,
  );
  return [
    `# ${field}`,
    "",
    ...about,
    "",
    "| backend | on | syntax | default | off |",
    "|---|---|---|---|---|",
    ...rows,
    "",
    "## What it is worth",
    "",
    measured.length > 0 ? measured.join("\n") : "Not measured.",
    "",
    "## Steps of ladders",
    "",
    steps.length > 0
      ? "Those that set it; `tilewright ladder NAME` runs one and shows what each step changes.\n\n| backend | ladder | step | change | meaning |\n|---|---|---|---|---|"
      : "No ladder has a step of its own for it.",
    ...steps,
    "",
  ].join("\n");
}

/** Which backend serves which dtype on which target, by the backends' own verdicts; the first is the one that is taken. */
function supportPage(): string {
  const cell = (arch: string, dtype: DType): string => {
    const problem = defineProblem({ ...size, dtype, b: { layout: "col" } });
    if (!problem.ok) return "";
    const target = must(findTarget(arch));
    return compiler
      .verdicts(problem.value, target)
      .flatMap(({ backend, verdict }) => (verdict.ok ? [backend.id] : []))
      .join(", ");
  };
  // Neighbours that say the same share a column: all of them side by side are wider than a page.
  const columns: { readonly archs: string[]; readonly cells: readonly string[] }[] = [];
  for (const { arch } of targets) {
    const cells = dtypeNames.map((dtype) => cell(arch, dtype) || "-");
    const last = columns.at(-1);
    if (last !== undefined && last.cells.join("\n") === cells.join("\n")) last.archs.push(arch);
    else columns.push({ archs: [arch], cells });
  }
  const head = `| dtype of A and B | ${columns.map(({ archs }) => archs.join(", ")).join(" | ")} |`;
  const rows = dtypeNames.map(
    (dtype, i) => `| ${dtype} | ${columns.map(({ cells }) => cells[i]).join(" | ")} |`,
  );
  return [
    "# Support matrix",
    "",
    "What the backends say themselves, of row-major A and column-major B with the usual accumulator and output; the first named is taken.",
    "`tilewright plan` gives the reasons of those that refuse.",
    "",
    head,
    `|---|${columns.map(() => "---|").join("")}`,
    ...rows,
    "",
  ].join("\n");
}

/** What `--help` prints, without a process. */
async function help(words: readonly string[]): Promise<string> {
  let said = "";
  const write = (data: string | Uint8Array): void => {
    said += String(data);
  };
  const context: Context = {
    stdout: { write, isTTY: false },
    stderr: { write() {}, isTTY: false },
    readPipe: () => "",
    env: {},
    cwd: root,
    now: () => 0,
    progress: () => () => {},
    onInterrupt() {},
  };
  await main(words, context);
  return said;
}

async function cliPage(): Promise<string> {
  const overview = await help(["--help"]);
  const names = [...(overview.split("Commands\n")[1]?.matchAll(/^ {2}(\w+) /gm) ?? [])].map(
    ([, name = ""]) => name,
  );
  const sections: string[] = [];
  for (const name of names)
    sections.push(`## ${name}\n\n\`\`\`text\n${(await help([name, "--help"])).trimEnd()}\n\`\`\`\n`);
  return `# Command line\n\n\`\`\`text\n${overview.trimEnd()}\n\`\`\`\n\n${sections.join("\n")}`;
}

/** Links to pages of a folder, each with its sentence. */
const links = (rows: readonly (readonly [name: string, text: string])[]): string =>
  rows.map(([name, text]) => `* [${name}](./${name}.md): ${escaped(text)}`).join("\n");

/** Fields under their topics; a field without one is a fault of the table. */
const byTopic = (fields: ReadonlyMap<string, string>): string =>
  topics
    .map(([topic, names]) => {
      const rows = names.flatMap((name) => {
        const summary = fields.get(name);
        return summary === undefined ? [] : [[name, summary] as const];
      });
      return `## ${topic}\n\n${links(rows)}\n`;
    })
    .join("\n");

/** Every generated page. */
export async function generatedPages(): Promise<Pages> {
  const pages = new Map<string, string>();
  const found = passes();
  for (const [name, use] of found) pages.set(`reference/passes/${name}.md`, passPage(name, use));
  pages.set(
    "reference/passes/index.md",
    `# Passes\n\nIn the order in which they first run.\n\n${links([...found].map(([name, { summary }]) => [name, summary] as const))}\n`,
  );
  const fields = new Map(
    backends.flatMap(({ schedule }) => schedule.fields.map(({ name, summary }) => [name, summary] as const)),
  );
  for (const name of fields.keys()) pages.set(`reference/schedule/${name}.md`, fieldPage(name));
  const best = backends.map(
    (backend) =>
      `* ${backend.id}: \`${printSchedule(backend.schedule, Object.fromEntries(backend.schedule.fields.map((field) => [field.name, field.default])))}\``,
  );
  pages.set(
    "reference/schedule/index.md",
    `# Schedule fields\n\nA schedule is a line of them; what is left out takes its default. Each backend has its own.\n\n${byTopic(fields)}\n## Defaults\n\n${best.join("\n")}\n`,
  );
  pages.set("reference/support.md", supportPage());
  pages.set("reference/epilogue.md", epiloguePage());
  pages.set("reference/manifest.md", manifestPage());
  pages.set("reference/cli.md", await cliPage());
  return pages;
}
