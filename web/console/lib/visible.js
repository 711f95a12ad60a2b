// @ts-check
// Text from outside may hold invisible characters: some turn the order of the text next to them
// (U+202E), some make two equal names different (U+200B), some hide a message (tag characters).
// A reader who judges a record must see that they are there.

// Control, format, unassigned and private characters, lone surrogates, separators of lines and
// paragraphs, what a font may leave out (variation selectors, fillers, joiners, tags), and the one
// letter whose shape is empty. Line feed and tab are what they look like.
const UNSEEN = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;
const PIECES = new RegExp(`(${UNSEEN.source})`, 'u');

/** @param {string} character */
const named = (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`;

/**
 * A text in which every character that would not be seen is written as ⟨U+202E⟩: for attributes,
 * titles and what is shown as plain text.
 * @param {string} text
 * @returns {string}
 */
export const visible = (text) => (UNSEEN.test(text) ? pieces(text).map(({ shown }) => shown).join('') : text);

/**
 * The same in pieces, {shown, unseen}: those that stand for a character that would not be seen, and
 * the text between them.
 * @param {string} text
 */
export const pieces = (text) =>
  text
    .split(PIECES)
    .map((piece, i) => (i % 2 ? { shown: named(piece), unseen: true } : { shown: piece, unseen: false }))
    .filter(({ shown }) => shown);
