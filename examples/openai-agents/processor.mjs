// A tracing processor of @openai/agents that attests each tool call: what was asked, and what came
// of it.
export class AttestdProcessor {
  // attestations go one after the other, so that an outcome never stands before its request
  #sent = Promise.resolve();

  // records show the rest of a key: nobody shall take one before it is used
  #secret = crypto.randomUUID();

  /**
   * spool is a Spool of attestd/spool, agentId the name under which the agent is registered; failed
   * learns of what could neither be attested nor put on disk.
   */
  constructor(spool, agentId, failed = (error) => console.error(String(error))) {
    this.spool = spool;
    this.agentId = agentId;
    this.failed = failed;
  }

  async onTraceStart() {}

  async onTraceEnd() {}

  async onSpanStart(span) {
    if (span.spanData.type !== "function") return;
    await null; // the runner puts the input on the span right after its start
    this.#attest("tool.requested", span, { input: given(span.spanData.input) });
  }

  async onSpanEnd(span) {
    if (span.spanData.type !== "function") return;
    const durationMs = Date.parse(span.endedAt) - Date.parse(span.startedAt);
    const output = given(span.spanData.output);
    if (span.error) this.#attest("tool.failed", span, { output, error: span.error.message, durationMs });
    else this.#attest("tool.completed", span, { output, durationMs });
  }

  /** Resolves when all that was seen is attested, or safe on this disk. */
  async forceFlush() {
    await this.#sent;
  }

  async shutdown() {
    await this.#sent;
  }

  // A call has one request and one outcome, whatever is sent twice.
  #attest(actionType, span, payload) {
    const kind = actionType === "tool.requested" ? actionType : "tool.outcome";
    const attestation = {
      agentId: this.agentId,
      actionType,
      payload: { source: "openai-agents", tool: span.spanData.name, callId: span.spanId, sessionId: span.traceId, ...payload },
      idempotencyKey: `openai-agents:${this.#secret}:${span.traceId}:${span.spanId}:${kind}`,
    };
    this.#sent = this.#sent.then(() => this.spool.attest(attestation)).catch(this.failed);
  }
}

// Arguments and results are JSON in a string, mostly.
function given(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
