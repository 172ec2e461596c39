// Package traces tells a collector of OpenTelemetry what became of requests. It decides which are sampled, reads
// and writes the header traceparent, and hands spans to OpenTelemetry's SDK, which sends them by OTLP and reads its
// OTEL_* variables. A span is made when its request is over, and only for a request that is sampled.
//
// Most callers want New, Tracer.Begin, Context.AppendHeader and Tracer.Add. A Tracer is safe for concurrent use.
// Nothing of it ever waits for the collector: what does not fit is dropped and counted.
package traces
