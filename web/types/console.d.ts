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
type Forms = Record<string, Form<unknown>>;
type Read<F> = { [K in keyof F]: F[K] extends Form<infer T> ? T : never };
type Expand<T> = { [K in keyof T]: T[K] };

/** A key that is ready for Ed25519 checks; native is the browser's own, where it takes the key. */
interface PreparedKey { raw: Bytes; native?: CryptoKey | null }

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
  /** Why its keys are worth nothing, where one does not follow from the one before it. */
  flaw?: string;
  /** Whether a server publishes it now, and not a file. */
  published?: boolean;
}

/** The key of a company as its server publishes it, with what its tokens must say. */
interface ServiceKey extends CompanyKey {
  audience: string;
  issuer: string;
  published: true;
  /** The control log, with the keys that sign it and from which of its records on. */
  controlLog?: NonNullable<ReturnType<typeof import('../console/core/answers.js').publishedKeys>['logs']>[number];
}

/** What of a company's key is needed to know it again. */
interface NamedKey {
  companyId: string;
  fingerprint: string;
  ring?: { fingerprint: string }[];
  flaw?: string;
  published?: boolean;
}

/** A key that signs records from an index on. */
interface SigningKey { raw: Bytes; prepared: PreparedKey; fromIndex?: number }

/** What of a company's key is needed to check its records. */
interface RecordKey extends SigningKey { companyId: string; ring?: SigningKey[] }

/** A key of a company as it goes to a worker. */
interface PlainKey { companyId: string; keys: { raw: Bytes; fromIndex?: number }[] }

interface Company {
  companyId: string; spiffeId: string; suspended?: { since: string; reason: string }; metadata?: { demo: boolean };
}

/** A key pair of this page (lib/ed25519_sign.js). */
interface KeyPair { raw: Bytes; sign: (message: Bytes) => Promise<Bytes> }

/** What a record of the demonstration tells. */
interface DemoEvent { index: number; at: string; agentId: string; summary: string; check: WorkerResult }

/** An item of a batch in the script of the demonstration. */
interface DemoItem { agentId: string; actionType: string; payload: unknown; session?: string; end?: boolean }

type LogName = 'actions' | 'control';
type FileKind = 'evidence' | 'session' | 'report' | 'archive' | 'lines' | 'proof' | 'record' | 'status' | 'passport'
  | 'token' | 'keys' | 'checkpoint' | 'consistency' | 'tlog-proof' | 'saved';

/** What checkRecord of record.js finds out about a record. */
interface RecordResult {
  computed: string;
  hashOK: boolean;
  signatureOK: boolean;
  ok: boolean;
  reason: string;
  pruned: boolean;
  /** Which has its payload, where it was pruned (core/archives.js). */
  archive?: Archive;
}

/**
 * An archive that has the payloads of the first records, as a control record names it by its
 * SHA-256.
 */
interface Archive { records: number; archive: string; index: number }

/** The same from a worker, with the record's place and its leaf in the log tree. */
interface CheckedRecord extends RecordResult { index: number; hash: string; leaf: Bytes; error?: undefined }

/** What a worker says of a text that is no record. */
type Unreadable = { [K in Exclude<keyof CheckedRecord, 'ok' | 'reason' | 'error'>]?: undefined } & {
  ok: false;
  reason: string;
  error: string;
};
type WorkerResult = CheckedRecord | Unreadable;

/** A record that the page shows as it came; check is null while it has none. */
interface LiveEntry { record: LogRecord; check: WorkerResult | null; late: boolean }
interface CheckedEntry { record: LogRecord; check: { ok: boolean; reason: string; pruned?: boolean } }

type Decision = ReturnType<typeof import('../console/lib/decision.js').decisionForm>;

type Decided = Pick<Decision, 'verdict' | 'by' | 'code'>;

/** An attestation record as record.js reads it, with the nodes that were hashed. */
interface LogRecord {
  text: string;
  pruned: boolean;
  source: string;
  index: number;
  timestamp: string;
  agentId: string;
  companyId: string;
  actionType: string;
  hash: string;
  signature: string;
  delegation?: { subject: string; chain: string[]; tokenId: string };
  statement?: string;
  decision?: Decision;
  inner: JSONNode;
  payloadNode: JSONNode | undefined;
  delegationNode: JSONNode | undefined;
}

/** A size of a log with its roots in hex: of the specification's tree, and of that of RFC 6962. */
interface Head { size: number; root?: string; logRoot?: string }

type HeadSource = 'seen' | 'checked' | 'checkpoint';

/** A head that this browser has seen of a company's log (core/heads.js). */
interface KeptHead extends Head {
  companyId: string;
  fingerprints: string[];
  log: LogName;
  at: string;
  source: HeadSource;
  proven: boolean;
}

/** A head that is to be kept. */
interface NewHead extends Head { log: LogName; source: HeadSource; at?: string }

/** The beginning of a log, with its root in the specification's tree. */
interface LogPart { size: number; root: string }

/** What was found to be wrong with a company (core/findings.js). */
interface RewrittenFinding {
  kind: 'rewritten';
  companyId: string;
  found: string;
  log: LogName;
  size: number;
  at: string;
  source: HeadSource;
  from: number;
  now: number;
}
interface FailureFinding {
  kind: 'failure';
  companyId: string;
  found: string;
  failedAt: string;
  reason: string;
  by: 'here' | 'server';
  log?: LogName;
}
interface KeyFinding { kind: 'key'; companyId: string; found: string; fingerprint: string; log?: undefined }
interface FindingKinds { rewritten: RewrittenFinding; failure: FailureFinding; key: KeyFinding }
type FindingKind = keyof FindingKinds;
type Finding = FindingKinds[FindingKind];
type NewFinding = { [K in FindingKind]: Omit<FindingKinds[K], 'found'> }[FindingKind];

/** A tone of what is shown: ok, warn and bad as of Badge; none for what is only said. */
type Tone = 'ok' | 'warn' | 'bad' | '';
type KeyState = 'confirmed' | 'other' | 'unconfirmed';

/** What a verdict is about: a record, or a part that is none. */
interface About { log?: LogName; index?: number | null; pruned?: boolean }
interface Verdict { tone: Tone; own: Tone; is: string; against: Finding | null }
type Assess = (ok: boolean, about?: About | null) => Verdict;

/** An agent of a company. */
interface AgentName { companyId: string; agentId: string }

/**
 * Who signed a record, as far as it was checked (lib/words.js): of the agent, by a statement
 * that holds; of whoever has a key of the company; unsigned, though only the agent's key might
 * speak then; a statement that fails; or unknown, where that could not be found out. chain is as
 * of agentKeyState. stolen says that the key was in other hands when the record was made. notes
 * says what else there is to know; warns marks what needs attention.
 */
interface Word extends AgentName {
  is: 'agent' | 'company' | 'unsigned' | 'fails' | 'unknown';
  reason: string;
  chain: string[];
  notes: { says: string; warns: boolean }[];
  stolen?: boolean;
  session?: {
    sid: string; seq: number; prev?: string; end?: boolean; hash: string;
    refused?: { seq: number; hash: string; code: string }[]; continues?: Continuation;
  };
}

/** The last statement of the session that another one goes on from. */
interface Continuation { sid: string; kid: string; hash: string }

/** A change of a policy, at in ms; and control records of an agent's keys, by thumbprint. */
interface PolicyChange { index: number; at: number; attest: 'any' | 'key' }
type KeyEvents = Map<string, (ControlEvent & { source: string })[]>;
type JudgeWord = ReturnType<typeof import('../console/parts/word.js').useAgentTrust>;

type ListedAgentKey = ReturnType<typeof import('../console/core/agent_keys.js').listedKey>;
type ListedSession = ReturnType<typeof import('../console/core/sessions.js').sessionPage>['sessions'][number];

/** What names a session: kid is '' without statements. */
interface SessionName { agentId: string; sid: string; kind: ListedSession['kind']; kid: string }
/** The same as a URL may have it: what is '' is not known. */
interface SessionQuery { agentId: string; sid: string; kind: string; kid: string }

/** What a record says of a call: texts from outside, each on one line. */
interface CallWords {
  tool: string;
  what: string;
  kind: 'command' | 'file' | 'prompt' | 'url' | 'other';
  outcome: 'requested' | 'completed' | 'failed' | 'denied' | 'pending' | 'ended' | '';
  why: string;
  output: string;
  decided?: Decided;
}

/** A line of both texts, of the one before alone, or of the one after alone. */
type DiffLine = [' ' | '-' | '+', string];
/** What a record of a call has in full. */
interface CallParts { kind: CallWords['kind']; asked: string; changes: DiffLine[][]; why: string; output: string }

/** A record of a session: as it was read and checked, and what its payload says of a call. */
interface SessionEntry { row: Row; record: LogRecord; at: number; said: SessionSaid; words: CallWords }
interface SessionSaid {
  sid: string; source: string; tool: string; callId: string;
  durationMs: number | null;
}

/** Records of a session that belong together: a call with its outcome, or one event. */
interface SessionCall {
  asked: SessionEntry | null;
  pending: SessionEntry | null;
  outcome: SessionEntry | null;
  event: SessionEntry | null;
  broken: Row | null;
  note: string;
}
type SessionCalls = import('../console/core/session_calls.js').SessionCalls;
type SessionRows = import('../console/core/session_rows.js').SessionRows;
/** A row of a session's page: a call, or the pause before one. */
type StoryRow = { call: SessionCall; pause?: undefined; at: number } | { pause: number; call?: undefined; at: number };
interface SessionWhole {
  is: 'checking' | 'fails' | 'lacking' | 'disobeyed' | 'missing' | 'complete' | 'open' | 'unproven' | 'pruned';
  says: string;
  /** What its statements say besides, where they could be checked. */
  /** How many of its places are not there. */
  absent?: number;
  continues?: Continuation;
  notes?: Word['notes'];
}

/** A call that was refused and ran all the same: indexes of its last refusal and first outcome. */
interface DisobeyedCall { refused: number; done: number; tool: string }
/** What the records of a call have said so far. */
interface CallState {
  /** Those that no decision refused. */
  requests: number;
  /** Less the requests that a decision refused. */
  refusals: number;
  refused: number | null; done: number | null; tool: string; found: boolean;
}
/** What is read of a record to find its call. */
type CallRecord = Pick<LogRecord, 'agentId' | 'actionType' | 'inner'> & { decision?: { verdict: string } };

/** What may be recorded in an agent's name, as its policy says and that of the company. */
interface Policies { own: 'any' | 'key'; company: 'any' | 'key' }

/** A log as the service names it. */
interface ServiceLog {
  log: LogName;
  logId: string;
  origin: string;
  vkeys: string[];
  size: number;
  merkleRoot: string;
  root: string;
}

/** A request: what of it the caller may choose. */
interface CallOptions {
  body?: unknown; headers?: Record<string, string>; signal?: AbortSignal; accept?: string
  person?: boolean // with the session's cookie, whoever is signed in
}

/** What an answer must name, or what throws where it is to another question. */
type Asked<T> = object | ((found: T) => void);

/** The service's verdict on a whole log. */
type ChainVerdict =
  | { valid: true; merkleRoot: string; failedAtIndex?: number; error?: string }
  | { valid: false; merkleRoot?: string; failedAtIndex: number; error?: string };

/** What a page of a search says of itself. */
interface SearchPage { size: number; read: { from: number; to: number }; next: string; pruned?: number }

/** A search over the records, as core/search.js reads it from a URL. */
/** A part of a condition on members of a payload: the path of a member, and its canonical form. */
interface MemberPart {
  path: string[];
  value: string;
}
interface Search {
  agent: string;
  action: string;
  delegatedBy: string;
  decision: string;
  policy: string;
  since: string;
  until: string;
  q: string;
  payload: string;
  hash: string;
  order: 'newest' | 'oldest';
  failures: boolean;
}
type SearchField =
  | 'q' | 'payload' | 'agent' | 'action' | 'delegatedBy' | 'decision' | 'policy' | 'hash' | 'last' | 'since' | 'until' | 'order' | 'failures';
/** A search over records that has a name in this browser. */
interface SavedSearch {
  companyId: string;
  name: string;
  query: Partial<Record<SearchField, string>>;
}
type Query = Partial<Record<string, string>>;

/** A row of the page Records. */
interface Row {
  index: number | null;
  timestamp: string;
  hash: string;
  agentId: string;
  actionType: string;
  delegated?: boolean;
  /** Of a record that could be read: what it says of a call, and the beginning of its payload. */
  words?: CallWords;
  text: string;
  pruned?: boolean;
  check: { ok: boolean; reason: string; pruned?: boolean } | null;
  word?: Word;
}

/** A control record in a file or a report, as what it says. */
interface ControlEvent {
  index: number;
  timestamp: string;
  action: string;
  subject: string;
  by: string;
  agentId: string;
  revokedAt: string;
  reason: string;
  inner: JSONNode;
}

/** The revocation of an agent's key: why and since are '' where it does not say. */
interface RevokedEvent extends ControlEvent { why: string; since: string }

/** A key of an agent, and what was signed with one (lib/statement.js). */
interface AgentKey {
  thumbprint: string;
  alg: string;
  verify: (signature: Bytes, signed: Bytes) => Promise<boolean>;
}
interface AgentJWS<C> { alg: string; kid: string; claims: C; signed: Bytes; signature: Bytes }

/** A key of an agent with its control records (lib/evidence/agent_keys.js). */
interface EnrolledKey {
  event: ControlEvent;
  revoked: RevokedEvent[];
  /** The oldest version of statements that it may make. */
  version: 1 | 2;
  expiresAt: string | null;
  enrolment: string | null;
  endorsement: ReturnType<typeof import('../console/lib/statement.js').readEndorsement> | null;
  key: AgentKey;
}

/** A change of the control log that was found and checked. */
interface ControlChange {
  record: LogRecord;
  subject: string;
  by: string | null;
  agentId?: string;
  ok: boolean;
  flaw: string;
}

/** What is compared of a list with the control log (core/listed.js). */
interface ListedKind {
  what: string;
  created: string;
  changed?: string[];
  ended: string;
  says: (members: Record<string, any>, record: LogRecord) => Record<string, unknown>;
}
/** One thing of a list: the subject of its control records, and its members. */
interface ListedItem { subject: string; lists: Record<string, unknown> }

/** What the control log says of each subject of a list. */
type ListedLives = Map<string, {
  first: LogRecord; last: LogRecord; ended: boolean; said: Map<string, { value: any; record: LogRecord }>;
}>;

/** Something in which a list is not what the control log says; record says so. */
interface ListedDifference {
  kind: string;
  what: string;
  name: string;
  is: 'lacking' | 'ended' | 'unknown' | 'altered';
  record: LogRecord | null;
  altered?: { member: string; lists: string; says: string };
}

/** A list compared with the control log: how many of its kinds were created and deleted there. */
interface ListedCheck { differences: ListedDifference[]; created: number; ended: number }

/** A record with a delegation, and the verdict on it. */
interface DelegatedEntry {
  record: { index: number; timestamp: string; delegation?: { chain: string[]; tokenId: string } };
  tone: Tone;
}
/** What one principal did for another in a company. */
interface CompanyEdge extends GraphEdge {
  tokens: number;
  since: string;
  last: string;
  tone: Tone;
  entries: { index: number; timestamp: string; tone: Tone }[];
}
/** A principal of delegations, and what one did for another. */
interface GraphNode { name: string; count: number }
interface GraphEdge { from: string; to: string; count: number; index: number }
interface Graph { nodes: GraphNode[]; edges: GraphEdge[] }
interface GraphBox extends GraphNode { x: number; y: number; width: number; height: number }

/** The Markdown of lib/markdown.js. */
type Inline = string | { type: 'code'; text: string; content?: undefined }
  | { type: 'strong'; content: Inline[]; text?: undefined }
  | { type: 'em'; text: string; content: Inline[] } | { type: 'link'; to: string; content: Inline[]; text?: undefined };
interface Heading { type: 'heading'; id: string; text: string; content: Inline[] }
type Block = Heading | { type: 'paragraph'; content: Inline[] } | { type: 'list'; ordered: boolean; items: Block[][] }
  | { type: 'code'; text: string } | { type: 'table'; head: Inline[][]; rows: Inline[][][] };

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

/** A value that components watch (core/store.js); set merges into a fresh object. */
interface Store<T> {
  get(): T;
  set(patch: Partial<T>): void;
  subscribe(watch: () => void): () => boolean;
}

/** Who is signed in (core/session.js). */
interface Person {
  personId: string; name: string; email: string | null; roles: string[]; groups: string[]; createdAt: string;
  disabledAt?: string;
  passkeys?: { credentialId: string; fingerprint: string; backupEligible: boolean; createdAt: string;
    revokedAt?: string }[];
}

/** What a passkey signs to decide an approval, and one as the server lists it. */
interface ApprovalObject {
  approvalId: string; log: string; index: number; hash: string; agentId: string; tool: string; person: string;
  verdict: 'approve' | 'deny'; uses: number; expiresAt: string; reason: string | null;
}
interface Approval {
  approvalId: string; state: 'pending' | 'approved' | 'denied' | 'expired' | 'used' | 'withdrawn'; log: string;
  index: number; hash: string; agentId: string; tool: string; requestReason: string | null; createdAt: string;
  expiresAt: string; quorum: number; approvers: string[]; by: string[]; reason: string | null;
  controlIndex: number | null; uses?: number; remaining?: number;
}
/** The record that an approval is about, once it was checked, and when the request ends. */
interface ApprovalRequest { record: LogRecord; origin: string; tool: string; ends: string }
/** reason and until are '' where there is none. */
interface ApprovalChoice { verdict: 'approve' | 'deny'; reason: string; uses: number; until: string }

interface PersonSession {
  sessionId: string; signedIn: string; createdAt: string; lastUsedAt: string; expiresAt: string; present: boolean;
}

interface Session {
  status: 'out' | 'restoring' | 'in';
  company: Company | null;
  key: ServiceKey | null;
  staySignedIn: boolean;
  message: string;
  back: string;
  waits: boolean;
  turn: number;
}

/** What of a key in a ring says whether the ring is the one that was known. */
interface RingKey { fingerprint: string; fromIndex?: number; endedAt?: string; compromisedAt?: string; ring?: RingKey[] }

/** What is confirmed and remembered of keys (core/trust.js). */
interface TrustState { confirmed: string[]; seen: string[]; latest: string[] }

/** Whether the company that a job belongs to is still signed in. */
type Current = () => boolean;

/** Records [from, to) that did not come over the stream. */
interface Missed { from: number; to: number; fetched: number; away: boolean }

/** What the server said last of its whole chain. */
interface ServerVerdict {
  valid: boolean;
  length: number;
  at: string;
  root?: string;
  failedAt?: number;
  reason?: string;
}

/** What the page Live shows (core/live_state.js). */
interface LiveState {
  connection: 'off' | 'connecting' | 'open' | 'retrying';
  since: string;
  entries: LiveEntry[];
  range: { from: number; to: number } | null;
  whole: boolean;
  root: string;
  agreed: boolean;
  behind: number;
  unchecked: number;
  failure: FailureFinding | null;
  server: ServerVerdict | null;
  missed: Missed[];
  problem: string;
  beats: number;
}

interface StreamListener {
  connecting(): void;
  opened(): void;
  message(data: string): void;
  lost(refused: boolean): void;
}

interface PoolAnswer { engine: string; results: WorkerResult[] }
interface PoolWorker {
  port: Worker | MessagePort;
  waiting: Map<number, { resolve: (answer: PoolAnswer) => void; reject: (err: Error) => void }>;
}

/**
 * A log that is read from its first record on, as it goes from one worker to another
 * (lib/whole_log.js).
 */
interface WholeLogState { peaks?: { size: number; hash: string }[]; roots?: Bytes[] }

/** What the worker found that read a whole chain. */
interface Failed { index: number; reason: string }
interface VerifyAnswer {
  count: number;
  pruned: number;
  lastPruned: number;
  state: WholeLogState;
  root: string;
  contradicted: { head: KeptHead; from: number } | null;
  server: ChainVerdict;
  failures: { count: number; first: Failed | null; list: Failed[] };
  engine: string;
  workers: number;
  seconds: number;
}
interface VerifyResult extends VerifyAnswer {
  archives: Archive[];
  key: ServiceKey;
  companyId: string;
  fingerprint: string;
  startedAt: string;
  endedAt: string;
}
interface Verification {
  phase: 'ready' | 'running' | 'done' | 'error';
  done: number;
  total: number;
  failures: number;
  first: Failed | null;
  result: VerifyResult | null;
  message: string;
}

/** What a person trusts when a file is checked. */
interface Trust { fingerprint?: string; policy?: Policy; agentKey?: string; approvers?: string[]; error?: string }

/** Parts of an evidence file, as lib/evidence/file.js reads them. */
interface EvidenceRecord {
  node: JSONNode;
  pruned?: true;
  source: string;
  index: number;
  timestamp: string;
  payload: JSONText;
  hash: string;
  signature: string;
  delegation?: JSONText;
}
interface EvidenceStatus {
  node: JSONNode;
  jti: string;
  companyId: string;
  status: string;
  checkedAt: string;
  caPublicKey: string;
  signature: string;
  revokedAt?: string;
  reason?: string;
}
interface FileKey {
  kid: string;
  fingerprint: string;
  jwk: { kty: string; crv: string; x: string; kid: string; alg: string; use: string };
}
interface FileLog {
  log: LogName;
  logId: string;
  origin: string;
  keys: { kid: string; fromIndex: number; rotation?: Rotation }[];
}
interface EvidenceLogs { logs: FileLog[]; keys: FileKey[] }
interface EvidenceFile extends EvidenceLogs {
  companyId: string;
  log: LogName;
  record: EvidenceRecord;
  hexProof: { proof: ProofStep[]; root: string; size: number };
  tlogProof: string;
  witnesses: string[];
  notProven: string[];
  delegation?: JSONText;
  agentKey?: { records: EvidenceEntry[] };
  passport?: { jti: string; records: EvidenceEntry[] };
  status?: EvidenceStatus;
  authority?: { records: EvidenceEntry[] };
  policies?: { records: EvidenceEntry[] };
  passports?: { records: EvidenceEntry[] };
  approvals?: EvidenceApprovals;
}
interface EvidenceApprovals { requests: EvidenceEntry[]; records: EvidenceEntry[] }

/**
 * The first line of a report, as lib/report.js reads it; roots are the hashes of a log's
 * frontier.
 */
interface ReportHeader extends EvidenceLogs {
  companyId: string;
  from: string;
  to: string;
  witnesses: string[];
  notProven: string[];
  logs: (FileLog & { start: string; end: string; roots: Bytes[] })[];
  policies?: { records: EvidenceEntry[] };
  passports?: { records: EvidenceEntry[] };
}

/** The first line of the file of a session, as lib/evidence/session.js reads it. */
interface SessionHeader extends EvidenceLogs {
  companyId: string;
  agentId: string;
  kid: string;
  sid: string;
  records: number;
  checkpoint: string;
  witnesses: string[];
  agentKey: { records: EvidenceEntry[] };
  policies?: { records: EvidenceEntry[] };
  passports?: { records: EvidenceEntry[] };
  approvals?: EvidenceApprovals;
  notProven: string[];
}
interface EvidenceEntry { record: EvidenceRecord; tlogProof: string }
interface ProofStep { sibling: string; position: 'left' | 'right' }

/** A key of a file that was checked, and a log with its keys. */
interface EvidenceKey { kid: string; fingerprint: string; raw: Bytes; prepared: PreparedKey }
interface LogKey extends EvidenceKey { fromIndex: number; rotation?: Rotation }
interface EvidenceLog { log: LogName; origin: string; ring: LogKey[] }

/** A record whose hash and signature were checked, with the key that signed it. */
interface SignedRecord extends LogRecord { signer: LogKey }

/** A checkpoint of a file, with who has cosigned it and when. */
interface CheckedCheckpoint extends Checkpoint { signed: string; cosignatures: { vkey: string; at: string }[] }

/** The small evidence file that earlier consoles saved (lib/evidence/saved.js). */
interface SavedEvidence { record: LogRecord; proof: ProofStep[]; root: string; key: CompanyKey }

/** What a record of a report says; the last members are of the control log. */
interface ReportEvent {
  log: LogName;
  index: number;
  timestamp: string;
  agentId: string;
  action: string;
  delegated?: boolean;
  subject?: string;
  by?: string;
  revokedAt?: string;
  reason?: string;
  before?: string | null;
  witnesses?: string | null;
  inner?: JSONNode;
  source?: string;
  /** Of an action: its record. Not to be kept. */
  record?: LogRecord;
}

/** A request of the reference, as lib/curl.js spells it. */
interface CurlRequest {
  method: string;
  url: string;
  headers?: [string, string][];
  body?: string;
  credential?: boolean;
  binary?: boolean;
  upgrade?: boolean;
}

/**
 * How a key that a server publishes differs from the one that is remembered: nothing proves that
 * it follows, or the proven rotations since.
 */
type KeyChange = { known: { fingerprint: string; at: string } } & (
  | { replaced: true; rotations?: undefined }
  | { replaced?: undefined; rotations: KeyRotation[] }
);
interface RotatedKey extends RingKey { kid?: string }
interface KeyRotation { old: RotatedKey; next: RotatedKey }

/** What a report is made of: a period of the server's, or a file that somebody gave. */
interface ReportJob { since?: string; until?: string; given?: Blob }
type ReportProgress = (news: { done: number; total: number }) => void;
interface ReadReport {
  check: ShownCheck;
  tally: ReportTally | undefined;
  file: Blob;
  digest: string;
  at: string;
}
type ShownKey = Pick<EvidenceKey, 'kid' | 'fingerprint' | 'raw'>;
interface ReportEnd { start: number; size: number; root: string; signed: string }

/** A check of a report without what only checking needs. */
interface ShownCheck {
  verdict: string;
  code: string;
  reason: string;
  checked: string[];
  ends: Record<LogName, ReportEnd> | undefined;
  all: ShownKey[] | undefined;
  last: ShownKey | undefined;
  checkpoints: Record<string, CheckedCheckpoint> | undefined;
  origins: string[] | undefined;
  file: { companyId: string; from: string; to: string; notProven: string[] } | undefined;
}
interface Deed { agent: string; action: string; delegated: boolean; times: number }
interface FailedAction { index: number; timestamp: string; agentId: string; action: string }
interface ReportTally {
  actions: { total: number; times: number[]; agents: Map<string, number>; kinds: Map<string, number> };
  failures: { total: number; times: number[]; list: FailedAction[] };
  changes: { total: number; times: number[]; kinds: Map<string, number>; list: ReportEvent[] };
  alone: { from: string; to: string }[];
  witnesses: string | null;
  deeds: Deed[];
  span: [number, number] | null;
}
interface Reporting {
  phase: 'ready' | 'running' | 'done' | 'error';
  done: number;
  total: number;
  report: ReadReport | null;
  error: Error | null;
}

/** Another issuer whose tokens the company trusts. */
interface Federation {
  name: string;
  issuer: string;
  audience: string;
  rules: { match: JSONText; agentId: string; ttl: number; register: boolean; person?: boolean }[];
  createdAt: string;
  keys: { count: number; fetchedAt: string | null; failure?: string };
  jwks?: JSONText;
  jwksUri?: string;
}

/** A place to which Ctrl-K goes. */
interface Destination {
  kind: 'Page' | 'Record' | 'Records' | 'Search' | 'Agent';
  name: string;
  page: string;
  argument: string;
  query: Query;
}

/** An endpoint to which the service sends the company's records. */
/** What GET /readyz says; status is the code of a refusal, or unknown. */
interface ServiceState {
  status: string;
  headFile?: string;
  tablesChanged?: number;
  rolledBack?: number;
  witnessAlarms?: number;
  witnessesBehind?: number;
  cosigner?: string;
  callsDisobeyed?: number;
}

/** A policy of a set, and the change that put it. */
interface CedarInForce { cedar: string; description: string; change: ControlChange }

/** The policies of a revision, by ID, as control records make them; set is their hash. */
interface CedarSet { policies: Map<string, CedarInForce>; revision: number; set: string }

/** A policy that is being written. */
interface Draft { id: string; cedar: string; description: string }

/** What a draft would have changed. */
type Tried = Awaited<ReturnType<typeof import('../console/core/cedar.js').tryPolicies>>;

interface Webhook {
  webhookId: string;
  url: string;
  createdAt: string;
  publicKey: string;
  fingerprint: string;
  nextIndex: number;
  failedAttempts: number;
  agents?: string[];
  actions?: string[];
  description?: string;
  nextAttemptAt?: string;
  disabledAt?: string;
  disabledReason?: string;
}

/** A key or an OAuth client without its secret. */
interface KeyOrClient {
  kind: 'apiKey' | 'oauthClient';
  fingerprint: string;
  createdAt: string;
  role: 'admin' | 'writer' | 'reader';
  clientId?: string;
  label?: string | null;
  madeBy?: string;
  lastUsedAt?: string;
  expiresAt?: string;
}
type CredentialTree = { credential: KeyOrClient; made: CredentialTree }[];

/** What a search gives as it is streamed. */
interface Streamed {
  text?: string;
  progress?: { read: number; at: number; size: number };
  end?: { read: number; found: number; next: string; pruned: number };
}

/** A page of changes; below is the index of the last one that was shown. */
interface ControlPage extends SearchPage { below: number | null }

/** A signed statement about a passport, as lib/status.js reads it. */
interface PassportStatus {
  jti: string;
  companyId: string;
  status: 'valid' | 'revoked' | 'unknown';
  checkedAt: string;
  caPublicKey: string;
  signature: string;
  revokedAt?: string;
  reason?: string;
}
interface TokenCheck { name: string; ok: boolean; detail: string }

/** What was found out about a token. */
interface TokenFound {
  checks: TokenCheck[] | null;
  problem?: string;
  status?: PassportStatus | null;
  unasked?: string;
  statusProblem?: string;
  disabledAt?: string;
}
type TokenKind = 'passport' | 'SVID' | 'delegation';
interface TokenToAssess {
  kind: TokenKind;
  claims: { nbf?: number; exp?: number };
  found: TokenFound;
  assess: Assess;
  now: number;
  clock: { offset: number; error: number };
}
interface TokenVerdict { is: string; tone: Tone; why: string }

/** A token as lib/token.js reads it. */
interface Act { sub: string; act?: Act }
interface Claims {
  sub: string;
  iss?: string;
  jti?: string;
  aud?: string[];
  iat?: number;
  nbf?: number;
  exp?: number;
  act?: Act;
}
interface TokenPart<T> { node: JSONNode; source: string; value: T }
interface Passport {
  namespace: string;
  v: number;
  agentId: string;
  org: string;
  scopes: string[];
  delegationChain: string[];
}
/** An operator of authorization details, and an entry of them; tests is null for any arguments. */
interface DetailTest { operator: string; values: JSONNode[] }
interface DetailEntry { tools: string[]; tests: [string, DetailTest[]][] | null }
interface Token {
  compact: string;
  header: TokenPart<{ alg: string; typ: string; kid?: string }>;
  claims: TokenPart<Claims>;
  signature: Bytes;
  signed: string;
  passport: Passport | null;
  kind: TokenKind;
  companyId: string;
}

/**
 * The shortest head that a log does not begin with, or what of each was proven to have grown
 * into it.
 */
type Inconsistent =
  | { head: KeptHead; from: number; grown?: undefined }
  | { head?: undefined; from?: undefined; grown: string[][] };

/** A line of others below a checkpoint, as core/policy.js judges it. */
interface CosignedLine { name: string; time: number | null; witness: string; failed: boolean }

/** The API document as core/openapi.js reads it. */
interface Schema {
  never?: boolean;
  $ref?: string;
  type?: string[];
  description?: string;
  format?: string;
  pattern?: string;
  properties?: Map<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  enum?: JSONText[];
  const?: JSONText;
  default?: JSONText;
  examples?: JSONText[];
  minimum?: string;
  maximum?: string;
  minLength?: string;
  maxLength?: string;
  minItems?: string;
  maxItems?: string;
  minProperties?: string;
  maxProperties?: string;
}
interface MediaForm { schema?: Schema; example?: JSONText; examples?: Map<string, { summary?: string; value?: JSONText }> }
interface Example { name: string; value: JSONText }
interface Media { type: string; schema?: Schema; examples: Example[] }
interface Header { description?: string; schema?: Schema; example?: JSONText }
interface Parameter extends Header { name: string; in: string; required?: boolean }
interface Answer { description: string; headers?: Map<string, OrReference<Header>>; content?: Map<string, MediaForm> }
type OrReference<T> = (T & { $ref?: undefined }) | { $ref: string };
type Resolve = <T extends object>(given: OrReference<T>) => T;
interface OperationForm {
  operationId: string;
  tags: string[];
  summary: string;
  responses: Map<string, OrReference<Answer>>;
  description?: string;
  parameters?: OrReference<Parameter>[];
  requestBody?: { required?: boolean; description?: string; content?: Map<string, MediaForm> };
  security?: Map<string, JSONText>[];
  'x-rate-tier'?: string;
  'x-role'?: string;
  'x-addition'?: boolean;
  'x-websocket-message'?: Schema;
}
interface OperationAnswer { status: string; description: string; headers: ({ name: string } & Header)[]; media: Media[] }
interface Operation {
  id: string;
  method: string;
  path: string;
  tag: string;
  summary: string;
  description: string;
  role: string;
  tier: string;
  addition: boolean;
  message?: Schema;
  credential: 'needed' | 'optional' | 'none';
  parameters: Parameter[];
  body?: { required: boolean; description?: string; media: Media[] };
  responses: OperationAnswer[];
}
interface Section { id: string; name: string }
interface Resource extends Section { description: string; sections: Section[]; operations: Operation[] }
interface Reference {
  title: string;
  version: string;
  description: string;
  sections: Section[];
  resources: Resource[];
  schemas: Map<string, Schema>;
  places: Map<string, { resource?: Resource; operation?: Operation }>;
}

/** A key in a ring, as the proof that one follows from another needs it. */
interface RingEntry { kid: string; fingerprint: string; prepared: PreparedKey; fromIndex?: number }

/** What a component may return or contain, and a component. */
type Child = import('./vendor/preact-htm').Child;
type Component = (props: any) => Child;
type EvidenceCheck = import('../console/lib/evidence/check.js').EvidenceCheck;

/** What a field gives its input. */
interface FieldProps { id: string; 'aria-describedby'?: string }

/** A bar of a chart. */
interface Bar { label: string; value: number; tone?: Tone; href?: string }

/** How many records match a search in each part of a period. */
interface Buckets {
  since: string; until: string; total: number; size: number; buckets: { since: string; count: number }[];
  verdicts?: { verdict: Decision['verdict']; total: number; counts: number[] }[];
}

/** The URL that a piece of code or emphasis in Markdown means, if it means one. */
type Refer = (type: string, text?: string) => string | undefined;

/** A list that is read page after page (parts/pages_of.js). */
interface Paged<T> {
  items: T[] | null;
  total?: number;
  hasMore: boolean;
  more(): void;
  reload(): void;
  retry(): void;
  busy: boolean;
  error: Error | null;
}

/** A passport as a list of them has it. */
interface ListedPassport {
  jti: string;
  agentId: string;
  scopes: string[];
  issuedAt: string;
  expiresAt: string;
  status: 'valid' | 'revoked' | 'expired';
  revokedAt?: string;
  reason?: string;
}

interface VirtualListProps {
  label: string;
  head: Child;
  count: number;
  rowHeight: number;
  row(i: number, tabindex: number): Child;
  propsOf(i: number): object;
  onView?(first: number, last: number): void;
  onSelect?(i: number): void;
  scrollTo: { row: number; focus?: boolean } | null;
  busy?: boolean;
}

/** What the verifier found out about a file. */
interface VerifierFound { file: { name: string }; digest: string; trusted: string; found: EvidenceCheck & { header?: SessionHeader; state?: () => string } }

/** An error that may say when it is of use to try again, in milliseconds. */
type TaskError = Error & {
  status?: number; retryAt?: number; code?: string; pruned?: boolean; line?: number; column?: number;
};

type Happening = import('./vendor/preact-htm').Happening;
type RegisteredAgent = ReturnType<typeof import('../console/core/agents.js').agent>;
/** A call that was denied or failed, with what was asked; ok and pruned are of its records. */
interface Incident {
  index: number; at: string; agentId: string; words: CallWords; session: SessionName | null;
  ok: boolean; pruned?: boolean;
}
type Overview = Awaited<ReturnType<typeof import('../console/core/overview.js').readOverview>>;

/** An agent by its newest control record, whose index is given; '' stands for nothing. */
interface AgentSaid { registeredAt: string; metadataHash: string; disabledAt: string; index: number }
type Authority = ReturnType<typeof import('../console/core/agents.js').authorityForm>;

/** A change that an answer names, with the subject that its record must have. */
interface AuthorityEntry { index: number; timestamp: string; actionType: string; by: string | null }
interface NamedEntry { subject: string; entry: AuthorityEntry }

/** A checkpoint that a key of the company has signed (core/checkpoint.js). */
type OpenedCheckpoint = Awaited<ReturnType<typeof import('../console/core/checkpoint.js').openCheckpoint>>;

/** What became of a checkpoint that was saved. */
type ExaminedCheckpoint =
  | { ok: boolean; reason: string; unrelated?: undefined; log: LogName; size: number; now: number; stolen: string }
  | { ok: false; reason: string; unrelated: true; log?: LogName; size?: number; stolen?: undefined };

/** A control record as the page Control shows it. */
interface ShownChange {
  record: LogRecord;
  about: ReturnType<typeof import('../console/parts/control_words.js').aboutOf>;
  check: { ok: boolean; reason: string };
}
interface OpenedChange {
  record: LogRecord;
  companyKey: CompanyKey;
  check: WorkerResult;
  about: { subject: string; kind: string; name: string; agentId: string; by: string | null };
}

/** What can be done with a token whose status is known. */
type TokenActions = (decoded: Token, online?: PassportStatus | null) => Child;

/** An evidence file as a page shows it (lib/evidence/open.js). */
type OpenedEvidence = Awaited<ReturnType<typeof import('../console/lib/evidence/open.js').open>>;
interface ProofSubject { opened: OpenedEvidence; bytes: Bytes; name: string }
interface DrawFormProps {
  argument: string;
  log: LogName;
  onDraw(index: string, of: LogName): void;
  busy: boolean;
  error: TaskError | null;
  retry(): void;
}

/** A policy as it was entered, or came as the file that from names. */
interface EnteredPolicy { text: string; policy: Policy | null; error: string; from: string }

/** How the key of evidence stands. */
interface KeyOrigin { keyState: KeyState; late?: boolean; head?: string; text: string }
interface ProofVerdict extends Verdict {
  part: Tone;
  origin: KeyOrigin;
  accepted?: { log: LogName; by: string[] }[];
  unmet?: string;
}

/** A way from a leaf to a root, as it is drawn. */
interface Point { x: number; y: number }
type Flip = 'leaf' | number | null;
interface PathStep { left: string; right: string; position: 'left' | 'right'; parent: string }
interface WalkedPaths {
  leaf: string;
  steps: PathStep[];
  root: string;
  truth: { leaf: string; steps: PathStep[] };
  proof: ProofStep[];
}
interface ProofPathProps extends Omit<WalkedPaths, 'proof'> {
  lit: number;
  picked: Flip;
  onPick(at: 'leaf' | number): void;
}

/** The rows of the page Records, from one of their three sources (core/rows.js). */
type ListedRows = import('../console/core/log_rows.js').LogRows | import('../console/core/found_rows.js').FoundRows
  | import('../console/core/found_rows.js').FailedRows;

/** A request of the reference as it was filled in, and as it is sent. */
type Schemas = Map<string, Schema>;
interface OperationRequest {
  values: Record<string, string>;
  type?: string;
  example?: number;
  body?: string;
}
type ChangeRequest = (patch: Partial<OperationRequest>) => void;
interface PreparedRequest {
  method: string;
  url: string;
  headers: [string, string][];
  body?: string;
  credential: boolean;
}
type TriedAnswer = Awaited<ReturnType<typeof import('../console/core/try_request.js').sendRequest>>;
interface SenderProps {
  op: Operation;
  request: OperationRequest;
  change: ChangeRequest;
  prepared(): PreparedRequest;
}

/** A table of a report. */
interface RowsProps<T> {
  title: string;
  lead?: string;
  head: string[];
  list: T[];
  total?: number;
  row(one: T): Child[];
  empty: string;
  counted?: boolean;
}

interface DialogProps { act(): unknown; onClose(): void }
interface RotatedNow { fingerprint: string; index: number; compromised: boolean }
