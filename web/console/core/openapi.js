// @ts-check
// The service's API document (OpenAPI 3.1), read by forms into what the reference shows.
import { FormError, boolean, having, json, list, string } from '../lib/form.js';
import { parseMarkdown, slug } from '../lib/markdown.js';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

/**
 * An object of any member names, each value of one form.
 * @template T
 * @param {Form<T>} form
 * @returns {Form<Map<string, T>>}
 */
const map = (form) => (node, source, name) => {
  if (node.type !== 'object') throw new FormError(`${name} is not an object`);
  return new Map(node.members.map(({ key, value }) => [key, form(value, source, `${name}.${key}`)]));
};

/** @type {Form<string[]>} */
const words = (node, source, name) =>
  node.type === 'array' ? list(string)(node, source, name) : [string(node, source, name)];
/** @type {Form<string>} */
const lexeme = (node, source, name) => {
  if (node.type !== 'number') throw new FormError(`${name} is not a number`);
  return node.lexeme;
};

/**
 * A schema: true and false are schemas too.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {Schema}
 */
function schema(node, source, name) {
  if (node.type === 'true' || node.type === 'false') return { never: node.type === 'false' };
  return schemaMembers(node, source, name);
}

/** @type {Form<Schema>} */
const schemaMembers = having(
  {},
  {
    $ref: string,
    type: words,
    description: string,
    format: string,
    pattern: string,
    properties: map(schema),
    required: list(string),
    items: schema,
    additionalProperties: schema,
    oneOf: list(schema),
    anyOf: list(schema),
    allOf: list(schema),
    enum: list(json),
    const: json,
    default: json,
    examples: list(json),
    minimum: lexeme,
    maximum: lexeme,
    minLength: lexeme,
    maxLength: lexeme,
    minItems: lexeme,
    maxItems: lexeme,
    minProperties: lexeme,
    maxProperties: lexeme,
  },
);

/**
 * What may stand there itself or as a reference to a component.
 * @template {object} T
 * @param {Form<T>} form
 * @returns {Form<OrReference<T>>}
 */
const orReference = (form) => (node, source, name) => {
  const { $ref } = having({}, { $ref: string })(node, source, name);
  return /** @type {any} */ ($ref === undefined ? form(node, source, name) : { $ref });
};

const media = having({}, { schema, example: json, examples: map(having({}, { summary: string, value: json })) });
const parameter = orReference(
  having({ name: string, in: string }, { required: boolean, description: string, schema, example: json }),
);
const header = orReference(having({}, { description: string, schema, example: json }));
const answer = orReference(having({ description: string }, { headers: map(header), content: map(media) }));
/** @type {Form<OperationForm>} */
const operation = having(
  { operationId: string, tags: list(string), summary: string, responses: map(answer) },
  {
    description: string,
    parameters: list(parameter),
    requestBody: having({}, { required: boolean, description: string, content: map(media) }),
    security: list(map(json)),
    'x-rate-tier': string,
    'x-role': string,
    'x-addition': boolean,
    'x-websocket-message': schema,
  },
);
/** @type {Record<string, Form<OperationForm>>} */
const operations = Object.fromEntries(METHODS.map((method) => [method, operation]));
const pathItem = having({}, operations);

const documentForm = having(
  {
    info: having({ title: string, version: string }, { summary: string, description: string }),
    tags: list(having({ name: string }, { description: string })),
    paths: map(pathItem),
  },
  {
    components: having(
      {},
      { parameters: map(parameter), headers: map(header), responses: map(answer), schemas: map(schema) },
    ),
  },
);

/**
 * @param {Map<string, MediaForm> | undefined} content
 * @returns {Media[]}
 */
const mediaOf = (content) =>
  [...(content ?? [])].map(([type, { schema: form, example, examples }]) => ({
    type,
    schema: form,
    examples: examples
      ? [...examples]
          .flatMap(([name, { summary, value }]) => (value ? [{ name: summary ?? name, value }] : []))
      : example
        ? [{ name: 'example', value: example }]
        : [],
  }));

/**
 * @param {string} method
 * @param {string} path
 * @param {OperationForm} op
 * @param {Resolve} resolve
 * @returns {Operation}
 */
function describe(method, path, op, resolve) {
  const responses = [...op.responses].map(([status, given]) => {
    const { description, headers, content } = resolve(given);
    return {
      status,
      description,
      headers: [...(headers ?? [])].map(([name, h]) => ({ name, ...resolve(h) })),
      media: mediaOf(content),
    };
  });
  return {
    id: op.operationId,
    method: method.toUpperCase(),
    path,
    tag: op.tags[0],
    summary: op.summary,
    description: op.description ?? '',
    role: op['x-role'] ?? '',
    tier: op['x-rate-tier'] ?? '',
    addition: op['x-addition'] === true,
    message: op['x-websocket-message'],
    // Whether a credential belongs to a request: always, if one likes, or never.
    credential:
      !op.security || (op.security.every((one) => one.has('bearer')) && op.security.length)
        ? 'needed'
        : op.security.some((one) => one.has('bearer'))
          ? 'optional'
          : 'none',
    parameters: (op.parameters ?? []).map(resolve),
    body: op.requestBody && {
      required: op.requestBody.required === true,
      description: op.requestBody.description,
      media: mediaOf(op.requestBody.content),
    },
    responses,
  };
}

/** @param {string} text */
const headingsOf = (text) =>
  parseMarkdown(text)
    .flatMap((block) => (block.type === 'heading' ? [{ id: block.id, name: block.text }] : []));

/**
 * {title, version, description, sections, resources, schemas, places}. resources: the tags, each
 * {id, name, description, sections, operations}. places: what a URL may name, as id → {resource,
 * operation}; of a section of the beginning, neither.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {Reference}
 */
export function openAPI(node, source, name) {
  const { info, tags, paths, components = {} } = documentForm(node, source, name);
  /** @type {Resolve} */
  const resolve = (given) => {
    // TypeScript does not narrow what is generic.
    if (given.$ref === undefined) return /** @type {any} */ (given);
    const [, kind = '', id = ''] = /^#\/components\/([a-z]+)\/(.+)$/i.exec(given.$ref) ?? [];
    // The members of a kind are of the form that is referred to from where that kind is read.
    /** @type {any} */
    const found = new Map(Object.entries(components)).get(kind)?.get(id);
    if (!found) throw new FormError(`${name} has no ${given.$ref}`);
    return resolve(found);
  };
  const operations = [...paths].flatMap(([path, item]) =>
    METHODS.flatMap((m) => {
      const op = item[m];
      return op ? [describe(m, path, op, resolve)] : [];
    }),
  );
  const resources = tags.map(({ name: tag, description = '' }) => ({
    id: slug(tag),
    name: tag,
    description,
    sections: headingsOf(description),
    operations: operations.filter((op) => op.tag === tag),
  }));
  const sections = headingsOf(info.description ?? '');
  const places = new Map(sections.map(({ id }) => [id, {}]));
  for (const resource of resources) {
    places.set(resource.id, { resource });
    for (const { id } of resource.sections) places.set(id, { resource });
    for (const op of resource.operations) places.set(op.id, { resource, operation: op });
  }
  return {
    title: info.title,
    version: info.version,
    description: info.description ?? '',
    sections,
    resources,
    schemas: components.schemas ?? new Map(),
    places,
  };
}

/**
 * The schema that a schema refers to, with its name; itself where it refers to none.
 * @param {Schema | undefined} given
 * @param {Map<string, Schema>} schemas
 * @param {number} [depth]
 * @returns {Schema & {name?: string}}
 */
export function follow(given, schemas, depth = 0) {
  const name = /^#\/components\/schemas\/(.+)$/.exec(given?.$ref ?? '')?.[1];
  const found = name && depth < 16 ? schemas.get(name) : undefined;
  if (!found) return { ...given };
  const { name: inner, ...target } = follow(found, schemas, depth + 1);
  const { $ref, ...own } = given ?? {};
  return { ...target, ...own, name: name ?? inner };
}

/**
 * Words that are all in an operation, in its method, path, names or prose; those found in its head
 * come first.
 * @param {Resource[]} resources
 * @param {string} query
 */
export function search(resources, query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return [];
  const found = [];
  for (const { operations } of resources) {
    for (const op of operations) {
      const head = `${op.method} ${op.path} ${op.summary} ${op.id}`.toLowerCase();
      const rest =
        `${op.tag} ${op.description} ` +
          `${op.parameters.map((p) => `${p.name} ${p.description ?? ''}`).join(' ')}`.toLowerCase();
      if (wanted.every((word) => head.includes(word) || rest.includes(word)))
        found.push({ op, rank: wanted.filter((word) => !head.includes(word)).length });
    }
  }
  return found.sort((a, b) => a.rank - b.rank).map(({ op }) => op);
}
