// A LangChain callback handler that attests each tool call: what was asked, and what came of it.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";

export class AttestdHandler extends BaseCallbackHandler {
  name = "attestd";

  awaitHandlers = true; // a tool begins when its call is attested, or safe on this disk

  #tools = new Map(); // of the calls under way, by run

  // records show the rest of a key: nobody shall take one before it is used
  #secret = crypto.randomUUID();

  /** spool is a Spool of attestd/spool, agentId the name under which the agent is registered. */
  constructor(spool, agentId) {
    super();
    this.spool = spool;
    this.agentId = agentId;
  }

  async handleToolStart(tool, input, runId, parentRunId, _tags, _metadata, runName) {
    const name = runName ?? tool.name ?? tool.id?.at(-1);
    const call = { tool: name, sessionId: parentRunId };
    this.#tools.set(runId, { ...call, began: Date.now() });
    await this.#attest("tool.requested", runId, { ...call, input });
  }

  async handleToolEnd(output, runId) {
    await this.#outcome("tool.completed", runId, { output: output?.content ?? output });
  }

  async handleToolError(error, runId) {
    await this.#outcome("tool.failed", runId, { error: String(error) });
  }

  async #outcome(actionType, runId, payload) {
    const { began = Date.now(), ...call } = this.#tools.get(runId) ?? {};
    this.#tools.delete(runId);
    await this.#attest(actionType, runId, { ...call, ...payload, durationMs: Date.now() - began });
  }

  // A call has one request and one outcome, whatever is sent twice.
  async #attest(actionType, runId, payload) {
    const kind = actionType === "tool.requested" ? actionType : "tool.outcome";
    await this.spool.attest({
      agentId: this.agentId,
      actionType,
      payload: { source: "langchain", callId: runId, ...payload },
      idempotencyKey: `langchain:${this.#secret}:${runId}:${kind}`,
    });
  }
}
