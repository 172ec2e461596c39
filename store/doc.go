// Package store is the contract of weir's durable state: what is kept, what a store promises, and which errors it
// returns. It has no code that stores anything; store/sqlite does, on one machine.
//
//	mechanism -> app -> store.Bans, Counters, Mail, Access (this package) <- store/sqlite
//
// A Store has four parts: Bans, the block list; Counters, what accounts have used in long periods; Mail, the spool; and
// Access, the operators. A package that needs one part takes that part and not the Store.
//
// Calls of Bans and Counters are independent of each other. Mail has transactions, since a mail and what the throttle
// remembers of its sender must be stored together: Update runs a function that reads and writes, and all of it is
// stored or nothing. So has Access, since an act and its entry in the audit log belong together. Long texts are files
// beside the store: Stage takes them in before the transaction that names them.
//
// What every part promises:
//
//   - What a call has written is safe when it returns nil: it survives a killed process, and a power failure as far as
//     the disk keeps its promises.
//   - One call is all or nothing, whatever its size. Calls of several goroutines may be committed together.
//   - Writing the same ban or counter twice is as good as writing it once. If it is unknown whether a write was done,
//     write again. Update always knows.
//   - Every value and every batch has a bound. A call with something beyond it gets ErrTooLarge and writes nothing.
//   - Time is passed in; a store reads no clock. Times come back in UTC, to the nanosecond.
//   - An error is one of those named here (see errors.Is), the context's, or one of the operating system.
//
// All of it is safe for concurrent use.
package store
