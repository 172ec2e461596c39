package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"sync"

	"weir/console/access"
)

// A BackupOrder asks for a copy of the store.
type BackupOrder struct {
	Folder string `json:"folder"` // the whole path: weir itself runs in another folder
}

// BackupProgress is one line of the answer, which comes while the copy is made. The last one has Ended or Error.
type BackupProgress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Ended bool   `json:"ended,omitempty"` // the copy is whole and safe
	Error string `json:"error,omitempty"` // why there is none
}

// backupLines is about how many lines report progress: few enough never to fill a socket whose other end does not read.
const backupLines = 100

// backupMake writes where its caller says, so that only users of this machine may make it.
var backupMake = &CallOf[BackupOrder, BackupProgress]{Call{Method: http.MethodPost, Path: "/backup", Role: access.Admin,
	Commands: []string{"backup"}, Local: true, Stream: true,
	Summary: "Copies the store to a folder of the machine that weir runs on, and reports progress line by line.",
	In:      reflect.TypeFor[BackupOrder](), Out: reflect.TypeFor[BackupProgress](), stream: backup}}

func backup(q *Request, in any, write func(any) error) error {
	order := in.(*BackupOrder)
	switch {
	case !filepath.IsAbs(order.Folder):
		return Invalid("folder: write the whole path of the folder")
	case !q.serving.copying.CompareAndSwap(false, true):
		return Rejected("a backup is being made already")
	}
	ends := sync.OnceFunc(func() { q.serving.copying.Store(false) })
	defer ends()
	var told int64 = -1
	progress := func(done, total int64) {
		if step := max(total/backupLines, 1); told >= 0 && done-told < step {
			return
		}
		told = done
		_ = write(BackupProgress{Done: done, Total: total})
	}
	if err := q.backend.Backup(q, filepath.Clean(order.Folder), progress); err != nil {
		if q.serving.stopping.Err() != nil {
			err = Rejected("weir is being stopped: there is no backup")
		}
		return err
	}
	ends()                                 // before the client knows, who may ask for another one at once
	_ = write(BackupProgress{Ended: true}) // a client that has left does not want to know
	return nil
}

// Backup makes weir copy its store to a folder, and reports progress.
func (c *Client) Backup(ctx context.Context, folder string, progress func(done, total int64)) error {
	patient := *c.http
	patient.Timeout = 0
	path, body, err := backupMake.address(&BackupOrder{folder})
	if err != nil {
		return err
	}
	return c.exchange(ctx, &patient, backupMake.Method, path, body, func(d *json.Decoder) error {
		for {
			var p BackupProgress
			switch err := d.Decode(&p); {
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				return &Error{http.StatusInternalServerError, "weir has ended: there is no backup"}
			case err != nil:
				return err
			case p.Error != "":
				return &Error{http.StatusInternalServerError, p.Error}
			case p.Ended:
				return nil
			}
			progress(p.Done, p.Total)
		}
	})
}
