//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"weir/store"
	"weir/store/sqlite"
)

// traceAcknowledged sends mails to a weir whose system calls are traced, and returns the mails that were acknowledged
// too early: before the log that has the mail was synced or, where the text is in a file, before the file and its
// folder were.
func (t *trial) traceAcknowledged(binary, folder string, mails int) (early []string) {
	strace := program("strace")
	data, file, end := subfolder(folder, "traced"), filepath.Join(folder, "trace"), t.startEnd()
	var w *running
	// -D makes weir the child; -yy writes what descriptors stand for.
	err := attempt(func() {
		w = t.runWeir(data, fmt.Sprintf(killConfig, data, "127.0.0.1:0", end.address), os.Stderr,
			strace, "-D", "-f", "-yy", "-s", "8192", "-e", "trace=write,pwrite64,fsync,fdatasync", "-e", "signal=none",
			"-o", file, binary)
	})
	if out, _ := os.ReadFile(file); err != nil && len(out) == 0 {
		err = errors.Join(errors.ErrUnsupported, err) // tracing is forbidden here
	}
	check(err)
	c := try(dialMail(w.address, ""))
	defer c.Close()
	chance := rand.New(rand.NewPCG(1, 1))
	type sent struct {
		subject, id string
		filed       bool
	}
	var all []sent
	for i := range mails {
		one := sent{subject: fmt.Sprintf("traced-%04d-", i), filed: i%5 == 4}
		size := 100 + chance.IntN(3000)
		if one.filed {
			size = 2 * store.MaxInline
		}
		check(c.send("ann@example.com", "bob@example.org", signedText(one.subject, size, chance)))
		_, one.id, _ = strings.Cut(string(c.last), "queued as ")
		all = append(all, one)
	}
	w.emptied()
	w.Stop()
	calls := readTrace(file)
	for _, m := range all {
		at := slices.IndexFunc(calls,
			func(c call) bool { return c.name == "write" && strings.Contains(c.args, "queued as "+m.id) })
		if at < 0 || m.id == "" {
			check(fmt.Errorf("%s was acknowledged, but the trace does not show it", m.subject))
		}
		if why := tooEarly(calls[:at], calls[at].begun, m.subject, m.filed); why != "" {
			early = append(early, m.subject+" was acknowledged, and "+why)
		}
		calls = calls[at+1:]
	}
	return early
}

// tooEarly returns what is missing among the calls before an acknowledgement, or "".
func tooEarly(calls []call, acknowledged int, subject string, filed bool) string {
	log := sqlite.File + "-wal>"
	// synced finds a sync that began after one line and was complete before another.
	synced := func(after, before int, path *regexp.Regexp) *call {
		i := slices.IndexFunc(calls, func(c call) bool {
			return strings.HasSuffix(c.name, "sync") && path.MatchString(c.args) && c.begun > after &&
				c.done < before && c.result == "0"
		})
		if i < 0 {
			return nil
		}
		return &calls[i]
	}
	written := slices.IndexFunc(calls, func(c call) bool {
		return c.name == "pwrite64" && strings.Contains(c.args, log) && strings.Contains(c.args, subject)
	})
	if written < 0 {
		return "was not in the log"
	}
	row := &calls[written]
	if synced(row.done, acknowledged, regexp.MustCompile(regexp.QuoteMeta(log))) == nil {
		return "the log was not synced"
	}
	if !filed {
		return ""
	}
	in := regexp.QuoteMeta(sqlite.MailFolder)
	text := synced(-1, row.begun, regexp.MustCompile(`/`+in+`/../[^>]+>`))
	if text == nil {
		return "its file was not synced"
	}
	if synced(text.done, row.begun, regexp.MustCompile(`/`+in+`/..>`)) == nil {
		return "the folder of its file was not synced"
	}
	return ""
}

// A call is a system call in a trace. It began and ended on lines of it.
type call struct {
	name, args, result string
	begun, done        int
}

// How strace writes a call, the beginning of one that another thread interrupts, and its end.
var (
	traceWhole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (\S+)`)
	traceBegun   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	traceResumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (\S+)`)
)

// readTrace reads a trace, in the order in which the calls began.
func readTrace(file string) (calls []call) {
	open := map[string]int{} // by thread
	line := 0
	for text := range strings.Lines(string(try(os.ReadFile(file)))) {
		text = strings.TrimSuffix(text, "\n")
		if m := traceWhole.FindStringSubmatch(text); m != nil {
			calls = append(calls, call{m[2], m[3], m[4], line, line})
		} else if m := traceBegun.FindStringSubmatch(text); m != nil {
			open[m[1]] = len(calls)
			calls = append(calls, call{m[2], m[3], "", line, math.MaxInt})
		} else if m := traceResumed.FindStringSubmatch(text); m != nil {
			if i, ok := open[m[1]]; ok && calls[i].name == m[2] {
				calls[i].args += m[3]
				calls[i].result, calls[i].done = m[4], line
				delete(open, m[1])
			}
		}
		line++
	}
	return calls
}

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
		for q := (store.MessageQuery{}); ; {
			page, err := tx.Messages(q, 1000)
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
