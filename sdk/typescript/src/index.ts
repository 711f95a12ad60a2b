export { Agent, generateKey, signerOf, thumbprintOf, UnknownKeyError, type AgentConfig, type EnrolledKey, type Signer } from "./agent.js";
export type { Attestation } from "./attestation.js";
export { Client, type Config } from "./client.js";
export type { Credential } from "./credential.js";
export { AttestdError, ConnectionError, PayloadError, ServiceError, VerificationError } from "./errors.js";
export { operations, type AttestationRecord, type CallOptions, type Operations, type StreamMessage } from "./operations.js";
export type { Retry } from "./retry.js";
export { Session } from "./session.js";
export { wellFormed } from "./text.js";
