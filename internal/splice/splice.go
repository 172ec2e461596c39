// Package splice lets the system move bytes from one socket to another by way of a pipe, so that they are not copied
// through the memory of the program.
//
// A Pipe is like a buffer: Take fills one, Pass empties it. Take has no pipe while it waits for bytes, so that silent
// connections need none. Pipes are few; who gets none has to copy.
package splice

import "errors"

// ErrNone means that there is no pipe for these bytes, and that nothing has been taken: they have to be copied.
var ErrNone = errors.New("no pipe can be used")

// MaxPipes is how many pipes are in use at once. A client that takes nothing in keeps its pipe, with the bytes in it
// and two descriptors. All of them together stay below what the system grants a user without a special right
// (/proc/sys/fs/pipe-user-pages-soft, 64 MiB).
const MaxPipes = 64
