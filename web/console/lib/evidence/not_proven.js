// @ts-check
// What no file shows, word for word as package evidence has it: a file that says less would promise
// more.
const ALWAYS = [
  'That nothing was left out: this file shows one record, not what came before it, after it or beside it.',
  'That what the payload says is true: only that the service was given it, and when by the service\'s clock.',
  'That the service\'s clock was right: every time in this file that is not a witness\'s is the operator\'s word.',
  'That nobody else had the company\'s key, nor that a key was not declared compromised after this file was made.',
  'That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two ' +
    'appliances of one owner are not independent.',
  'That the root in hexProof is the chain\'s: compare it with one that you kept.',
];
const OF_ENTRIES = 'That no other record of the control log bears on this one: what is missing here may stand there.';
const OF_AUTHORITY =
  'How records of the two logs follow each other but by their times, nor that the agent itself acted: the service ' +
    'knows the credential, not who held it.';
const OF_ORDER = 'How records of the two logs follow each other but by their times.';
const OF_STATEMENT = [
  'That no other record has the same statement: the agent signed it once, and a second record of it would look the ' +
    'same.',
  'That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you ' +
    'know from the agent, and name to the checker, shows whose word this is.',
];
const OF_STATUS = 'That the status of the passport is still the same: it is of the moment when it was checked.';

/**
 * The list that a file must carry.
 * @param {{agentKey?: unknown, authority?: unknown, passport?: unknown, status?: unknown,
 *   policies?: unknown, passports?: unknown}} file
 */
export function notProven({ agentKey, authority, passport, status, policies, passports }) {
  return [
    ...ALWAYS,
    ...(agentKey || authority || passport || policies || passports ? [OF_ENTRIES] : []),
    ...(agentKey ? [OF_ORDER, ...OF_STATEMENT] : authority ? [OF_AUTHORITY] : []),
    ...(status ? [OF_STATUS] : []),
  ];
}

/** The list that a file of a session must carry. */
export const SESSION_NOT_PROVEN = [
  'That the agent did nothing else: this file shows one session of one key, not what came before it, after it or ' +
    'beside it.',
  'That nothing followed in a session that is open: only its end, which the agent signs, shows that.',
  'That what payloads say is true: only that they were signed, and that the service was given them, and when by the ' +
    'service\'s clock.',
  ...ALWAYS.slice(2, 5),
  'That no other record of the control log bears on this session: what is missing here may stand there.',
  OF_ORDER,
  ...OF_STATEMENT,
];
