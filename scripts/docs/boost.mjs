// How the site's search ranks what matches alike; copied beside the configuration.

/** Weight of a page by its path in the site: guides before the reference, and that before the API. @param {string} id */
export const boost = (id) => (/^\/?api\//.test(id) ? 0.1 : /^\/?reference\//.test(id) ? 0.6 : 1);
