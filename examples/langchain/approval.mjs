// Tools of LangGraph that are called only when a person has approved the call, in attestd.
import { Command, interrupt } from "@langchain/langgraph";

/**
 * Makes a function of a tool wait for a person: the graph is interrupted before the call, and goes
 * on with it when it is resumed. The request on record, whose decision uses the approval, comes
 * first; without a decision that allows it the function is not called.
 */
export function approved({ client, agentId, tool, run }) {
  return async (input, config) => {
    const { denied } = interrupt({ agentId, tool, arguments: input });
    if (denied) throw new Error(denied);
    const callId = config?.toolCall?.id;
    const { payload } = await client.attest({
      agentId, actionType: "tool.requested", payload: { source: "langgraph", tool, ...(callId && { callId }), input }, decide: true,
    });
    if (payload.decision?.verdict !== "allow") throw new Error(`attestd does not allow this call of ${tool}`);
    return run(input, config);
  };
}

/**
 * Invokes a graph that has a checkpointer. Each interrupt of a tool becomes a request for an
 * approval, and the answer of the person resumes the graph. The same call finds its approval, so a
 * program that was ended meanwhile goes on with invokeApproved(graph, null, …).
 */
export async function invokeApproved(client, graph, input, config) {
  for (let given = input; ;) {
    const result = await graph.invoke(given, config);
    const interrupts = result.__interrupt__ ?? [];
    if (interrupts.length === 0) return result;
    const answers = await Promise.all(interrupts.map(async ({ id, value }) => [id, await client.ask(value).then(
      ({ approvalId }) => ({ approvalId }),
      (error) => ({ denied: error.message }),
    )]));
    given = new Command({ resume: Object.fromEntries(answers) });
  }
}
