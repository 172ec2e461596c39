package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"time"
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

// backup copies the store and reports progress line by line. It ends when the client leaves or weir stops.
func (c *Control) backup(w http.ResponseWriter, r *http.Request) {
	order, err := readBody[BackupOrder](w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	m, err := c.mail()
	switch {
	case err != nil:
	case !filepath.IsAbs(order.Folder):
		err = Invalid("folder: write the whole path of the folder")
	case !c.copying.CompareAndSwap(false, true):
		err = Rejected("a backup is being made already")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	defer c.copying.Store(false)
	// A backup may take long. A read deadline would end the context, too.
	conn := http.NewResponseController(w)
	conn.SetReadDeadline(time.Time{})
	conn.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()

	lines := json.NewEncoder(w)
	var told int64 = -1
	progress := func(done, total int64) {
		if step := max(total/backupLines, 1); told >= 0 && done-told < step {
			return
		}
		told = done
		lines.Encode(BackupProgress{Done: done, Total: total})
		conn.Flush()
	}
	err = m.Backup(ctx, filepath.Clean(order.Folder), progress)
	if err != nil && c.stopping.Err() != nil {
		err = Rejected("weir is being stopped: there is no backup")
	}
	switch {
	case err == nil:
		lines.Encode(BackupProgress{Ended: true})
	case told < 0:
		writeError(w, understood(err))
	default:
		lines.Encode(BackupProgress{Error: understood(err).Error()})
	}
}

// Backup makes weir copy its store to a folder, and reports progress.
func (c *Client) Backup(ctx context.Context, folder string, progress func(done, total int64)) error {
	patient := *c.http
	patient.Timeout = 0
	return c.exchange(ctx, &patient, http.MethodPost, "/v1/backup", BackupOrder{folder}, func(d *json.Decoder) error {
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
