// @ts-check
// What a schema says, in words: members, types and bounds. Inner schemas open when they are asked
// for, since some hold themselves.
import { follow } from '../core/openapi.js';
import { plain } from '../lib/curl.js';
import { isOpen } from '../parts/basic.js';
import { Markdown } from '../parts/markdown.js';
import { html, useState } from '../vendor/preact-htm.js';

/**
 * A schema with all that it refers to and is joined of.
 * @param {Schema} given
 * @param {Schemas} schemas
 * @returns {Schema & {name?: string}}
 */
function whole(given, schemas) {
  const { allOf = [], ...own } = follow(given, schemas);
  return allOf
    .map((part) => whole(part, schemas))
    .reduce(
      (sum, part) => ({
        ...part,
        ...sum,
        properties:
          part.properties || sum.properties
            ? new Map([...(part.properties ?? []), ...(sum.properties ?? [])])
            : undefined,
        required: [...(part.required ?? []), ...(sum.required ?? [])],
      }),
      own,
    );
}

/** @param {JSONText[]} list */
const values = (list) => list.map((value) => plain(value)).join(', ');

/**
 * @param {Schema} given
 * @param {Schemas} schemas
 * @returns {string}
 */
function typeOf(given, schemas) {
  const form = whole(given, schemas);
  if (form.never) return 'nothing';
  if (form.const) return `always ${plain(form.const)}`;
  if (form.enum) return `one of ${values(form.enum)}`;
  const choices = form.oneOf ?? form.anyOf;
  if (choices) return choices.map((choice) => typeOf(choice, schemas)).join(' or ');
  if (form.type && form.type.length >= 6) return 'any JSON value';
  const types = (form.type ?? (form.properties ? ['object'] : ['any value'])).map((type) =>
    type === 'array' && form.items
      ? `list of ${typeOf(form.items, schemas)}`
      : type === 'object' && form.name
        ? form.name
        : type,
  );
  return types.join(' or ');
}

/**
 * @param {string | undefined} least
 * @param {string | undefined} most
 * @param {string} what
 */
const range = (least, most, what) => {
  if (least === undefined && most === undefined) return [];
  if (least === most) return [`${least} ${what}`];
  if (most === undefined) return [`at least ${least} ${what}`];
  return [least === undefined ? `at most ${most} ${what}` : `${least} to ${most} ${what}`];
};

/** @param {Schema} form */
const boundsOf = (form) => [
  ...range(form.minimum, form.maximum, ''),
  ...range(form.minLength, form.maxLength, 'characters'),
  ...range(form.minItems, form.maxItems, 'items'),
  ...range(form.minProperties, form.maxProperties, 'members'),
  ...(form.format ? [form.format] : []),
  ...(form.default ? [`default ${plain(form.default)}`] : []),
];

/**
 * The schemas with members of their own that a schema holds: of an object itself, of a list its
 * items, of a choice each.
 * @param {Schema} given
 * @param {Schemas} schemas
 * @returns {(Schema & {name?: string})[]}
 */
function innerOf(given, schemas) {
  const form = whole(given, schemas);
  const choices = form.oneOf ?? form.anyOf;
  if (choices) return choices.flatMap((choice) => innerOf(choice, schemas));
  if (form.properties?.size) return [form];
  if (form.items) return innerOf(form.items, schemas);
  return form.additionalProperties && !('never' in form.additionalProperties)
    ? innerOf(form.additionalProperties, schemas)
    : [];
}

/** @param {{form: Schema & {name?: string}, schemas: Schemas, refer: Refer}} props */
function Inner({ form, schemas, refer }) {
  const [open, setOpen] = useState(false);
  return html`
    <details onToggle=${(/** @type {Event} */ e) => setOpen(isOpen(e))}>
      <summary>Members${form.name ? ` of ${form.name}` : ''}</summary>
      ${open && html`<${Members} form=${form} schemas=${schemas} refer=${refer} />`}
    </details>`;
}

/**
 * One parameter, header or member: its name, type, bounds and description.
 * @param {{name: string, required?: boolean, description?: string, form?: Schema,
 *   schemas: Schemas, refer: Refer}} props
 */
export function Item({ name, required, description, form = {}, schemas, refer }) {
  const all = whole(form, schemas);
  const said = description ?? all.description;
  return html`
    <div class="member">
      <div class="member-head"><code class="member-name">${name}</code>
        <span class="member-type">${typeOf(form, schemas)}</span>
        ${boundsOf(all).map((bound) => html`<span class="member-type">${bound}</span>`)}
        ${required && html`<span class="member-required">required</span>`}</div>
      ${said && html`<${Markdown} text=${said} refer=${refer} />`}
      ${all.pattern && html`<div class="member-bound">matches <code>${all.pattern}</code></div>`}
      ${innerOf(form, schemas).map((inner) => html`<${Inner} form=${inner} schemas=${schemas} refer=${refer} />`)}
    </div>`;
}

/** @param {{form: Schema, schemas: Schemas, refer: Refer}} props */
function Members({ form, schemas, refer }) {
  const { properties = new Map(), required = [] } = form;
  return html`<div class="members">${[...properties]
    .filter(([, p]) => !p.never)
    .map(
      ([name, property]) => html`
    <${Item} name=${name} required=${required.includes(name)} form=${property} schemas=${schemas} refer=${refer} />`,
    )}</div>`;
}

/**
 * The schema of a body of a media type. What has members is shown with them; what is a choice, each
 * in turn.
 * @param {{given?: Schema, type?: string, schemas: Schemas, refer: Refer}} props
 */
export function Schema({ given = {}, type, schemas, refer }) {
  const form = whole(given, schemas);
  const inner = innerOf(given, schemas);
  return html`
    <div class="stack tight">
      <div class="member-type">${type && html`<code>${type}</code> · `}${typeOf(given, schemas)}</div>
      ${form.description && html`<${Markdown} text=${form.description} refer=${refer} />`}
      ${inner.length === 1 ? html`<${Members} form=${inner[0]} schemas=${schemas} refer=${refer} />`
        : inner.map((one) => html`<${Inner} form=${one} schemas=${schemas} refer=${refer} />`)}
    </div>`;
}
