// Attack repeats attacks that attestd must withstand. It builds the binary, runs it on a temporary
// file, and sends requests over loopback only.
//
//	go -C internal/tools run ./attack                        all attacks, some minutes
//	go -C internal/tools run ./attack --short                the form for CI, about two minutes
//	go -C internal/tools run ./attack --only tokens,rewrites    some of them
//	go -C internal/tools run ./attack --json                 one JSON object for each
package main

import (
	"os"

	"attestd/internal/harness"
)

var cases = []harness.Case{
	{Name: "credentials", About: "every route of the API document, with every state of credentials", Run: credentials},
	{Name: "tokens", About: "forged SVIDs, delegation tokens and passports at every door that takes one", Run: tokens},
	{Name: "agent-keys", About: "an agent, a writer and a writer of the database who speak for another agent", Run: agentKeys},
	{Name: "foreign-host", About: "assertions, proofs and issuers of other servers, under their names, without --base-url", Run: foreignHost},
	{Name: "exchanged-key", About: "an issuer that exchanges its key under one kid, beside strangers who sign under it", Run: exchangedKey},
	{Name: "agents", About: "an operator with every key of a company, whose files speak for an agent, before all four checkers", Run: operator},
	{Name: "power-loss", About: "the file as a loss of power may leave it, in the log and in a checkpoint", Run: powerLoss},
	{Name: "late-bodies", About: "bodies that end when the credential or the passport has", Run: lateBodies},
	{Name: "empty-bodies", About: "1,800 connections that promise a body and send none", Run: emptyBodies},
	{Name: "long-bodies", About: "connections that send all of a large body but its last byte", Run: longBodies},
	{Name: "many-members", About: "bodies that cost many times their bytes when they are decoded, many at once", Run: manyMembers},
	{Name: "unread-answers", About: "300 connections with 40 pipelined requests whose answers nobody reads", Run: unreadAnswers},
	{Name: "fresh-keys", About: "a fresh key for each call", Run: freshKeys},
	{Name: "fresh-companies", About: "a fresh company for each call, from one address", Run: freshCompanies},
	{Name: "stream-places", About: "one address that takes every place at the stream", Run: streamPlaces},
	{Name: "metadata", About: "metadata and reasons of 1 MiB, and many of what is allowed", Run: metadata},
	{Name: "rows", About: "keys and clients without end", Run: rows},
	{Name: "lists", About: "six slow readers of a long list of revoked passports", Run: lists},
	{Name: "slow-webhooks", About: "many endpoints of many companies that answer late, beside those of others", Run: slowWebhooks},
	{Name: "claimed-keys", About: "a writer who takes the idempotency keys of hooks, proxy and runs beforehand", Run: claimedKeys},
	{Name: "mcp", About: "a client and a server that hide calls and answers from attestd mcp", Run: mcp},
	{Name: "rewrites", About: "a history written anew while nothing runs, and what notices it", Run: rewrites},
	{Name: "verifies", About: "one company that has its chain verified by 100 at once", Run: verifies},
}

func main() {
	flags, options := harness.Flags("attack", "Attack attestd from outside, and say what held.", cases)
	os.Exit(harness.Main(flags, options, cases))
}
