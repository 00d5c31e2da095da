// How the site's search splits, reads and ranks; copied beside the configuration. Functions of `options` travel to the browser as text: they use nothing around them.

/** Words of a query or page; null of words that stand everywhere. @param {string} term */
const processTerm = (term) =>
  /^(an?|and|are|as|at|by|do|for|from|how|i|in|is|it|my|of|on|or|the|to|what|with)$/i.test(term)
    ? null
    : term.toLowerCase();

/**
 * Weight of a section by its page, the word that matches and its headings: guides, then the reference and lists of codes, then records of measurements
 * and decisions, then the API. Where a heading has the word it counts more, and most where that heads the page; a page of the API is its name already.
 * @param {string} id path in the site @param {string} term @param {{ title?: unknown, titles?: unknown }} [stored]
 */
export const weight = (id, term, stored = {}) => {
  if (/^\/?api\//.test(id)) return 0.03;
  const page = /^\/?(?:perf\/|adr\/|hazards\/(?:corpus|mutation)|moving-to-core|packages|newcomer)/.test(id)
    ? 0.3
    : /^\/?(?:reference\/|errors|hazards\/|glossary)/.test(id)
      ? 0.6
      : 1;
  const { title = "", titles = [] } = stored;
  const words = String(title)
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  if (!words.includes(term)) return page;
  return page * (Array.isArray(titles) && titles.length > 0 ? 1.5 : 2.5);
};

/** @param {string} html */
const plain = (html) => html.replace(/<[^>]*>/g, "");

/**
 * A page of the API is one entry, by its name: its parameters alone lead nobody to it. Undefined of other pages, which are split by heading.
 * @param {string} path @param {string} html
 */
const sectionsOf = (path, html) => {
  if (!/[\\/]api[\\/]/.test(path)) return undefined;
  const [, title = "", anchor = ""] = /<h1[^>]*>(.*?)<a[^>]* href="#([^"]*)"/.exec(html) ?? [];
  return title === "" ? [] : [{ anchor, titles: [plain(title).trim()], text: plain(html) }];
};

export const search = {
  provider: "local",
  options: {
    miniSearch: {
      options: { processTerm },
      searchOptions: {
        boostDocument: weight,
        /** @param {string} term */
        fuzzy: (term) => (term.length > 4 ? 0.2 : false),
        /** @param {string} term */
        prefix: (term) => term.length > 2,
      },
      _splitIntoSections: sectionsOf,
    },
  },
};
