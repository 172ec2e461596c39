//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"weir/store"
	"weir/store/sqlite"
)

// tear copies a store that was left by a kill, spoils the end of its log, and opens it. A power failure can leave such
// a store, when only a part of what was last written is on the disk. What was written before must be there, whole.
func (k *killed) tear(data, folder string, chance *rand.Rand) {
	log := try(os.ReadFile(filepath.Join(data, sqlite.File+"-wal")))
	all, problem := look(data, folder, log, true)
	if problem != nil {
		k.wanting = append(k.wanting, "a log that was not torn: "+problem.Error())
		return
	}
	noise := make([]byte, 24+4096)
	for i := range noise {
		noise[i] = byte(chance.Uint32())
	}
	// A record that was begun and never finished follows: nothing is missing.
	valid := validLog(log)
	k.torn++
	if there, problem := look(data, folder, append(slices.Clone(log[:valid]), noise[:chance.IntN(len(noise))]...),
		true); problem != nil || !maps.Equal(there, all) {
		k.wanting = append(k.wanting, fmt.Sprintf("a log that goes on: %d mails instead of %d, %v", len(there),
			len(all), problem))
	}
	if valid/(24+4096) >= 4000 {
		return // a part may have been checkpointed, which SQLite does only when it is safe
	}
	for range 4 {
		at := 32 + chance.IntN(max(1, valid-32))
		torn := slices.Clone(log[:at])
		if chance.IntN(2) == 0 {
			torn = slices.Clone(log)
			copy(torn[at:], noise[:min(len(noise), len(torn)-at, 512)])
		}
		k.torn++
		if _, problem := look(data, folder, torn, false); problem != nil {
			k.wanting = append(k.wanting, fmt.Sprintf("a log of %d bytes torn at %d: %v", len(log), at, problem))
		}
	}
}

// validLog is how much of a write-ahead log belongs to its latest generation;
// https://www.sqlite.org/fileformat2.html section 4.
func validLog(log []byte) int {
	const header, frame = 32, 24 + 4096
	at := header
	for at+frame <= len(log) && bytes.Equal(log[at+8:at+16], log[16:24]) {
		at += frame
	}
	return min(at, len(log))
}

// look opens a copy of a store with another log, and returns the mails in it. With files, the mails that are too long
// for the store must be there too: an older log may name files that are gone since.
func look(data, folder string, log []byte, files bool) (all map[store.MailID]string, problem error) {
	problem = attempt(func() {
		copied := try(os.MkdirTemp(folder, "torn"))
		defer os.RemoveAll(copied)
		db := try(os.ReadFile(filepath.Join(data, sqlite.File)))
		check(os.WriteFile(filepath.Join(copied, sqlite.File), db, 0o600))
		check(os.WriteFile(filepath.Join(copied, sqlite.File+"-wal"), log, 0o600))
		if _, err := os.Stat(filepath.Join(data, sqlite.MailFolder)); err == nil {
			check(os.CopyFS(filepath.Join(copied, sqlite.MailFolder),
				os.DirFS(filepath.Join(data, sqlite.MailFolder))))
		}
		all = mailsIn(copied, files)
	})
	return all, problem
}

func mailsIn(folder string, files bool) map[store.MailID]string {
	ctx := context.Background()
	s := try(sqlite.Open(ctx, sqlite.Options{Folder: folder})) // which checks the file
	defer s.Close()
	all, filed := map[store.MailID]string{}, map[store.MailID]bool{}
	check(s.Mail().View(ctx, func(tx store.MailTx) error {
		for q := (store.LetterQuery{}); ; {
			page, err := tx.Letters(q, 1000)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, l := range page {
				all[l.ID], filed[l.ID], q.After = l.Subject, l.Filed != "", l.ID
				if len(l.To) == 0 {
					return fmt.Errorf("%s is for nobody", l.ID)
				}
			}
		}
	}))
	for id, subject := range all {
		if filed[id] && !files {
			continue
		}
		text := try(s.Mail().Open(ctx, id))
		b, err := io.ReadAll(text)
		text.Close()
		check(err)
		if is, intact := whole(b); is != subject || !intact {
			check(fmt.Errorf("%s is damaged", subject))
		}
	}
	return all
}
