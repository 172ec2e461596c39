// Package store is the contract of weir's durable state: what is kept, what a store promises about it, and how it says
// that it cannot. It holds no code that stores anything; store/sqlite does, on one machine.
//
//	mechanism -> app -> store.Bans, store.Counters, store.Mail (this package) <- store/sqlite
//	                                    storetest: one suite that every store passes
//
// A Store is a bundle of parts, each for the one who uses it: Bans, the invalid list; Counters, what accounts have used
// in long periods; and Mail, the spool. Whoever needs one takes that one and never the bundle.
//
// Bans and Counters are calls that stand for themselves. Mail has transactions, since a mail and what the throttle
// remembers of its sender must be safe together: Update runs a function that reads and writes, and all of that happens
// or nothing. Long texts are files beside the store: Stage takes them in before the transaction that names them.
//
// What every part promises:
//
//   - A call that returned nil is safe: it is there after the process is killed, and after the machine loses power as
//     far as the disk tells the truth.
//   - One call is all or nothing, whatever its size. Calls of several goroutines may be made safe together.
//   - Writing the same ban or counter twice is as good as writing it once. Where it is unknown whether a write was
//     done, write again. An Update knows, as long as the disk does.
//   - Every value and every batch has a bound. What is over it gets ErrTooLarge, and nothing of its call is kept.
//   - Time is passed in; a store reads no clock. Times come back in UTC, to the nanosecond.
//   - An error is one of those named here, as errors.Is sees it, or the context's, or something that the machine said.
//
// All of it is safe for concurrent use.
package store
