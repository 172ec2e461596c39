package store

import "errors"

// What may be wrong. The errors that stores return wrap these and say more: which file, and what the machine said.
var (
	// ErrNotFound: there is nothing by that key.
	ErrNotFound = errors.New("there is no such entry")
	// ErrExists: there is something by that key already.
	ErrExists = errors.New("the entry exists already")
	// ErrClosed: the store was closed before.
	ErrClosed = errors.New("the store is closed")
	// ErrCorrupt: what is stored cannot be read back.
	ErrCorrupt = errors.New("what is stored is damaged")
	// ErrNewer: a newer weir has written it, and this one does not know how to read it.
	ErrNewer = errors.New("a newer weir has written what is stored")
	// ErrInUse: another weir has it open.
	ErrInUse = errors.New("in use by another weir")
	// ErrUnwritable: weir may not write there, or there is nowhere to write.
	ErrUnwritable = errors.New("cannot be written")
	// ErrFull: there is no space for more. What is stored is intact. Removals make space.
	ErrFull = errors.New("no room to store more")
	// ErrBusy: another program holds what is stored for longer than a write may wait.
	ErrBusy = errors.New("another program keeps the store locked")
	// ErrTooMany: as many writes as may wait are waiting. The write was not begun.
	ErrTooMany = errors.New("too many writes are waiting")
	// ErrCrowded: as many entries of a kind are kept as may be. Others can still be stored.
	ErrCrowded = errors.New("no more can be kept")
	// ErrTooLarge: a value or a batch is over its bound.
	ErrTooLarge = errors.New("too large to store")
	// ErrInvalid: a value makes no sense.
	ErrInvalid = errors.New("makes no sense to store")
)
