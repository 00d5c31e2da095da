/** The page: panels behind tabs, each of which draws itself when the session tells of something new. */
import { fromHash, type Tab, tabs } from "./model/state.ts";
import { drawActions, startTheme } from "./page/actions.ts";
import { ChoicesPanel } from "./page/choices.ts";
import { fill, h } from "./page/dom.ts";
import { ForeignPanel } from "./page/foreign.ts";
import { LaddersPanel } from "./page/ladders.ts";
import { PicturesPanel } from "./page/pictures.ts";
import { RequestPanel } from "./page/request.ts";
import { RunPanel } from "./page/run.ts";
import { Session } from "./page/session.ts";
import { StagesPanel } from "./page/stages.ts";

const names: Readonly<Record<Tab, string>> = {
  stages: "Stages",
  choices: "Choices",
  run: "Run",
  pictures: "Pictures",
  ladders: "Ladders",
  foreign: "Any PTX",
};

const place = (id: string): HTMLElement => {
  const found = document.getElementById(id);
  if (found === null) throw new TypeError(`the page has no #${id}`);
  return found;
};

/** Tabs by the ARIA pattern: arrows, Home and End move among them. */
function drawTabs(session: Session): Readonly<Record<Tab, HTMLElement>> {
  const panels = {} as Record<Tab, HTMLElement>;
  const buttons = tabs.map((tab) => {
    const button = h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${tab}`,
        "aria-controls": `panel-${tab}`,
        onclick: () => session.set({ tab }),
      },
      names[tab],
    );
    panels[tab] = h("div", {
      role: "tabpanel",
      id: `panel-${tab}`,
      "aria-labelledby": `tab-${tab}`,
      class: "panel",
    });
    return button;
  });
  const list = place("tabs");
  fill(list, buttons);
  fill(place("panels"), Object.values(panels));
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(session.state.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    session.set({ tab: tabs[next] ?? "stages" });
    buttons[next]?.focus();
  });
  const draw = (): void => {
    tabs.forEach((tab, i) => {
      const chosen = session.state.tab === tab;
      buttons[i]?.setAttribute("aria-selected", String(chosen));
      buttons[i]?.setAttribute("tabindex", chosen ? "0" : "-1");
      panels[tab].hidden = !chosen;
    });
  };
  session.listen(draw);
  draw();
  return panels;
}

async function main(): Promise<void> {
  startTheme();
  if (matchMedia("(max-width: 1100px)").matches)
    document.querySelector("details.request")?.removeAttribute("open");
  const session = new Session(await fromHash(location.hash));
  drawActions(place("actions"), session);
  const panels = drawTabs(session);
  new RequestPanel(place("request"), session);
  const stages = new StagesPanel(panels.stages, session);
  const others = new Map<Tab, () => void>([
    ["choices", () => new ChoicesPanel(panels.choices, session)],
    ["run", () => new RunPanel(panels.run, session, stages)],
    ["pictures", () => new PicturesPanel(panels.pictures, session)],
    ["ladders", () => new LaddersPanel(panels.ladders, session)],
    ["foreign", () => new ForeignPanel(panels.foreign, session)],
  ]);
  const make = (tab: Tab): void => {
    others.get(tab)?.();
    others.delete(tab);
  };
  // A panel is made when it is shown first. One made here is told of what made it: the session's loop comes to it next.
  session.listen(() => make(session.state.tab));
  make(session.state.tab);
  addEventListener("hashchange", async () => session.set(await fromHash(location.hash)));
  await session.compile();
  document.documentElement.dataset.ready = "yes";
  performance.mark("interactive");
  session.warm();
}

void main();
