// Types that several modules of the console share.

type Bytes = Uint8Array<ArrayBuffer>;

interface Place { start: number; end: number }
interface JSONMember extends Place { key: string; value: JSONNode }
type JSONNode =
  | (Place & { type: 'object'; members: JSONMember[] })
  | (Place & { type: 'array'; items: JSONNode[] })
  | (Place & { type: 'string'; value: string })
  | (Place & { type: 'number'; lexeme: string })
  | (Place & { type: 'true' | 'false' | 'null' });

/** A node with the text that it was parsed from. */
interface JSONText { node: JSONNode; source: string }

/** Reads a node in its form, or throws a FormError that calls it by the name. */
type Form<T> = (node: JSONNode, source: string, name: string) => T;
type Forms = Record<string, Form<any>>;
type Read<F> = { [K in keyof F]: F[K] extends Form<infer T> ? T : never };
type Expand<T> = { [K in keyof T]: T[K] };

/** A key that is ready for Ed25519 checks: what the engine of ed25519.js makes of it. */
type PreparedKey = any;

interface Rotation { statement: string; oldSignature: string; newSignature: string }

/** A key as the service publishes it. */
interface PublishedKey {
  kid: string;
  fingerprint: string;
  pem: string;
  x: string;
  fromIndex?: number;
  endedAt?: string;
  compromisedAt?: string;
  rotation?: Rotation;
}

/** A key of a company that checks signatures; ring has all that it had, the oldest first. */
interface CompanyKey extends PublishedKey {
  companyId: string;
  spiffeId: string;
  raw: Bytes;
  prepared: PreparedKey;
  origin?: string;
  ring?: CompanyKey[];
}

/** What of a company's key is needed to check one record. */
interface RecordKey { companyId: string; prepared: PreparedKey; ring?: { fromIndex: number; prepared: PreparedKey }[] }

/** An attestation record as record.js reads it, with the nodes that were hashed. */
interface LogRecord {
  text: string;
  source: string;
  index: number;
  timestamp: string;
  agentId: string;
  companyId: string;
  actionType: string;
  hash: string;
  signature: string;
  delegation?: { subject: string; chain: string[]; tokenId: string };
  inner: JSONNode;
  payloadNode: JSONNode | undefined;
  delegationNode: JSONNode | undefined;
}

/** A size of a log with its roots in hex: of the specification's tree, and of that of RFC 6962. */
interface Head { size: number; root?: string; logRoot?: string }

/** A key that signs notes (c2sp.org/signed-note). */
interface NoteKey { name: string; raw: Bytes; id: Bytes; prepared: PreparedKey; vkey?: string }

/** A signature line of a note. */
interface NoteLine { name: string; id: Bytes; blob: Bytes }
interface Checkpoint { origin: string; size: bigint; root: Bytes; text: string; lines: NoteLine[] }

/** A policy (c2sp.org/tlog-policy) as policy.js reads it. */
interface Policy {
  logs: NoteKey[];
  witnesses: [string, NoteKey][];
  groups: [string, number, string[]][];
  name: string;
}
