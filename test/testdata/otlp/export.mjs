// export.mjs SIGNAL ENCODING BATCHES makes spans or log records of an agent and exports them by the
// stock exporters, which read where to from the environment. It prints the number of each item that
// the server has acknowledged, a batch a line, and exports a batch again as long as it was not.
import { OTLPLogExporter as LogsJSON } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as LogsProtobuf } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPTraceExporter as TracesJSON } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as TracesProtobuf } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, envDetector } from "@opentelemetry/resources";
import { LoggerProvider } from "@opentelemetry/sdk-logs";
import { TracerProvider } from "@opentelemetry/sdk-trace";

const [signal, encoding, batches] = process.argv.slice(2);
const exporters = { traces: { json: TracesJSON, protobuf: TracesProtobuf }, logs: { json: LogsJSON, protobuf: LogsProtobuf } };
const exporter = new exporters[signal][encoding]();

const resource = detectResources({ detectors: [envDetector] });
// made has the items that were made and are not exported yet.
const made = [];
const processor = { onStart() {}, onEnd: (span) => made.push(span), onEmit: (record) => made.push(record), async forceFlush() {}, async shutdown() {} };
const attributes = (n) => ({ n: `${signal}-${encoding}-${n}`, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.arguments": `{"q":"item ${n}"}` });
const make = signal === "traces" ? tracing() : logging();

function tracing() {
  const tracer = new TracerProvider({ resource, spanProcessors: [processor] }).getTracer("export.mjs", "1");
  return (n) => tracer.startSpan(`execute_tool ${n}`, { attributes: attributes(n) }).end();
}

function logging() {
  const logger = new LoggerProvider({ resource, processors: [processor] }).getLogger("export.mjs", "1");
  return (n) => logger.emit({ eventName: "gen_ai.tool.message", body: { item: n }, attributes: attributes(n) });
}

const size = 20;
const send = (batch) => new Promise((done) => exporter.export(batch, done));

async function worker(first, step) {
  for (let b = first; b < Number(batches); b += step) {
    for (let i = 0; i < size; i++) make(b * size + i);
    const batch = made.splice(0);
    let result;
    while ((result = await send(batch)).code !== 0) console.error(`again: ${result.error?.message}`);
    console.log(batch.map((item) => item.attributes.n).join(" "));
  }
}

await Promise.all([0, 1, 2].map((first) => worker(first, 3)));
await exporter.shutdown();
