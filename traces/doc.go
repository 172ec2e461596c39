// Package traces tells a collector of OpenTelemetry what became of requests: it reads and writes the header traceparent
// (W3C Trace Context), decides which requests are sampled, and sends spans by OTLP over HTTP.
//
// Most callers want New, Tracer.Begin, Context.Header and Tracer.Add. A Tracer is safe for concurrent use. Nothing of
// it ever waits for the collector: what does not fit is dropped and counted.
package traces
