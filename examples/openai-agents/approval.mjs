// Runs an agent of @openai/agents whose tools with needsApproval are called only when a person has
// approved the call, in attestd.

/**
 * Runs an agent to its end. Each interruption becomes a request for an approval, whose answer
 * resumes the run. The request on record, whose decision uses the approval, comes before the call;
 * without a decision that allows it the call is rejected. The same call finds its approval, so the
 * state of a run that was ended meanwhile may be given in place of the input.
 */
export async function runApproved(client, runner, agent, input, agentId) {
  for (let given = input; ;) {
    const result = await runner.run(agent, given);
    if (!result.interruptions?.length) return result;
    await Promise.all(result.interruptions.map(async (one) => {
      const { name: tool, arguments: text, callId } = one.rawItem;
      try {
        await client.ask({ agentId, tool, arguments: JSON.parse(text) });
        const { payload } = await client.attest({
          agentId, actionType: "tool.requested", payload: { source: "openai-agents", tool, callId, input: JSON.parse(text) }, decide: true,
        });
        if (payload.decision?.verdict !== "allow") throw new Error(`attestd does not allow this call of ${tool}`);
        result.state.approve(one);
      } catch (error) {
        result.state.reject(one, { message: error.message });
      }
    }));
    given = result.state;
  }
}
