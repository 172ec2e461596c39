// Package sqlite keeps weir's durable state on one machine: a store.Store in one SQLite file in the data folder, by
// modernc.org/sqlite, which needs no C compiler.
//
// Open makes the file when it is not there, readable for its owner only, brings an older one up to date, and refuses
// one that is damaged, that a newer weir has written, or that another weir is using. Most callers want Open and the
// parts of the Store.
//
//	callers -> queue (bounded) -> one writer -> BEGIN … all that is waiting … COMMIT -> each caller gets its answer
//	readers -> connections of their own, which see what is committed
//
//	text of a mail -> memory, or a file in the folder mail, with its envelope (fsync of file and folder) -> the row
//
// There is one writer. While it waits for the disk, writes queue up, and the next commit takes all of them, so that
// many callers share the time of one fsync. No write waits in order to be grouped.
//
// A write is a function that the writer runs between BEGIN and COMMIT, together with those of other callers. When one
// fails after it has written, the transaction is rolled back and the group is run again, each function behind a
// savepoint. So functions that succeed pay nothing for those that fail. A function that panics, or ends its goroutine,
// does not affect others.
//
// The journal is a write-ahead log (WAL) with synchronous=FULL: a call returns when its data is on the disk. Operators
// may look into the file with any SQLite tool while weir runs (times are nanoseconds since the epoch); a tool that
// locks it for longer than Options.Patience makes writes fail with store.ErrBusy.
//
// Check and Salvage are for a store that no program has open. Check finds damage, and Salvage brings back what it can.
package sqlite
