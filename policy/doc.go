// Package policy asks an ordered list of throttles about an event and makes one verdict of their answers.
//
// The chain stops at the first challenge or refusal and gives back what the throttles before it took: a refused event
// drains nothing. Otherwise the longest wait counts, and once every wait is over the places that limit a level
// (concurrency) are taken. Each hold is settled exactly once, by Pass.Settle or by the chain itself.
//
// A throttle in shadow judges and counts, and admits. One that fails is passed over (open) or refuses (closed).
//
// Most callers want Chain.Judge, Pass.Await while the verdict is Wait, and Pass.Settle.
package policy
