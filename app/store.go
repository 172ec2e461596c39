package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"weir"
	"weir/console"
	"weir/console/access"
	"weir/internal/clock"
	"weir/store"
	"weir/store/settings"
	"weir/store/sqlite"
	"weir/throttle/ban"
)

// How long the store may take.
const (
	openPatience  = time.Minute      // it may have to be read through, and brought up to date
	closePatience = 10 * time.Second // when weir stops, even when nobody has patience for the rest
)

// The parts of what is kept.
const (
	partBans     = "bans"
	partCounters = "counters"
	partSettings = "settings"
	partMail     = "mail"
)

// A kept is what an App keeps in its data folder: open from Start to Stop.
type kept struct {
	store     *sqlite.Store
	settings  *settings.Settings
	bans      *ban.Keeper
	counters  *counters
	health    *storeHealth
	trial     trial             // of whether messages can be stored
	operators *access.Operators // made when the secret is known
}

// openStore opens the data folder's files and restores bans and counters.
func (a *App) openStore(ctx context.Context, folder string) (_ *kept, err error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	if err := emptied(folder); err != nil {
		return nil, explainStore(err)
	}
	k := &kept{settings: a.settings, health: newStoreHealth(a.opts.Clock, a.opts.Log)}
	if k.store, err = sqlite.Open(ctx, sqlite.Options{Folder: folder}); err != nil {
		return nil, explainStore(err)
	}
	k.bans, err = a.bans.list.Keep(ctx, k.store.Bans(), a.clock.Now(),
		func(err error) { k.health.note(partBans, err) })
	if err == nil {
		if k.counters, err = a.startCounters(ctx, k.store, k.health); err != nil {
			err = errors.Join(fmt.Errorf("what accounts have used cannot be loaded: %w", err), k.bans.Close(ctx))
		}
	}
	if err == nil {
		if err = k.openSettings(ctx, a); err != nil {
			err = errors.Join(err, k.counters.close(ctx), k.bans.Close(ctx))
		}
	}
	if err != nil {
		k.store.Close()
		return nil, explainStore(err)
	}
	return k, nil
}

// emptied finds a database that has lost everything. It would be taken for a new one, but a new one has no secret
// beside it: that is written when the database is.
func emptied(folder string) error {
	path := filepath.Join(folder, sqlite.File)
	db, err := os.Stat(path)
	if err != nil || db.Size() > 0 || !db.Mode().IsRegular() {
		return nil // what else is wrong with it is found when it is opened
	}
	if _, err := os.Stat(filepath.Join(folder, secretFile)); err != nil {
		return nil
	}
	return fmt.Errorf("%s: %w: it is empty, and %s is there, so that it was not always; put a copy in its place, "+
		"run weir store salvage, or remove it to begin with nothing", path, store.ErrCorrupt, secretFile)
}

// explainStore adds what to do about a store that cannot be opened.
func explainStore(err error) error {
	for _, known := range []struct {
		is   error
		hint string
	}{
		{store.ErrInUse, "give each weir a data: folder of its own"},
		{store.ErrNewer, "start the newer weir again, or give this one another data: folder"},
		{store.ErrUnwritable, "weir needs a data: folder that its user may write to, on a disk of this machine"},
		{context.DeadlineExceeded, "the disk does not answer"},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("data: %w (%s)", err, known.hint)
		}
	}
	return fmt.Errorf("data: %w", err)
}

// flushBans returns when everything on the block list is safe.
func (k *kept) flushBans(ctx context.Context) error {
	if k == nil {
		return ErrNotServing
	}
	return k.bans.Flush(ctx)
}

// close writes everything and closes the files. It has a deadline of its own: a quick stop must not lose what was
// written a moment ago, and a disk that hangs must not keep weir from stopping.
func (k *kept) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	var errs []error
	if err := k.counters.close(ctx); err != nil {
		errs = append(errs, fmt.Errorf("what accounts have used lately is not saved: %w", err))
	}
	if err := k.settings.Close(ctx); err != nil {
		errs = append(errs, fmt.Errorf("what operators have set lately is not saved: %w", err))
	}
	if err := k.bans.Close(ctx); err != nil {
		errs = append(errs, fmt.Errorf("the latest bans are not saved: %w", err))
	}
	closed := make(chan error, 1)
	go func() { // it waits for the disk, however long that takes
		k.trial.end()
		closed <- k.store.Close()
	}()
	select {
	case err := <-closed:
		errs = append(errs, err)
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("the store in %s does not close: the disk does not answer", k.store.Path()))
	}
	return errors.Join(errs...)
}

// closeStore closes what is kept, if it is open.
func (a *App) closeStore(ctx context.Context) error {
	if k := a.kept.Swap(nil); k != nil {
		return k.close(ctx)
	}
	return nil
}

// StoreStatus is the state of the files in the data folder.
func (b backend) StoreStatus() console.StoreStatus {
	s := console.StoreStatus{Parts: []console.StorePart{}}
	k := b.kept.Load()
	if k == nil {
		return s
	}
	stats := k.store.Stats()
	s.Path, s.Writes, s.Failures = k.store.Path(), stats.Writes, stats.Failures+stats.Refused
	bans, used, set := k.health.view(partBans), k.health.view(partCounters), k.health.view(partSettings)
	bans.Unsaved, used.Unsaved, set.Unsaved = b.bans.list.Stats().Unsaved, k.counters.unsaved(), b.settings.Unsaved()
	s.Parts = append(s.Parts, bans, used, set)
	if hasMail(b.current.Load().cfg) {
		mail := k.health.view(partMail)
		if err := b.mailStored(); err != nil {
			mail.Error = err.Error()
		}
		s.Parts = append(s.Parts, mail)
	}
	return s
}

// prepareFolder refuses another data folder while one is in use: data would be split between the two.
func (c *change) prepareFolder() error {
	if c.old.cfg == nil || filepath.Clean(c.next.cfg.Data) == filepath.Clean(c.old.cfg.Data) {
		return nil
	}
	return &weir.FieldError{Path: "data", Msg: fmt.Sprintf("a running weir cannot move from %s", c.old.cfg.Data),
		Hint: "stop weir, move the folder, and start it again"}
}

// storeHealth notes failures of the store, and logs them rarely enough not to fill the rest of a full disk.
type storeHealth struct {
	clock clock.Clock
	log   *slog.Logger

	mu    sync.Mutex
	parts map[string]*partHealth
}

// partHealth is the state of one part.
type partHealth struct {
	failures uint64
	err      error // nil: it works
	told     bool  // the log says so
	logged   time.Time
}

func newStoreHealth(c clock.Clock, log *slog.Logger) *storeHealth {
	return &storeHealth{clock: c, log: log, parts: map[string]*partHealth{partBans: {}, partCounters: {},
		partSettings: {}, partMail: {}}}
}

// note is told of every failure, and with nil when a part works (again).
func (h *storeHealth) note(part string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, now := h.parts[part], h.clock.Now()
	p.err = err
	switch {
	case err != nil:
		p.failures++
		if p.logged.IsZero() || now.Sub(p.logged) >= failurePause {
			p.logged, p.told = now, true
			h.log.Error("the store fails: "+console.StorePart{Part: part}.Means(), "failures", p.failures, "err", err)
		}
	case p.told:
		p.told = false
		h.log.Info("the store works again", "part", part)
	}
}

// failing returns why a part does not work, if it does not.
func (h *storeHealth) failing(part string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parts[part].err
}

func (h *storeHealth) view(part string) console.StorePart {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.parts[part]
	v := console.StorePart{Part: part, Failures: p.failures}
	if p.err != nil {
		v.Error = p.err.Error()
	}
	return v
}

// makeFolder makes the data folder, readable by weir only, unless it exists.
func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return ownFolder(path)
}

// ownFolder refuses a data folder that others can write: weir trusts the files in it.
func ownFolder(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it will be made
	}
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("data: others can write to %s (its mode is %04o): remove that right, as with chmod "+
			"go-w %s, or use another folder", path, mode, path)
	}
	return nil
}

// Backup copies the store to a folder that is empty or missing.
func (b backend) Backup(ctx context.Context, folder string, progress func(done, total int64)) error {
	k := b.kept.Load()
	if k == nil {
		return ErrNotServing
	}
	if err := k.store.Mail().Backup(ctx, folder, progress); err != nil {
		return err
	}
	// Without the secret no notice could be answered, and throttles would not know which recipients their users
	// write to.
	return writeSecret(filepath.Join(folder, secretFile), b.secret)
}

// tryEvery is how often the store is tried while somebody asks whether mail can be taken.
const tryEvery = 5 * time.Second

// diskPatience is how long the disk may take to answer.
const diskPatience = 10 * time.Second

var errHangs = errors.New("the disk does not answer")

// A trial finds out whether messages can be stored, before the first one is put off: a file system that has become
// read-only tells nobody. It tries when somebody asks, and never twice at once.
type trial struct {
	mu    sync.Mutex
	began time.Time // when the last one began, by the clock of weir
	since time.Time // the same by the machine's: what a disk takes is real time, even where a test has its own
	under bool      // it is not over
	ended bool      // there are no more
	over  sync.WaitGroup
}

// begin reports how long a try has been under way, and begins one if the last one is long ago.
func (t *trial) begin(now time.Time, try func()) (under time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under {
		return time.Since(t.since)
	}
	if age := now.Sub(t.began); t.ended || !t.began.IsZero() && age >= 0 && age < tryEvery {
		return 0
	}
	t.began, t.since, t.under = now, time.Now(), true
	t.over.Go(func() {
		try()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.under = false
	})
	return 0
}

// end waits for the one under way.
func (t *trial) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.over.Wait()
}

// mailStored returns why messages could not be stored when that was last tried.
func (b backend) mailStored() error {
	k := b.kept.Load()
	if k == nil || b.state.Load() != serving {
		return nil
	}
	if err := b.post.Full(); err != nil {
		return err
	}
	took := k.trial.begin(b.clock.Now(), func() { k.health.note(partMail, k.store.Try(context.Background())) })
	if took > diskPatience {
		return errHangs
	}
	return k.health.failing(partMail)
}
