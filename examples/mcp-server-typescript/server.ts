// An MCP server that accepts access tokens of a company's issuer for its own URL, and no others:
//
//   ISSUER=https://attest.example.com/o/acme RESOURCE=https://mcp.example.com/mcp npm start
//
// It listens on LISTEN, without TLS: a proxy in front of it has the certificate. With
// ACCEPT_ACT=true it also accepts tokens with which an agent acts for another; the company must
// name RESOURCE for exchanges.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "@modelcontextprotocol/node";
import {
  createMcpHandler, getOAuthProtectedResourceMetadataUrl, McpServer, oauthMetadataResponse, requireBearerAuth, requireScopes,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { issuerMetadata, newVerifier } from "./verifier.js";

const { ISSUER = "", RESOURCE = "", LISTEN = "127.0.0.1:8090", ACCEPT_ACT = "" } = process.env;
const resource = new URL(RESOURCE);
const issuer = await issuerMetadata(ISSUER);

const notes: string[] = [];

// A tool for each scope: who may read lists notes, and who may write adds one.
const tools = createMcpHandler(() => {
  const server = new McpServer({ name: "notes", version: "1" });
  server.registerTool(
    "add_note",
    { description: "Add a note", inputSchema: z.object({ text: z.string() }), scopeChallenge: requireScopes("writer") },
    async ({ text }, { http }) => {
      notes.push(`${http?.authInfo?.extra?.subject}: ${text}`);
      return { content: [{ type: "text", text: JSON.stringify({ notes: notes.length }) }] };
    },
  );
  server.registerTool(
    "list_notes",
    { description: "List all notes", inputSchema: z.object({}), scopeChallenge: requireScopes("reader") },
    async () => ({ content: [{ type: "text", text: JSON.stringify({ notes }) }] }),
  );
  return server;
});

const authenticate = requireBearerAuth({
  verifier: newVerifier(issuer, RESOURCE, ACCEPT_ACT === "true"),
  expectedResource: resource,
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
});

async function answer(request: Request): Promise<Response> {
  const metadata = oauthMetadataResponse(request, { oauthMetadata: issuer, resourceServerUrl: resource });
  if (metadata) return metadata;
  if (new URL(request.url).pathname !== resource.pathname) return new Response("not found", { status: 404 });
  const caller = await authenticate(request);
  return caller instanceof Response ? caller : tools.fetch(request, { authInfo: caller });
}

const [host, port] = LISTEN.split(":");
const server = createServer(toNodeHandler({ fetch: answer }));
server.listen(Number(port), host, () => {
  console.error(`${RESOURCE} listens on http://${host}:${(server.address() as AddressInfo).port}`);
});
