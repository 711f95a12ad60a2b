// Package conformance holds the clients against sdk/conformance.json: one file, the real server, a
// proxy that breaks connections in between, and a runner for each language.
//
// # The file
//
// It is {"cases":[…]}. A case has
//
//	name    what it shows
//	client  members that replace those of its first call, new (see below)
//	steps   in their order
//	chain   what the company's chain must hold at the end: exactly so many records, in this order, each matching.
//	        Nothing lost, nothing doubled
//
// Each case has a company of its own, whose agent bot is registered. A step has
//
//	call      what the runner does, or edit or restart, which the test does itself
//	args      of the call
//	faults    what the proxy does to the requests of this step, one after the other; to those after them, nothing
//	requests  how many requests the proxy must see; absent: any number
//	keys      how many idempotency keys the requests carry; absent: one
//	expect    {"result":…} or {"error":…}; absent: any result, and no error
//	save      {"name":"/json/pointer"}: keeps a part of the result as ${name}
//
// A transport may send a request again by itself when an idle connection is cut, so a step with
// such a fault for all its requests counts none.
//
// In args and expect, ${name} is replaced by what was saved, or by what the test knows: ${url} of
// the proxy, ${company}, ${key} (of an admin), ${writer} and ${reader} (keys of these roles),
// ${clientId} and ${clientSecret} (of an OAuth client), ${pem}, ${jwk} (its x) and ${fingerprint}
// of the company's key, ${dir}, a folder that does not exist yet, and ${medium} and ${large}, texts
// of 300 KiB and 16 MiB: all of what the service takes in one request, and more than that and the
// buffers of a connection. Where client has agent, there are also ${agentFile}, the path of a key
// file of the agent bot, ${agentFileOfBefore}, the same without the member log, ${log}, which is
// that member, ${thumbprint} of the key, and ${delegation} and ${exchanged}, tokens under which bot
// acts for the company globex: by itself, and by way of the agent planner. A string that is nothing
// but one ${name} becomes the value that was saved, an object too.
//
// What is expected matches what has at least its members; arrays have the same length.
// {"$matches":"regexp"} matches a string.
//
// A fault is {"do":…,"times":n}, where times is 1 unless it is given, and -1 is all of the step:
//
//	cutBefore  the connection ends before the request has reached the server
//	cutAfter   it ends after the server has answered, and nothing of that is passed on
//	cutAnswer  it ends in the middle of the answer
//	slow       the request reaches the server, and its answer comes after "millis"
//	pass       nothing
//	lie        the request reaches the server, and in place of its answer comes that of "answer"
//	change     the JSON answer of the server has the value "to" at "at", a JSON Pointer; without "to", no such member
//	answer     the request does not reach the server; the proxy answers "status", with "code", "pointer", "retryAfter"
//	           and "body" where given,
//	           and with Connection: close where "close" is true, as the service does, or without its header X-Request-ID
//	           where "foreign" is true: something before it has answered
//	early      as answer, before the end of the request; the proxy reads 1 MiB more, and resets the connection after
//	           "millis"
//	cutAbove   the connection ends before the request has reached the server, where its body has more than "bytes";
//	           others pass
//	drip       the request reaches the server, and the header of its answer comes byte by byte for "millis"
//	endless    the request does not reach the server; the answer is "status" and a body without end
//	second     after the server's answer comes another one, without a request. The step ends when that is sent
//
// All requests of a step to POST /v1/attest must carry one Idempotency-Key, or as many different
// ones as "keys" says. A statement is its own key.
//
// The test does edit, claims and restart itself. edit {"of":…,"at":"/json/pointer","to":…} results
// in a copy of a value with another part. claims {"of":statement} results in what a statement says,
// {"header","claims"}, and its "hash". restart ends the runner, and starts it again: what is not on
// disk is gone. After it, new is called once more.
//
// # The runner
//
// A runner is a program that reads a JSON object a line on standard input, {"call":…,"args":{…}},
// and writes one on standard output for each, {"result":…} or {"error":…}. It ends when standard
// input does. One runner serves many cases, each of which begins with new. Errors are
//
//	{"kind":"status","status":403,"code":"…","pointer":"…"}  the service has refused; code and pointer "" or absent
//	                                                         where it gives none
//	{"kind":"connection"}                                     no answer, after all retries
//	{"kind":"invalid"}                                        refused by the client, nothing was sent
//	{"kind":"full"}                                           the spool is full
//	{"kind":"refused","refused":2}                            a flush has set so many attestations apart
//	{"kind":"mismatch"}                                       the record in the answer is not of what was sent
//	{"kind":"otherLog"}                                       the service names another log than the agent's
//	{"kind":"ended"}                                          the session has ended
//	{"kind":"notApproved","state":"denied"}                   a call must not be made, for its approval is in this state
//	{"kind":"unsupported"}                                    the client has no such call, or cannot carry it out
//	                                                          here; the case is skipped for this language
//
// What a runner writes on standard error fails the test when the runner has ended.
//
// Results are what the API answers, member for member, unless this page says otherwise. The calls:
//
//	new            {"url","key" or "oauth":{"clientId","secret"} or "agent":file,"timeoutMs",
//	               "retry":{"times","minMs","maxMs"},"spool":dir,"spoolLimit"} → {}
//	               makes the client that the calls after it use; "key":null is no credential, "agent" the path of a key
//	               file, and spoolLimit in bytes may be absent
//	attest         {"agentId","actionType","payload","delegation","idempotencyKey"} → the record; the last two may be
//	               absent
//	attestBatch    {"records":[…]} → {"records":[…]}
//	records        {"from","limit","log"} → {"records":[…]}; all may be absent
//	stream         {"from","count"} → {"records":[…]}, the first count of the stream, which is left then
//	search         {"agent","action","delegatedBy","since","until","q","hash","order","limit","log"} →
//	               {"records":[…]}; all may be absent
//	verifyChain    {} → the verdict
//	proof          {"index"} → the proof
//	registerAgent  {"agentId"} → the agent
//	issuePassport  {"agentId","scopes","ttl","authorizationDetails"} → the passport
//	verifyPassport {"passport","tool","arguments"} → the verdict; one that is not valid is a result
//	revokePassport {"jti","reason"} → the revocation
//	requestApproval {"agentId","tool","arguments","reason","expiresIn"} → the approval
//	ask            as requestApproval, and waits → the approval, once it is approved
//	delegate       {"agentId","actingOn","scope","authorizationDetails"} → the token
//	evidence       {"index"} → the evidence file
//	health         {} → {}
//	checkRecord    {"record","key"} → {"genuine":true or false}; key is PEM or the x of a JWK
//	checkProof     {"proof","key","root"} → {"genuine"}; root may be absent
//	checkPassport  {"passport","key","companyId","tool","arguments"} → {"valid":true,"scopeGranted"} or
//	               {"valid":false,"code"}; tool and arguments, a JSON text, may be absent
//	checkEvidence  {"evidence","fingerprint","agentKey"} → {"verdict","code"}, as of attestd check; agentKey, the
//	               thumbprint of a key of the agent, may be absent. "word" is the sentence, if any, that says whose
//	               key "signed this"
//	agentKeys      {} → {}; lists the keys of the agent, and so signs in
//	sessionBegin   {"id","continues"} → {}; begins a session in memory; continues, of sessionLast, may be absent
//	sessionAttest  {"actionType","payload","delegation","idempotencyKey","end"} → the record, signed in that session;
//	               the last three may be absent
//	sessionLast    {} → {"sid","kid","hash"} of the last statement, for continues
//	spoolSessionBegin, spoolSessionAttest, spoolSessionLast
//	               the same of a session of the spool; spoolSessionAttest → {"queued":true} or
//	               {"queued":false,"record":…}
//	spoolAttest    as attest → {"queued":true} or {"queued":false,"record":…}
//	spoolFlush     {} → {}
//	spoolPending   {} → {"pending":n}
//
// A text in args may hold a lone surrogate, as "\ud83d": the runner hands it to the client as its
// language reads it.
package conformance
