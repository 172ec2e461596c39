// Package recorder is an upstream for tests that keeps every request as it came: byte by byte, before any library has
// read it. Tests use it to say what a gate passes on.
//
// Most callers want Start, Upstream.Answers and Upstream.Take. An Upstream is safe for concurrent use. It speaks
// HTTP/1.1 and keeps connections open. What it cannot read, and what is beyond a bound, fails the test unless the test
// takes it by Faults.
package recorder
