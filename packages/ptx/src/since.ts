/** Since when there are instructions and directives. */
import type { PtxVersion } from "@tilewright/core";
import type { Operand, PtxModule, Statement } from "./ast.ts";
import { directiveRow } from "./directives.ts";
import type { Form } from "./form.ts";
import { selectForm } from "./match.ts";
import { resolveMnemonic } from "./resolve.ts";
import type { Requirement } from "./table/row.ts";

/** Of several forms that the operands fit, the one that is there earliest decides what is required. */
export function cheapest(
  forms: readonly Form[],
  first: Form,
  operands: readonly Operand[],
): Form["requirements"] {
  let best = first;
  for (const form of forms) {
    if (form === best || selectForm([form], operands) === null) continue;
    if (compare(form.row, best.row) < 0) best = form;
  }
  return best.requirements;
}

const compare = (a: Requirement, b: Requirement): number =>
  a.since[2] - b.since[2] || a.since[0] - b.since[0] || a.since[1] - b.since[1];

/** The oldest PTX that has a module's instructions and directives. */
export function versionNeeded({ items }: PtxModule): PtxVersion {
  let needed: PtxVersion = [1, 0];
  const need = ({ since: [major, minor] }: Requirement): void => {
    if (major > needed[0] || (major === needed[0] && minor > needed[1])) needed = [major, minor];
  };
  const known = new Set<string>();
  const visit = (statement: Statement): void => {
    if (statement.kind === "scope") statement.body.forEach(visit);
    if (statement.kind !== "instruction" || known.has(statement.mnemonic)) return;
    const { mnemonic, operands } = statement;
    const resolution = resolveMnemonic(mnemonic);
    const forms = resolution.ok ? resolution.forms : [];
    // Whatever the operands of the next one are.
    if (forms.every((form) => form.row.since === forms[0]?.row.since)) known.add(mnemonic);
    const form = selectForm(forms, operands);
    if (form !== null) for (const { requirement } of cheapest(forms, form, operands)) need(requirement);
  };
  for (const item of items) {
    if (item.kind !== "function") continue;
    for (const { name } of item.directives) {
      const row = directiveRow(name);
      if (row !== null && row !== undefined) need(row);
    }
    item.body?.forEach(visit);
  }
  return needed;
}
