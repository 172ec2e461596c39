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

// tear copies a store that was left by a kill, spoils the end of its log, and opens it: as it would be after a power
// failure, when only a part of what was last written has come to the disk. What was written before is there, whole.
func (k *killed) tear(data, folder string, chance *rand.Rand) error {
	log, err := os.ReadFile(filepath.Join(data, sqlite.File+"-wal"))
	if err != nil {
		return err
	}
	all, problem := k.look(data, folder, log, true)
	if problem != nil {
		k.wanting = append(k.wanting, "a log that was not torn: "+problem.Error())
		return nil
	}
	noise := make([]byte, 24+4096)
	for i := range noise {
		noise[i] = byte(chance.Uint32())
	}
	// Something follows that was begun and never finished: nothing is missing.
	valid := validLog(log)
	k.torn++
	if there, problem := k.look(data, folder, append(slices.Clone(log[:valid]), noise[:chance.IntN(len(noise))]...),
		true); problem != nil || !maps.Equal(there, all) {
		k.wanting = append(k.wanting, fmt.Sprintf("a log that goes on: %d mails instead of %d, %v", len(there),
			len(all), problem))
	}
	if valid/(24+4096) >= 4000 {
		return nil // some of it may have been carried over, and would not have been had it not been safe
	}
	for range 4 {
		at := 32 + chance.IntN(max(1, valid-32))
		torn := slices.Clone(log[:at])
		if chance.IntN(2) == 0 {
			torn = slices.Clone(log)
			copy(torn[at:], noise[:min(len(noise), len(torn)-at, 512)])
		}
		k.torn++
		if _, problem := k.look(data, folder, torn, false); problem != nil {
			k.wanting = append(k.wanting, fmt.Sprintf("a log of %d bytes torn at %d: %v", len(log), at, problem))
		}
	}
	return nil
}

// validLog is how much of a write-ahead log belongs to what it was last begun for;
// https://www.sqlite.org/fileformat2.html section 4.
func validLog(log []byte) int {
	const header, frame = 32, 24 + 4096
	at := header
	for at+frame <= len(log) && bytes.Equal(log[at+8:at+16], log[16:24]) {
		at += frame
	}
	return min(at, len(log))
}

// look opens a copy of a store with another log, and returns the mails in it. With files, those that are too long for
// the store must be there too: an older log may name files that are gone since.
func (k *killed) look(data, folder string, log []byte, files bool) (map[store.MailID]string, error) {
	copied, err := os.MkdirTemp(folder, "torn")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(copied)
	db, err := os.ReadFile(filepath.Join(data, sqlite.File))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(copied, sqlite.File), db, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(copied, sqlite.File+"-wal"), log, 0o600); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(data, sqlite.MailFolder)); err == nil {
		if err := os.CopyFS(filepath.Join(copied, sqlite.MailFolder),
			os.DirFS(filepath.Join(data, sqlite.MailFolder))); err != nil {
			return nil, err
		}
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: copied}) // which checks the file
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all := map[store.MailID]string{}
	filed := map[store.MailID]bool{}
	err = s.Mail().View(ctx, func(tx store.MailTx) error {
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
	})
	if err != nil {
		return nil, err
	}
	for id, subject := range all {
		if filed[id] && !files {
			continue
		}
		text, err := s.Mail().Open(ctx, id)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(text)
		text.Close()
		if err != nil {
			return nil, err
		}
		if is, intact := whole(b); is != subject || !intact {
			return nil, fmt.Errorf("%s is damaged", subject)
		}
	}
	return all, nil
}
