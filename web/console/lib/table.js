// @ts-check

/**
 * A table for lookups by text from outside. It has its own members and no others, so that a text
 * such as __proto__ or constructor finds nothing.
 * @template T
 * @param {T} members
 * @returns {Readonly<T>}
 */
export const table = (members) => Object.freeze(Object.assign(Object.create(null), members));
