package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/store"
)

// Senders who write mail until they are killed. Mail n of a sender is accepted together with the number n in what is
// remembered of them.
const senders = 6

// mailOf is the id of a sender's mail.
func mailOf(sender, n int) store.MailID { return store.MailID(n*senders + sender + 1) }

// textOf is the text of a mail: every fifth is in a file.
func textOf(id store.MailID) []byte {
	size := 3000
	if id%5 == 0 {
		size = store.MaxInline + 1
	}
	return bytes.Repeat([]byte(id.String()), size/idSize+1)[:size]
}

const idSize = 13

// stampOf is the stamp that a mail comes with.
func stampOf(id store.MailID) store.Stamp {
	return store.Stamp{Nonce: store.StampNonce(append([]byte(id.String()), make([]byte, 16-idSize)...)), Until: epoch}
}

// remembered is how many mails a sender has sent.
func remembered(tx store.MailTx, sender int) (int, error) {
	m, err := tx.Remembered("outgoing", fmt.Sprint("sender-", sender))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	n, bad := strconv.Atoi(string(m.State))
	return n, errors.Join(err, bad)
}

// accept takes the next mail of a sender, as the gate does.
func accept(ctx context.Context, m store.Mail, sender int) (n int, err error) {
	if err = m.View(ctx, func(tx store.MailTx) (err error) {
		n,
			err = remembered(tx, sender)
		return err
	}); err != nil {
		return 0, err
	}
	n++
	id := mailOf(sender, n)
	staged := m.Stage()
	defer staged.Discard()
	if _, err := staged.Write(textOf(id)); err != nil {
		return 0, err
	}
	text, err := staged.Seal()
	if err != nil {
		return 0, err
	}
	return n, m.Update(ctx, func(tx store.MailTx) error {
		if now, err := remembered(tx, sender); err != nil || now != n-1 {
			return fmt.Errorf("%d mails are remembered instead of %d (%w)", now, n-1, err)
		}
		if fresh, err := tx.Spend(stampOf(id), 1<<20); err != nil || !fresh {
			return fmt.Errorf("the stamp of a mail that was never accepted: fresh %t, %w", fresh, err)
		}
		if err := message(tx, id, text); err != nil {
			return err
		}
		return tx.Remember(store.Memory{Throttle: "outgoing", User: fmt.Sprint("sender-", sender),
			State: []byte(strconv.Itoa(n)), Due: epoch})
	})
}

// mailForEver accepts and delivers mail, and tells each step on its standard output after it was committed. Two mails
// of each sender stay on the way.
func mailForEver(folder, _ string) error {
	s, err := Open(context.Background(), Options{Folder: folder})
	if err != nil {
		return err
	}
	ctx := context.Background()
	var told sync.Mutex
	tell := func(what string, id store.MailID) error {
		told.Lock()
		defer told.Unlock()
		_, err := fmt.Println(what, id)
		return err
	}
	failed := make(chan error)
	for sender := range senders {
		go func() {
			for {
				n, err := accept(ctx, s.Mail(), sender)
				if err == nil {
					err = tell("accepted", mailOf(sender, n))
				}
				if id := mailOf(sender, n-2); err == nil && n > 2 {
					err = s.Mail().Update(ctx, func(tx store.MailTx) error { return tx.RemoveAddressees(id, 0) })
					if err == nil {
						err = tell("done", id)
					}
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// whole wants a spool to be what commits leave: of each sender the mails up to the number that is remembered, and none
// beyond, and the stamps of these mails spent, and no others. It returns the ids of those that are there.
func whole(t *testing.T, s *Store) (there map[store.MailID]bool) {
	t.Helper()
	there = map[store.MailID]bool{}
	var last [senders]int
	if err := s.Mail().View(t.Context(), func(tx store.MailTx) (err error) {
		for sender := range senders {
			if last[sender], err = remembered(tx, sender); err != nil {
				return err
			}
			for n := 1; n <= last[sender]+2; n++ {
				if spent, err := tx.Spent(stampOf(mailOf(sender, n)).Nonce); err != nil ||
					spent != (n <= last[sender]) {
					return fmt.Errorf("the stamp of number %d of %d is spent: %t (%w)", n, last[sender], spent, err)
				}
			}
		}
		all, err := tx.Messages(store.MessageQuery{}, store.MaxBatch)
		for _, l := range all {
			if len(l.To) != 1 {
				return fmt.Errorf("%s is to %d", l.ID, len(l.To))
			}
			there[l.ID] = true
		}
		_, addressees, err2 := tx.Count()
		if n := addressees[store.Ready]; n != len(all) {
			return fmt.Errorf("%d addressees of %d mails", n, len(all))
		}
		return errors.Join(err, err2)
	}); err != nil {
		t.Fatal(err)
	}
	for id := range there {
		if sender, n := int(id-1)%senders, int(id-1)/senders; n > last[sender] {
			t.Errorf("%s is number %d of %d", id, n, last[sender])
		}
		r, err := s.Mail().Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(text, textOf(id)) {
			t.Fatalf("the text of %s: %d bytes, %v", id, len(text), err)
		}
	}
	for sender, n := range last {
		if n > 0 && !there[mailOf(sender, n)] {
			t.Errorf("the last mail of sender %d is missing", sender)
		}
	}
	return there
}

// A process that is killed while mail comes and goes leaves every mail that it has acknowledged, and none that it is
// done with.
func TestKilledWithMail(t *testing.T) {
	folder := t.TempDir()
	accepted, done := map[store.MailID]bool{}, map[store.MailID]bool{}
	for round := range 5 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childFolder+"="+folder, "WEIR_STORE_MAIL=1")
		var said strings.Builder
		child.Stderr = &said
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil { // what was not told whole was not told
				break
			}
			what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			id, err := store.ParseMailID(text)
			if err != nil {
				t.Fatal(line)
			}
			map[string]map[store.MailID]bool{"accepted": accepted, "done": done}[what][id] = true
			if n == 30+41*round {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait()
		if said.Len() > 0 {
			t.Fatalf("the child says: %s", &said)
		}
		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		there, missing := whole(t, s), 0
		for id := range accepted {
			if !there[id] && !done[id] {
				missing++ // a removal may have been under way, of one mail by each sender in each round
			}
		}
		if missing > senders*(round+1) {
			t.Errorf("round %d: %d mails were acknowledged and are missing", round, missing)
		}
		for id := range accepted { // nobody was about to remove the last two of each sender
			if n, sender := int(id-1)/senders, int(id-1)%senders; !accepted[mailOf(sender, n+2)] &&
				!there[mailOf(sender, n+2)] && !there[id] {
				t.Errorf("round %d: %s was acknowledged and is missing", round, id)
			}
		}
		for id := range done {
			if there[id] {
				t.Errorf("round %d: %s is there again", round, id)
			}
		}
		if _, err := s.Mail().Sweep(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		if again := whole(t, s); len(again) != len(there) {
			t.Error("Sweep has taken mail with it")
		}
		if files := textFiles(t, folder); files != filed(there) {
			t.Errorf("%d files of %d mails", files, filed(there))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d mails were acknowledged, %d done with, and none is missing", len(accepted), len(done))
}

// filed is how many mails have a file.
func filed(ids map[store.MailID]bool) (n int) {
	for id := range ids {
		if len(textOf(id)) > store.MaxInline {
			n++
		}
	}
	return n
}

// textFiles is how many files of texts there are.
func textFiles(t *testing.T, folder string) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, MailFolder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A log that was torn by a power failure, anywhere, recovers to what was committed at some moment.
func TestATornLog(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, Options{Folder: folder})
	const mails = 8
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for range mails {
				if _, err := accept(t.Context(), s.Mail(), sender); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	db, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(s.Path() + "-wal")
	if err != nil || len(log) < 100*pageSize {
		t.Fatal(len(log), err)
	}
	most := 0
	for i := range 12 {
		cut := len(log) * (i + 1) / 12
		for name, torn := range map[string][]byte{
			"cut": log[:cut-i*37%4000],
			"garbled": append(append(bytes.Clone(log[:max(cut-5000, 0)]), bytes.Repeat([]byte("?"), 300)...),
				log[max(cut-4700, 0):]...),
			"zeroes": append(bytes.Clone(log[:cut-cut%4120]), make([]byte, len(log)-cut+cut%4120)...),
		} {
			if name != "cut" && i%3 != 0 {
				continue
			}
			folder2 := t.TempDir()
			if err := errors.Join(os.WriteFile(filepath.Join(folder2, File), db, 0o600),
				os.WriteFile(filepath.Join(folder2, File+"-wal"), torn, 0o600),
				os.Symlink(filepath.Join(folder, MailFolder), filepath.Join(folder2, MailFolder))); err != nil {
				t.Fatal(err)
			}
			copied, err := Open(t.Context(), Options{Folder: folder2})
			if err != nil {
				t.Fatalf("%s at %d of %d: %v", name, cut, len(log), err)
			}
			there := whole(t, copied)
			most = max(most, len(there))
			if _, err := accept(t.Context(), copied.Mail(), 0); err != nil {
				t.Errorf("%s at %d of %d: %v", name, cut, len(log), err)
			}
			if err := copied.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if most < senders*mails/2 {
		t.Errorf("%d mails are there at most", most)
	}
}
