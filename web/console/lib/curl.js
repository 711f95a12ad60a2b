// @ts-check
// Requests of the reference: their paths, bodies and the lines for a shell.

/**
 * A node of json.js over lines; what is short stays in one, with pad and so many characters before
 * it. Numbers and strings keep their spelling.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} [pad]
 * @param {number} [before]
 * @returns {string}
 */
export function layout(node, source, pad = '', before = 0) {
  if (node.type !== 'object' && node.type !== 'array') return source.slice(node.start, node.end);
  const [open, close] = node.type === 'object' ? '{}' : '[]';
  const inner = `${pad}  `;
  const lines = node.type === 'array'
    ? node.items.map((item) => layout(item, source, inner))
    : node.members.map(({ start, end, value }) => {
        const key = `${source.slice(start, end)}: `;
        return key + layout(value, source, inner, key.length);
      });
  const short = `${open}${lines.join(', ')}${close}`;
  if (pad.length + before + short.length <= 60 && !short.includes('\n')) return short;
  return `${open}\n${lines.map((line) => inner + line).join(',\n')}\n${pad}${close}`;
}

/**
 * What an example says as text: of a string its content, of other values their JSON.
 * @param {JSONText} value
 * @returns {string}
 */
export const plain = ({ node, source }) => (node.type === 'string' ? node.value : layout(node, source));

/**
 * An example as the body of a request of a media type.
 * @param {string} type
 * @param {JSONText} value
 */
export function bodyOf(type, { node, source }) {
  if (type !== 'application/x-www-form-urlencoded' || node.type !== 'object') return plain({ node, source });
  return node.members
    .map(({ key, value }) => `${encodeURIComponent(key)}=${encodeURIComponent(plain({ node: value, source }))}`)
    .join('&');
}

/**
 * Path and query of an operation, with values by parameter name; what has no value is left out of
 * the query.
 * @param {{path: string, parameters: {name: string, in: string, example?: JSONText}[]}} operation
 * @param {Record<string, string>} values
 */
export function address({ path, parameters }, values) {
  /** @param {string} name */
  const given = (name) => values[name] ?? '';
  // A parameter whose example has a slash spans segments.
  const spans = new Set(
    parameters.filter((p) => p.in === 'path' && p.example && plain(p.example).includes('/')).map((p) => p.name),
  );
  const filled = path.replace(/\{([^}]+)\}/g, (all, name) =>
    given(name) === ''
      ? all
      : spans.has(name)
        ? given(name).split('/').map(encodeURIComponent).join('/')
        : encodeURIComponent(given(name)),
  );
  const query = parameters
    .filter((p) => p.in === 'query' && given(p.name) !== '')
    .map((p) => `${encodeURIComponent(p.name)}=${encodeURIComponent(given(p.name))}`);
  return filled + (query.length ? `?${query.join('&')}` : '');
}

/** @param {string} text */
const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * The curl line of a request: {method, url, headers: [[name, value]], body, credential, binary,
 * upgrade}. The credential is $KEY, never a value.
 * @param {CurlRequest} request
 */
export function curl({ method, url, headers = [], body, credential = false, binary = false, upgrade = false }) {
  const parts = [`curl -sS${upgrade ? 'N --http1.1' : ''}${method === 'GET' ? '' : ` -X ${method}`} ${quote(url)}`];
  if (credential) parts.push('-H "Authorization: Bearer $KEY"');
  for (const [name, value] of headers) parts.push(`-H ${quote(`${name}: ${value}`)}`);
  if (upgrade)
    parts.push(
      "-H 'Connection: Upgrade' -H 'Upgrade: websocket'",
      '-H "Sec-WebSocket-Key: $(openssl rand -base64 16)" -H \'Sec-WebSocket-Version: 13\'',
    );
  if (body !== undefined) parts.push(`--data-binary ${quote(body)}`);
  if (binary) parts.push('--output answer.bin');
  return parts.join(' \\\n  ');
}
