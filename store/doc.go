// Package store is the contract of weir's durable state: what is kept, what a store promises about it, and how it says that it
// cannot. It holds no code that stores anything; store/sqlite does, on one machine.
//
//	mechanism -> app -> store.Bans, store.Counters (this package) <- store/sqlite
//	                                    storetest: one suite that every store passes
//
// A Store is a bundle of small parts, each at the size of the one who uses it. There are two so far: Bans, the invalid list, and
// Counters, what accounts have used in long periods. Whoever needs one takes that one and never the bundle.
//
// What every part promises:
//
//   - A call that returned nil is safe: it is there after the process is killed, and after the machine loses power as far as the
//     disk tells the truth.
//   - One call is all or nothing, whatever its size. Calls of several goroutines may be made safe together.
//   - Writing the same thing twice is as good as writing it once. So whoever does not know whether a write was done writes again.
//   - Every value and every batch has a bound. What is over it gets ErrTooLarge, and nothing of its call is kept.
//   - Time is passed in; a store reads no clock. Times come back in UTC, to the nanosecond.
//   - An error is one of those named here, as errors.Is sees it, or the context's, or something that the machine said.
//
// All of it is safe for concurrent use.
package store
