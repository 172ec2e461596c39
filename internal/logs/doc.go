// Package logs has what keeps logs from doing harm. All of it is safe for concurrent use, but for what a File says.
//
//   - A Buffer keeps a slow log from blocking its writers. If the reader of the log stops, or its disk is slow or full,
//     lines wait in a bounded buffer. Lines that do not fit are left out and counted. Make one with NewBuffer.
//   - A File has lines added to it, and may be moved away by others: it is opened again under its name. Write and Close
//     are for one goroutine; Replace may be called by any. Make one with Open.
//   - A Line and Rates keep a flood of the same line from filling the disk. Their zero values are ready.
package logs
