package sqlite

import (
	"cmp"
	"fmt"
	"time"

	"weir"
	"weir/store"
)

// Names of the files in the data folder. SQLite adds File with -wal and -shm behind it while the store is open.
const (
	File     = store.File
	LockFile = "weir.lock"

	// MailFolder has the texts of mails that are too long for the file.
	MailFolder = "mail"
)

// Bounds of options.
const (
	MaxWaitingCap = 1_000_000
	MinBytes      = 256 << 10 // an empty file has more than half of it
	maxPatience   = 10 * time.Minute
)

// Options say where the store is and how much it may take. The zero value of every field but Folder means its default.
type Options struct {
	Folder     string        // the data folder, which must be there
	MaxBytes   int64         // how large the file may get; 0: as large as the disk allows
	MaxWaiting int           // how many writes may wait; one more gets store.ErrTooMany. Default 16384
	Patience   time.Duration // how long a write waits while another program has the file locked. Default 5s
	// bytes of the disk that new mail leaves free; negative: none. Default 64 MiB, or 2 % of the disk where that is
	// less
	Reserve int64
}

func (o Options) withDefaults() Options {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 16_384)
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	return o
}

func (o Options) validate() error {
	var v weir.Mistakes
	if o.Folder == "" {
		v.Add("folder", "there is no data folder", "write data: /var/lib/weir")
	}
	if o.MaxBytes != 0 && o.MaxBytes < MinBytes {
		v.Add("max_bytes", fmt.Sprintf("%d bytes are too few", o.MaxBytes),
			fmt.Sprintf("at least %s", weir.Size(MinBytes)))
	}
	if o.MaxWaiting < 0 || o.MaxWaiting > MaxWaitingCap {
		v.Add("max_waiting", fmt.Sprintf("%d is out of bounds", o.MaxWaiting), fmt.Sprintf("1 to %d", MaxWaitingCap))
	}
	if o.Patience < 0 || o.Patience > maxPatience {
		v.Add("patience", fmt.Sprintf("%s is out of bounds", o.Patience),
			fmt.Sprintf("up to %s", weir.Duration(maxPatience)))
	}
	return v.Err()
}
