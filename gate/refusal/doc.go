// Package refusal says what a client is told when its request does not go on: status, Retry-After, RateLimit, a problem
// document (RFC 9457) and a sentence. Every gate that speaks HTTP, or is asked by something that does, renders the same
// facts.
//
// Most callers want Of. Functions keep nothing of an answer and may be called from several goroutines.
package refusal
