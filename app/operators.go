package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/console/access"
	"weir/internal/readfile"
	"weir/store"
)

// passwordFile, in the data folder, has the password of the operator that the first start makes, until it was used.
const passwordFile = "admin-password"

// maxPasswordFile is how much of it is read.
const maxPasswordFile = 1024

// How long entries of the audit log are kept, and how often old ones are removed.
const (
	auditFor     = 90 * 24 * time.Hour
	auditEvery   = time.Hour
	auditAtATime = 1000
)

// admitOperators lets operators log in. The first start makes one, if there is a console to log in to.
func (a *App) admitOperators(ctx context.Context, k *kept, g *generation) error {
	known := func(name string) {
		if name == access.First { // its first password is no more, or somebody knows it
			_ = os.Remove(filepath.Join(g.cfg.Data, passwordFile))
		}
	}
	operators, err := access.New(access.Options{Store: k.store.Access(), Clock: a.opts.Clock,
		HashMemory: a.opts.HashMemory, Secret: derive(a.secret, "the console"), Failed: a.notNoted,
		Changed: known, Entered: known})
	if err != nil {
		return err
	}
	k.operators = operators
	if !g.cfg.Console.Enabled() {
		return nil
	}
	return a.firstOperator(ctx, operators, g.cfg.Data)
}

// firstOperator makes the first operator if there is none. Until somebody has logged in with the password, each start
// on a terminal shows it.
func (a *App) firstOperator(ctx context.Context, operators *access.Operators, folder string) error {
	path := filepath.Join(folder, passwordFile)
	made, err := operators.MakeFirst(ctx, func(_, password string) error { return writePassword(path, password) })
	if err != nil {
		return fmt.Errorf("the first operator of the console: %w", err)
	}
	if made {
		a.opts.Log.Info("the operator admin can log in to the console; the password is in a file until then",
			"file", path)
	}
	if a.opts.FirstPassword == nil {
		return nil
	}
	text, err := readfile.Read(path, maxPasswordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = a.opts.FirstPassword(access.First, strings.TrimSpace(string(text)))
	}
	if err != nil {
		a.opts.Log.Warn("the first password of the console is not shown", "file", path, "err", err)
	}
	return nil
}

// firstOperatorNow makes the first operator when a reload has turned the console on.
func (a *App) firstOperatorNow() {
	k := a.kept.Load()
	if k == nil {
		return
	}
	if err := a.firstOperator(a.retreat, k.operators, a.coming.Data); err != nil {
		a.opts.Log.Error("nobody can log in to the console yet (weir operator add makes an operator)", "err", err)
	}
}

// writePassword writes a file that only weir's own user can read. One that is there is replaced.
func writePassword(path, password string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, password)
	return errors.Join(err, f.Sync(), f.Close())
}

// Access returns who lets operators in, or nil while the store is not open.
func (b backend) Access() *access.Operators {
	if k := b.kept.Load(); k != nil {
		return k.operators
	}
	return nil
}

// Log adds to the audit log.
func (b backend) Log(ctx context.Context, e store.Entry) error {
	k := b.kept.Load()
	if k == nil {
		return ErrNotServing
	}
	e.At = b.opts.Clock.Now()
	shorten := b.auditDue(e.At)
	return k.store.Mail().Update(context.WithoutCancel(ctx), func(tx store.MailTx) error {
		if shorten {
			if err := tx.PruneEntries(e.At.Add(-auditFor), auditAtATime); err != nil {
				return err
			}
		}
		return tx.Log(e)
	})
}

// auditDue reports whether old entries of the audit log are to be removed now. Without mail nobody else does it.
func (a *App) auditDue(now time.Time) bool {
	a.auditing.Lock()
	defer a.auditing.Unlock()
	if !a.shortened.IsZero() && now.Sub(a.shortened) < auditEvery && !now.Before(a.shortened) {
		return false
	}
	a.shortened = now
	return true
}

// Entries returns up to limit entries of the audit log that match, the latest first.
func (b backend) Entries(ctx context.Context, q store.EntryQuery, limit int) (found []store.Entry, err error) {
	k := b.kept.Load()
	if k == nil {
		return nil, ErrNotServing
	}
	err = k.store.Mail().View(ctx, func(tx store.MailTx) error {
		found, err = tx.Entries(q, limit)
		if known := b.userName(q.User); err == nil && len(found) == 0 && q.User != "" && known != q.User {
			q.User = known // of mail; others are as they were written
			found, err = tx.Entries(q, limit)
		}
		return err
	})
	return found, err
}
