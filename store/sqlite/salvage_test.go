package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/store"
)

// Of everything that a store keeps, so much is in one that is damaged.
const keptEach = 200

// filedEvery is every which mail has its text in a file.
const filedEvery = 10

// salvageText is the text of a mail.
func salvageText(id store.MailID) []byte {
	size := 700 + int(id%900)
	if id%filedEvery == 0 {
		size = store.MaxInline + int(id)
	}
	return append(bytes.Repeat([]byte(id.String()), size/idSize+1)[:size], "\r\n"...)
}

// liftOf is the lift of a client's ban.
func liftOf(id string) store.Ban {
	return store.Ban{BanKey: store.BanKey{Client: id, Lifted: true}, By: "ann", Since: epoch, Until: epoch.Add(1)}
}

// settingOf is a setting, in every other one without an end.
func settingOf(name string) store.Setting {
	v := store.Setting{SettingKey: store.SettingKey{Kind: "limit", Name: name}, Value: "of " + name, By: "alice", At: epoch}
	if len(name)%2 == 0 {
		v.Until = epoch.AddDate(1, 0, 0)
	}
	return v
}

// fill puts some of everything into a store.
func fill(t testing.TB, s *Store, n int) {
	t.Helper()
	ctx := t.Context()
	var bans []store.Ban
	var counters []store.Counter
	for i := range n {
		bans = append(bans, banOf(fmt.Sprint("client-", i)), liftOf(fmt.Sprint("client-", i)))
		counters = append(counters, store.Counter{Throttle: "api", Rule: "month", Account: fmt.Sprint("account-", i),
			Period: epoch, Used: int64(i + 1), Until: epoch.AddDate(1, 0, 0)})
	}
	must(t, s.Bans().Put(ctx, bans...))
	must(t, s.Counters().Save(ctx, counters))
	var settings []store.Setting
	for i := range n {
		settings = append(settings, settingOf(fmt.Sprint("account-", i)))
	}
	must(t, s.Settings().Put(ctx, settings...))
	var all []func(tx store.MailTx) error
	for i := range n {
		id := store.MailID(i + 1)
		l := store.Message{ID: id, Gate: ":587", User: fmt.Sprint("user-", i), Sender: "ann@example.org",
			Subject: "news", Received: epoch, EightBit: true}
		to := []store.Addressee{{Number: 0, Address: "a@example.net", State: store.Ready},
			{Number: 1, Address: fmt.Sprintf("b%d@example.net", i), State: store.Delayed}}
		staged := s.Mail().Stage()
		_, err := staged.Write(salvageText(id))
		must(t, err)
		staged.Note(&l, to)
		text, err := staged.Seal()
		must(t, err)
		all = append(all, func(tx store.MailTx) error {
			_, spent := tx.Spend(stampOf(id), 1<<20)
			return errors.Join(spent, tx.PutMessage(l, text, to),
				tx.PutUser(store.User{Name: l.User, Password: "hash", Contact: "x@example.org", Language: "de",
					Made: epoch}),
				tx.Remember(store.Memory{Throttle: "outgoing", User: l.User, State: bytes.Repeat([]byte{1}, 100+60*i)}),
				tx.PutSketch(store.Sketch{Throttle: "reach", User: l.User, State: []byte("sketch")}),
				tx.PutKnown("reach", l.User, bytes.Repeat([]byte{2}, 20*i+1)),
				tx.PutTicket(store.Ticket{Nonce: fmt.Sprint("nonce-", i), User: l.User, Until: epoch}),
				tx.(store.AccessTx).PutLogIn(store.LogIn{Name: l.User, Network: home, Since: epoch, At: epoch}, 9,
					1<<20),
				tx.Log(store.Entry{At: epoch, By: "weir", What: "stopped", User: l.User}))
		})
	}
	must(t, s.Mail().Update(ctx, func(tx store.MailTx) error {
		for _, one := range all {
			if err := one(tx); err != nil {
				return err
			}
		}
		return nil
	}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filled is a data folder with some of everything, as it is after a stop.
func filled(t testing.TB, n int) string {
	t.Helper()
	folder := t.TempDir()
	s, err := Open(t.Context(), Options{Folder: folder})
	must(t, err)
	fill(t, s, n)
	must(t, s.Close())
	return folder
}

// copyFolder copies a data folder, and damages the database on the way.
func copyFolder(t testing.TB, from, to string, damage func([]byte) []byte) {
	t.Helper()
	must(t, os.CopyFS(to, os.DirFS(from)))
	path := filepath.Join(to, File)
	whole, err := os.ReadFile(path)
	must(t, err)
	if whole = damage(bytes.Clone(whole)); whole == nil {
		must(t, os.Remove(path))
		return
	}
	must(t, os.WriteFile(path, whole, 0o600))
}

var home = netip.MustParsePrefix("2001:db8::/64")

// An inventory is how much of everything is in a store.
type inventory struct {
	logins                                                                                             int // of users
	bans, lifts, counters, settings, users, mails, memories, sketches, known, tickets, entries, stamps int
	held, others                                                                                       int // recipients
}

// takeStock opens a store as weir does, and wants everything in it to be what fill has put there.
func takeStock(t testing.TB, folder string) (n inventory) {
	t.Helper()
	ctx := t.Context()
	s, err := Open(ctx, Options{Folder: folder})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	bans, err := s.Bans().List(ctx, epoch)
	must(t, err)
	for _, b := range bans {
		want := banOf(b.Client)
		if b.Lifted {
			n.lifts++
			want = liftOf(b.Client)
		}
		if !b.Equal(&want) {
			t.Errorf("a ban that nobody made: %+v", b)
		}
	}
	settings, err := s.Settings().List(ctx, epoch)
	must(t, err)
	for _, v := range settings {
		n.settings++
		if want := settingOf(v.Name); !v.Equal(&want) {
			t.Errorf("a setting that nobody made: %+v", v)
		}
	}
	must(t, s.Counters().Load(ctx, epoch, func(c store.Counter) error {
		n.counters++
		if c.Account != fmt.Sprint("account-", c.Used-1) {
			t.Errorf("a counter that nobody had: %+v", c)
		}
		return nil
	}))
	n.bans = len(bans) - n.lifts
	var all []store.Queued
	must(t, s.Mail().View(ctx, func(tx store.MailTx) error {
		users, err := tx.Users("", store.MaxBatch)
		must(t, err)
		n.users = len(users)
		for _, u := range users {
			if u.Language != "de" {
				t.Errorf("%s reads %q", u.Name, u.Language)
			}
		}
		for i := range keptEach {
			name := fmt.Sprint("user-", i)
			memories, err := tx.Memories(name, 9)
			must(t, err)
			for _, m := range memories {
				n.memories++
				if len(m.State) != 100+60*i {
					t.Errorf("%d bytes are remembered of %s", len(m.State), name)
				}
			}
			if _, err := tx.(store.AccessTx).LogIn(false, name, home); err == nil {
				n.logins++
			}
			if _, err := tx.Sketch("reach", name); err == nil {
				n.sketches++
			}
			if known, err := tx.Known("reach", name); err == nil {
				n.known++
				if len(known) != 20*i+1 {
					t.Errorf("%d bytes are known of %s", len(known), name)
				}
			}
			if _, err := tx.Ticket(fmt.Sprint("nonce-", i)); err == nil {
				n.tickets++
			}
			if spent, err := tx.Spent(stampOf(store.MailID(i + 1)).Nonce); err == nil && spent {
				n.stamps++
			}
		}
		entries, err := tx.Entries(store.EntryQuery{}, store.MaxBatch)
		must(t, err)
		n.entries = len(entries)
		_, states, err := tx.Count()
		must(t, err)
		for state, k := range states {
			if state == store.Held {
				n.held += k
			} else {
				n.others += k
			}
		}
		all, err = tx.Messages(store.MessageQuery{}, store.MaxBatch)
		return err
	}))
	n.mails = len(all)
	for _, q := range all {
		r, err := s.Mail().Open(ctx, q.ID)
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
		if !bytes.Equal(text, salvageText(q.ID)) || q.Sender != "ann@example.org" || !q.EightBit ||
			q.User != fmt.Sprint("user-", int(q.ID)-1) {
			t.Fatalf("%s is another mail than before: %d bytes, %+v", q.ID, len(text), q.Message)
		}
	}
	return n
}

// everything is what fill puts into a store.
var everything = inventory{bans: keptEach, lifts: keptEach, counters: keptEach, settings: keptEach, users: keptEach,
	logins: keptEach,
	mails:  keptEach, memories: keptEach,
	sketches: keptEach, known: keptEach,
	tickets: keptEach, entries: keptEach, stamps: keptEach, others: 2 * keptEach}

// What a damaged database still holds is brought back, whatever of it is damaged, and texts in files always are.
func TestSalvage(t *testing.T) {
	t.Parallel()
	from := filled(t, keptEach)
	filedMails := keptEach / filedEvery
	same := func(t *testing.T, n inventory) {
		if n.held == 2*keptEach { // what the file does not vouch for is held
			n.held, n.others = 0, n.held
		}
		if n != everything {
			t.Errorf("there is\n%+v, want\n%+v", n, everything)
		}
	}
	most := func(t *testing.T, n inventory) {
		got := n.bans + n.counters + n.users + n.mails + n.memories + n.sketches + n.known + n.tickets + n.entries +
			n.stamps
		if got < 9*keptEach || n.mails < keptEach*8/10 {
			t.Errorf("there is only %+v", n)
		}
	}
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		want   func(*testing.T, inventory)
	}{
		"no header":     {func(b []byte) []byte { clear(b[:headerSize]); return b }, same},
		"no first page": {func(b []byte) []byte { clear(b[:pageSize]); return b }, same},
		"a hole": {func(b []byte) []byte {
			copy(b[len(b)/2/pageSize*pageSize:], bytes.Repeat([]byte("garbage! "), 2*pageSize/9))
			return b
		}, most},
		"half": {func(b []byte) []byte { return b[:len(b)/2] }, func(t *testing.T, n inventory) {
			if n.mails < keptEach/4 || n.bans == 0 {
				t.Errorf("there is only %+v", n)
			}
		}},
		"lost": {func([]byte) []byte { return nil }, func(t *testing.T, n inventory) {
			if want := (inventory{mails: filedMails, held: 2 * filedMails, entries: filedMails}); n != want {
				t.Errorf("there is %+v, want %+v", n, want)
			}
		}},
		"empty": {func([]byte) []byte { return []byte{} }, func(t *testing.T, n inventory) {
			if n.mails != filedMails || n.held != 2*filedMails {
				t.Errorf("there is %+v", n)
			}
		}},
		"garbage": {func(b []byte) []byte { return bytes.Repeat([]byte("weir? "), len(b)/6) },
			func(t *testing.T, n inventory) {
				if n.mails != filedMails || n.held != 2*filedMails {
					t.Errorf("there is %+v", n)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			copyFolder(t, from, folder, c.damage)
			damaged, _ := os.ReadFile(filepath.Join(folder, File))
			if c, err := Check(t.Context(), folder, nil); err != nil || !c.Damaged() {
				t.Errorf("check: %+v, %v", c, err)
			}
			if after, _ := os.ReadFile(filepath.Join(folder, File)); !bytes.Equal(after, damaged) {
				t.Error("check has changed the file")
			}
			if left, _ := filepath.Glob(filepath.Join(folder, File+"-*")); len(left) > 0 {
				t.Errorf("check has left %v", left)
			}
			var last [2]int64
			steps := 0
			r, err := Salvage(t.Context(), folder, epoch, func(done, total int64) {
				if done < last[0] || done > total {
					t.Errorf("%d of %d after %d", done, total, last[0])
				}
				if done > last[0] {
					steps++
				}
				last = [2]int64{done, total}
			})
			must(t, err)
			if pages := len(damaged) / pageSize; steps < pages/2 {
				t.Errorf("%d steps of progress for %d pages", steps, pages)
			}
			if old, _ := os.ReadFile(r.Damaged); !bytes.Equal(old, damaged) || (r.Damaged == "") != (damaged == nil) {
				t.Errorf("the old database is not kept in %q", r.Damaged)
			}
			if c, err := Check(t.Context(), folder, nil); err != nil || c.Damaged() || c.Unknown != 0 {
				t.Errorf("check afterwards: %+v, %v", c, err)
			}
			n := takeStock(t, folder)
			c.want(t, n)
			if n.mails < filedMails {
				t.Errorf("%+v is less than the files knew", n)
			}
			again, err := Salvage(t.Context(), folder, epoch, nil)
			if err != nil || again.Rebuilt || again.Held+again.Unknown != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
			if left, _ := filepath.Glob(filepath.Join(folder, building)); len(left) > 0 {
				t.Errorf("%v is left behind", left)
			}
		})
	}
}

// What the write-ahead log has committed counts, also where the database below it is damaged.
func TestSalvageReadsTheLog(t *testing.T) {
	t.Parallel()
	from, folder := t.TempDir(), t.TempDir()
	s, err := Open(t.Context(), Options{Folder: from})
	must(t, err)
	fill(t, s, keptEach)
	// as it is after a kill, and what is left of the database is empty
	copyFolder(t, from, folder, func([]byte) []byte { return []byte{} })
	must(t, s.Close())
	log, err := os.ReadFile(filepath.Join(folder, File+"-wal"))
	if err != nil || len(log) < 100*pageSize {
		t.Fatal(len(log), err)
	}
	cannotOpen(t, Options{Folder: folder}, store.ErrCorrupt, "its log was not", "weir store salvage")
	must(t, os.Remove(filepath.Join(folder, File)))
	cannotOpen(t, Options{Folder: folder}, store.ErrCorrupt, "was moved away")
	r, err := Salvage(t.Context(), folder, epoch, nil)
	must(t, err)
	if n := takeStock(t, folder); n != everything {
		t.Errorf("there is %+v, want %+v", n, everything)
	}
	if kept, _ := os.ReadFile(r.Damaged + "-wal"); !bytes.Equal(kept, log) {
		t.Error("the log is not kept")
	}
}

// Whatever is damaged: something can be opened afterwards, and no text in a file is missing.
func TestSalvageAnything(t *testing.T) {
	const mails = 40
	from := filled(t, mails)
	rounds := 8
	if needs.Long() {
		rounds = 100
	}
	for round := range rounds {
		chance := rand.New(rand.NewPCG(1, uint64(round)))
		folder := filepath.Join(t.TempDir(), "data")
		copyFolder(t, from, folder, func(b []byte) []byte {
			for range 1 + chance.IntN(5) {
				hole := b[chance.IntN(len(b)):]
				hole = hole[:min(len(hole), []int{1, 8, 512, pageSize, 20 * pageSize}[chance.IntN(5)])]
				switch chance.IntN(3) {
				case 0:
					clear(hole)
				case 1:
					copy(hole, b[chance.IntN(len(b)):])
				default:
					for i := range hole {
						hole[i] = byte(chance.Uint32())
					}
				}
			}
			return b[:[]int{len(b), len(b), len(b) - 1, len(b) / 3}[chance.IntN(4)]]
		})
		_, err := Salvage(t.Context(), folder, epoch, nil)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		// A text that was changed on the disk stays as it is.
		c, err := Check(t.Context(), folder, nil)
		if err != nil || len(c.Damage) > 0 || slices.ContainsFunc(c.Lost, func(lost string) bool {
			return !strings.Contains(lost, sumChanged)
		}) {
			t.Fatalf("round %d, afterwards: %+v, %v", round, c, err)
		}
		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		filed := 0
		if err := s.Mail().View(t.Context(), func(tx store.MailTx) error {
			all, err := tx.Messages(store.MessageQuery{}, store.MaxBatch)
			for _, q := range all {
				if q.Filed != "" {
					filed++
				}
			}
			_, users := tx.Users("", store.MaxBatch)
			_, entries := tx.Entries(store.EntryQuery{}, store.MaxBatch)
			return errors.Join(err, users, entries)
		}); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if filed+len(exported(folder)) < mails/filedEvery {
			t.Errorf("round %d: %d of the texts in files are there, and %v", round, filed, exported(folder))
		}
		must(t, s.Close())
		must(t, os.RemoveAll(folder))
	}
}

func exported(folder string) []string {
	all, _ := filepath.Glob(filepath.Join(folder, SalvagedFolder, "*"))
	return all
}

// A text without an envelope, as older weirs wrote it, becomes a file of its own; one that was set aside comes back.
func TestSalvageTexts(t *testing.T) {
	t.Parallel()
	folder := filled(t, keptEach)
	s := mustOpen(t, Options{Folder: folder})
	staged := s.Mail().Stage()
	bare := append(bytes.Repeat([]byte("line\r\n"), 20_000), "end\r\n"...)
	_, err := staged.Write(bare)
	must(t, err)
	_, err = staged.Seal()
	must(t, err)
	must(t, s.Close())
	known, err := filepath.Glob(filepath.Join(folder, MailFolder, "*", "*"))
	must(t, err)
	if len(known) != keptEach/filedEvery+1 {
		t.Fatal(known)
	}
	if c, err := Check(t.Context(), folder, nil); err != nil || c.Damaged() || c.Unknown != 1 ||
		c.Filed != keptEach/filedEvery || c.Mails != keptEach {
		t.Errorf("check: %+v, %v", c, err)
	}
	must(t, os.Remove(filepath.Join(folder, File))) // and a new weir sets all of them aside
	s = mustOpen(t, Options{Folder: folder})
	if n, err := s.Mail().Sweep(t.Context(), time.Now().Add(time.Hour)); err != nil || n.SetAside != len(known) {
		t.Fatal(n, err)
	}
	must(t, s.Close())
	if c, err := Check(t.Context(), folder, nil); err != nil || c.Damaged() || c.SetAside != len(known) {
		t.Errorf("check: %+v, %v", c, err)
	}
	r, err := Salvage(t.Context(), folder, epoch, nil)
	must(t, err)
	if r.Rebuilt || r.Damaged != "" || r.Held != len(known)-1 || r.Unknown != 1 ||
		r.Folder != filepath.Join(folder, SalvagedFolder) {
		t.Errorf("%+v", r)
	}
	if n := takeStock(t, folder); n.mails != len(known)-1 || n.held != 2*n.mails {
		t.Errorf("there is %+v", n)
	}
	files := exported(folder)
	if len(files) != 1 || !strings.HasSuffix(files[0], ".eml") {
		t.Fatal(files)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(text, bare) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if left, _ := os.ReadDir(filepath.Join(folder, store.AsideFolder)); len(left) > 0 {
		t.Errorf("%v is still set aside", left)
	}
}

// A mail whose recipients are lost becomes a file; recipients whose mail is lost are in the audit log.
func TestSalvageHalves(t *testing.T) {
	t.Parallel()
	folder := filled(t, keptEach)
	tool := raw(t, folder)
	execute(t, tool, `DELETE FROM addressees WHERE mail IN (1, 10)`, `DELETE FROM messages WHERE id IN (2, 20)`,
		`DELETE FROM addressees WHERE mail = 20 AND number = 0`, `DELETE FROM sketches WHERE user = 'user-3'`)
	must(t, tool.Close())
	c, err := Check(t.Context(), folder, nil)
	if err != nil || len(c.Damage) != 5 {
		t.Fatalf("check: %+v, %v", c, err)
	}
	r, err := Salvage(t.Context(), folder, epoch, nil)
	must(t, err)
	if !r.Rebuilt || r.Held != 2 || r.Unknown != 1 || len(r.Lost) != 1 || r.Lost[0].Mail != 2 ||
		!slices.Equal(r.Lost[0].To, []string{"a@example.net", "b1@example.net"}) {
		t.Errorf("%+v", r)
	}
	if text,
		err := os.ReadFile(filepath.Join(folder, SalvagedFolder,
		strings.ToLower(store.MailID(1).String())+".eml")); err != nil || !bytes.Equal(text, salvageText(1)) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	n := takeStock(t, folder)
	if want := keptEach - 2; n.mails != want || n.held != 3 || n.others != 2*(want-2) || n.known != keptEach-1 ||
		n.entries != keptEach+3 {
		t.Errorf("there is %+v", n)
	}
}

// Users who may have been removed long ago cannot log in.
func TestSalvageDoubts(t *testing.T) {
	t.Parallel()
	folder := filled(t, keptEach)
	tool := raw(t, folder)
	var root int
	must(t, tool.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_schema WHERE name = 'users'`).Scan(&root))
	must(t, tool.Close())
	path := filepath.Join(folder, File)
	whole, err := os.ReadFile(path)
	must(t, err)
	clear(whole[(root-1)*pageSize : root*pageSize])
	must(t, os.WriteFile(path, whole, 0o600))
	r, err := Salvage(t.Context(), folder, epoch, nil)
	must(t, err)
	s := mustOpen(t, Options{Folder: folder})
	must(t, s.Mail().View(t.Context(), func(tx store.MailTx) error {
		users, err := tx.Users("", store.MaxBatch)
		for _, u := range users {
			if !u.Disabled {
				t.Errorf("%s may log in", u.Name)
			}
		}
		i := slices.IndexFunc(r.Tables, func(t SalvagedTable) bool { return t.Name == "users" })
		if len(users) < keptEach*8/10 || r.Tables[i].Doubted != len(users) {
			t.Errorf("%d users, %+v", len(users), r.Tables[i])
		}
		return err
	}))
}

// Nobody salvages what a weir is using, or what a newer one has written. What is broken off leaves everything as it
// was.
func TestSalvageIsRefused(t *testing.T) {
	t.Parallel()
	folder := filled(t, keptEach)
	s := mustOpen(t, Options{Folder: folder})
	for _, try := range []func() error{
		func() error { _, err := Check(t.Context(), folder, nil); return err },
		func() error { _, err := Salvage(t.Context(), folder, epoch, nil); return err },
	} {
		if err := try(); !errors.Is(err, store.ErrInUse) {
			t.Error(err)
		}
	}
	must(t, s.Close())
	damaged := t.TempDir()
	copyFolder(t, folder, damaged, func(b []byte) []byte { clear(b[:pageSize]); return b })
	tool := raw(t, folder)
	execute(t, tool, "PRAGMA user_version = 99")
	must(t, tool.Close())
	if _, err := Salvage(t.Context(), folder, epoch, nil); !errors.Is(err, store.ErrNewer) {
		t.Error(err)
	}
	if _, err := Check(t.Context(), folder, nil); !errors.Is(err, store.ErrNewer) {
		t.Error(err)
	}
	before, err := os.ReadFile(filepath.Join(damaged, File))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Salvage(ctx, damaged, epoch, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if after, _ := os.ReadFile(filepath.Join(damaged, File)); !bytes.Equal(after, before) {
		t.Error("a salvage that was broken off has changed the database")
	}
	if _, err := Salvage(t.Context(), filepath.Join(folder, "nowhere"), epoch, nil); !errors.Is(err,
		store.ErrUnwritable) {
		t.Error(err)
	}
	nothing := t.TempDir()
	if c, err := Check(t.Context(), nothing, nil); err != nil || !c.Missing || c.Damaged() {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Salvage(t.Context(), nothing, epoch, nil); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(nothing); len(left) > 0 {
		t.Errorf("%v was left where nothing was", left)
	}
}

// Rows of one table are never taken for those of another: pages do not say which table they are of.
func TestTablesAreToldApart(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Folder: t.TempDir()})
	tables, err := tablesOf(s.writer)
	must(t, err)
	shape := map[string]string{}
	for _, table := range tables {
		kinds := fmt.Sprint(table.index)
		for i, c := range table.columns {
			kinds += " " + c.kind
			if i == table.id {
				kinds += " (id)"
			}
		}
		if other := shape[kinds]; other != "" {
			t.Errorf("%s and %s look the same: %s", table.name, other, kinds)
		}
		shape[kinds] = table.name
	}
	if len(tables) < 11 {
		t.Errorf("%d tables", len(tables))
	}
}

// Whatever is on the pages of a file, reading it ends, and gives rows or nothing. (No fuzz test: SQLite in the same
// program makes those slow.)
func TestWreckOfAnything(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(filepath.Join(filled(t, 20), File))
	must(t, err)
	rounds := 500
	if needs.Long() {
		rounds = 50_000
	}
	path, rows := filepath.Join(t.TempDir(), File), 0
	for round := range rounds {
		chance := rand.New(rand.NewPCG(2, uint64(round)))
		from := chance.IntN(len(whole)/pageSize-3) * pageSize
		b := bytes.Clone(whole[from : from+3*pageSize])
		for range chance.IntN(40) {
			at := chance.IntN(len(b))
			if chance.IntN(2) == 0 {
				at = at/pageSize*pageSize + at%16 // the head of a page
			}
			b[at] = byte(chance.Uint32())
		}
		must(t, errors.Join(os.WriteFile(path, b, 0o600), os.WriteFile(path+"-wal", b, 0o600)))
		w, err := openPages(path)
		must(t, err)
		w.roots()
		w.skipFree()
		w.strays(func(byte, record) { rows++ })
		w.close()
	}
	if rows == 0 {
		t.Error("nothing was ever found")
	}
}
